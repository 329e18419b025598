from __future__ import annotations

import pytest

from chaos.checks import actor_gone, actor_process_kept, actor_started_anew, driver_gone, job_failed

KEPT = actor_process_kept(namespace="ns", cluster="c1", actor="counter")
ANEW = actor_started_anew(namespace="ns", cluster="c1", actor="counter")
GONE = actor_gone(namespace="ns", cluster="c1", actor="mortal")
WHERE = {"namespace": "ns", "cluster": "c1", "submission_id": "s1"}


def replace_answers(story, **change):
    for entry in story.entries:
        if entry["what"] == "probe" and entry["ok"] and entry["t"] > 37:
            entry["value"]["actors"]["counter"] |= change


def test_the_process_is_kept(story):
    story.head_loss()
    finding = KEPT.judge(story.view())
    assert finding.outcome == "holds"
    assert "pid 174, counter 3→" in finding.reason
    finding = ANEW.judge(story.view())
    assert finding.outcome == "broken"
    assert "not started anew" in finding.reason


@pytest.mark.parametrize("change", [{"pid": 175}, {"born": "b2"}, {"count": 9}])
def test_another_process_or_a_standing_counter_breaks_it(story, change):
    story.head_loss()
    replace_answers(story, **change)
    assert KEPT.judge(story.view()).outcome == "broken"


def test_an_actor_that_started_anew(story):
    story.head_loss()
    replace_answers(story, born="b2", count=1)  # the same pid: numbers come round again in a new container
    finding = ANEW.judge(story.view())
    assert finding.outcome == "holds"
    assert "counter back from 3 to 1" in finding.reason


def test_a_new_process_with_the_old_count_had_its_state_recovered(story):
    story.head_loss()
    replace_answers(story, born="b2")
    assert ANEW.judge(story.view()).outcome == "broken"


@pytest.mark.parametrize("check", [KEPT, ANEW])
@pytest.mark.parametrize("when", [lambda t: t < 20, lambda t: t > 20])
def test_no_answer_on_one_side(story, check, when):
    story.head_loss()
    story.drop(lambda e: e["what"] == "probe" and when(e["t"]))
    assert check.judge(story.view()).outcome == "unknown"


@pytest.fixture
def mortal(story):
    """An actor that answers before the head is lost, of which Ray says afterwards that there is none."""
    story.head_loss()
    story.probe("functional", 17, value={"actors": {"mortal": {"pid": 9, "count": 1, "born": "m", "node": "n0"}}})
    story.probe("functional", 50, ok=False)
    story.entries[-1]["error"] = "actor:mortal: ValueError: Failed to look up actor with name 'mortal'"
    return story


def test_an_actor_that_ray_says_is_gone(mortal):
    finding = GONE.judge(mortal.view())
    assert finding.outcome == "holds"
    assert finding.reason == "Ray knows of no actor mortal, 30.0 s after the fault"


def test_an_actor_that_answers_again_is_not_gone(mortal):
    mortal.probe(
        "functional", 60, ok=False, value={"actors": {"mortal": {"pid": 7, "count": 1, "born": "n", "node": "n0"}}}
    )
    assert GONE.judge(mortal.view()).outcome == "broken"


@pytest.mark.parametrize(
    "error",
    ["actor:mortal: no answer within 5.0 s", "actor:other: ValueError: Failed to look up actor with name 'other'"],
)
def test_silence_and_the_end_of_another_are_not_the_end_of_an_actor(mortal, error):
    for entry in mortal.entries:
        if entry.get("error", "").startswith("actor:"):
            entry["error"] = error
    assert GONE.judge(mortal.view()).outcome == "unknown"


@pytest.mark.parametrize(
    "unwanted", [lambda e: e["t"] == 17, lambda e: e["what"] == "probe" and e["t"] > 20 and e["ok"]]
)
def test_an_actor_that_never_answered_or_a_cluster_that_never_works_tells_nothing(mortal, unwanted):
    mortal.drop(unwanted)
    assert GONE.judge(mortal.view()).outcome == "unknown"


def job(story, t, status, pid=None, message=""):
    story.probe("job", t, target=WHERE, value={"status": status, "driver_pid": pid, "message": message})


@pytest.mark.parametrize("last", ["FAILED", "ABSENT"])
def test_the_job_fails(story, last):
    story.head_loss()
    job(story, 15, "RUNNING", 300)
    job(story, 50, last)
    assert job_failed(**WHERE).judge(story.view()).outcome == "holds"


def test_the_job_succeeds_at_some_time(story):
    story.head_loss()
    job(story, 15, "RUNNING", 300)
    job(story, 50, "SUCCEEDED")
    job(story, 60, "FAILED")
    assert job_failed(**WHERE).judge(story.view()).outcome == "broken"


@pytest.mark.parametrize("before", ["PENDING", None])
def test_a_job_that_did_not_run_at_the_fault(story, before):
    story.head_loss()
    if before:
        job(story, 15, before)
    job(story, 50, "FAILED")
    assert job_failed(**WHERE).judge(story.view()).outcome == "unknown"


def test_a_job_that_still_runs(story):
    story.head_loss()
    job(story, 15, "RUNNING", 300)
    job(story, 50, "RUNNING", 300)
    assert job_failed(**WHERE).judge(story.view()).outcome == "unknown"


def test_the_driver_goes_with_its_container(story):
    story.head_loss()
    job(story, 15, "RUNNING", 300)
    job(story, 50, "FAILED", 300)  # another process under the old number
    assert driver_gone(**WHERE).judge(story.view()).outcome == "holds"


def test_the_driver_lives_on_though_its_job_failed(story):
    story.head_loss()
    story.drop(lambda e: e.get("uid") in ("uid-h1", "uid-h2") and e["t"] > 20)
    job(story, 15, "RUNNING", 300)
    job(story, 50, "FAILED", 300)
    assert driver_gone(**WHERE).judge(story.view()).outcome == "broken"


def test_no_driver_was_found_before(story):
    story.head_loss()
    job(story, 15, "RUNNING")
    job(story, 50, "FAILED")
    assert driver_gone(**WHERE).judge(story.view()).outcome == "unknown"
