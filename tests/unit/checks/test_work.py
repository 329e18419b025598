"""OP-12: what becomes of work whose worker or head is lost."""

import pytest

from chaos.checks import task_retried, work_resumed

WHO = {"namespace": "ns", "rayjob": "job1"}
RESUMED, RETRIED = work_resumed(**WHO), task_retried(**WHO)
EPOCH = 1_800_000_000


def run(first, last, began, ended, execution="e1"):
    times = {"began": EPOCH + began, "ended": EPOCH + ended}
    return {"execution": execution, "first": first, "last": last, "steps": last - first + 1, **times}


@pytest.fixture
def lost(story):
    """The worker is lost at 20 s, with step 40 done; the RayJob is Complete at 60 s."""
    story.phase("begin", 5, claims=[["OP-12", "worker-lost"]])
    story.rayjob(6, "Running")
    story.step("delete-pod", "record", 19.9)
    story.step("delete-pod", "apply", 20)
    story.rayjob(60, "Complete")
    story.end(70)
    return story


def told(story, *runs, executions=1):
    story.drop(lambda e: e["what"] == "probe")
    story.probe("steps", 62, target=WHO, value={"runs": list(runs)})
    story.probe("ledger", 62, target=WHO, value={"lines": [{"submission_id": "s1", "attempt": "c1"}] * executions})


BEFORE = run(1, 40, 10, 20.5)


@pytest.mark.parametrize("first", [40, 41])
def test_the_task_is_run_again_behind_its_checkpoint(lost, first):
    told(lost, BEFORE, run(first, 60, 45, 58))
    for check, seconds in ((RESUMED, "work_resumed"), (RETRIED, "task_retried")):
        finding = check.judge(lost.view())
        assert finding.outcome == "holds", finding.reason
        assert finding.recovery_seconds == {seconds: 24.5}


def test_without_a_checkpoint_it_begins_at_the_start(lost):
    told(lost, BEFORE, run(1, 20, 45, 58))
    assert RETRIED.judge(lost.view()).outcome == "holds"
    finding = RESUMED.judge(lost.view())
    assert finding.outcome == "broken"
    assert "had done step 40 and began again at step 1" in finding.reason


def test_another_execution_is_no_retry_of_the_task(lost):
    told(lost, BEFORE, run(41, 60, 45, 58, execution="e2"), executions=2)
    assert RESUMED.judge(lost.view()).outcome == "holds"
    assert RETRIED.judge(lost.view()).outcome == "broken"


@pytest.mark.parametrize("check", [RESUMED, RETRIED], ids=lambda check: check.name)
def test_work_that_is_not_done_again(lost, check):
    told(lost, BEFORE)
    assert check.judge(lost.view()).outcome == "broken"


@pytest.mark.parametrize("check", [RESUMED, RETRIED], ids=lambda check: check.name)
def test_a_rayjob_that_fails_all_the_same(lost, check):
    told(lost, BEFORE, run(41, 60, 45, 58))
    lost.rayjob(65, "Failed")
    assert check.judge(lost.view()).outcome == "broken"
    lost.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] > 20)
    assert check.judge(lost.view()).outcome == "unknown"


@pytest.mark.parametrize("check", [RESUMED, RETRIED], ids=lambda check: check.name)
def test_what_shows_nothing(lost, check):
    assert check.judge(lost.view()).outcome == "unknown", "no steps are known"
    told(lost, run(1, 2, 19, 20.5), run(3, 60, 45, 58))
    assert check.judge(lost.view()).outcome == "unknown", "too few steps to tell"
    told(lost, run(1, 60, 25, 58))
    assert check.judge(lost.view()).outcome == "unknown", "not under way at the fault"
    told(lost, run(1, 300, 10, 58))
    assert "not interrupted" in check.judge(lost.view()).reason
