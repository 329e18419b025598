"""OP-7: two statuses that disagree, and come to agree."""

import pytest

from chaos.checks import statuses_differ, success_converged

WHO = {"namespace": "ns", "rayjob": "job1"}
EARLY = statuses_differ(**WHO, deployment="Running", job=["", "PENDING"])
AT_END = statuses_differ(**WHO, deployment="Complete", job=["", "PENDING", "RUNNING"])
CONVERGED = success_converged(**WHO, submission_id="s1")


def record(story, t, status):
    target = {"namespace": "ns", "cluster": "c1", "submission_id": "s1"}
    story.probe("job", t, target=target, value={"status": status})


@pytest.fixture
def unseen(story):
    """A job ends at 24 s, while nobody updates its RayJob, and the RayJob says so at 40 s."""
    story.phase("begin", 5, claims=[["OP-7", "ended-unseen"]])
    story.rayjob(6, "Initializing")
    story.rayjob(8, "Running")
    story.rayjob(12, "Running", jobStatus="RUNNING")
    record(story, 22, "RUNNING")
    record(story, 24, "SUCCEEDED")
    story.rayjob(40, "Complete", jobStatus="SUCCEEDED")
    story.end(50)
    return story


def test_running_before_the_job_runs(unseen):
    assert EARLY.judge(unseen.view()).outcome == "holds"
    assert AT_END.judge(unseen.view()).outcome == "broken"


def test_statuses_that_never_differ(unseen):
    unseen.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] == 8)
    assert EARLY.judge(unseen.view()).outcome == "broken"
    unseen.gap("rayjobs", 7, 9)
    assert EARLY.judge(unseen.view()).outcome == "unknown"


def test_a_stage_that_was_never_seen(unseen):
    assert statuses_differ(**WHO, deployment="Waiting", job=[""]).judge(unseen.view()).outcome == "unknown"


def test_success_that_is_told_late(unseen):
    finding = CONVERGED.judge(unseen.view())
    assert finding.outcome == "holds", finding.reason
    assert finding.recovery_seconds == {"statuses_agree": 16.0}


def test_success_that_is_told_as_failure(unseen):
    unseen.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] == 40)
    unseen.rayjob(40, "Failed", jobStatus="FAILED", reason="JobDeploymentStatusTransitionGracePeriodExceeded")
    finding = CONVERGED.judge(unseen.view())
    assert finding.outcome == "broken"
    assert finding.reason.endswith("Failed with jobStatus FAILED: JobDeploymentStatusTransitionGracePeriodExceeded")


def test_a_failure_is_no_success(unseen):
    for entry in unseen.entries:
        if entry["what"] == "probe" and entry["t"] == 24:
            entry["value"]["status"] = "FAILED"
    assert CONVERGED.judge(unseen.view()).outcome == "broken"


@pytest.mark.parametrize("t", [12, 40])
def test_a_status_that_was_not_running_or_never_changed(unseen, t):
    unseen.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] == t)
    assert CONVERGED.judge(unseen.view()).outcome == "unknown"


def test_a_poll_is_no_disagreement(unseen):
    unseen.rayjob(26, "Running", jobStatus="SUCCEEDED")
    assert CONVERGED.judge(unseen.view()).outcome == "unknown"


def test_a_record_that_never_ended(unseen):
    unseen.drop(lambda e: e["what"] == "probe" and e["t"] == 24)
    assert CONVERGED.judge(unseen.view()).outcome == "unknown"
