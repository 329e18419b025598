"""OP-6: the submitter alone is tried again."""

import pytest

from chaos.checks import submitter_retried

RETRIED = submitter_retried(namespace="ns", rayjob="job1")


@pytest.fixture
def lost(story):
    """A submitter pod is deleted at 20 s; its replacement runs at 31 s, and the RayJob is Complete at 70 s."""
    story.phase("begin", 5, claims=[["OP-6", "submitter-pod-deleted"]])
    story.rayjob(6, "Initializing")
    story.job(7, "uid-job")
    story.rayjob(8, "Running")
    story.pod(8, "s1", "uid-s1", "submitter", "ADDED")
    story.rayjob(15, "Running", jobStatus="RUNNING")
    target = {"namespace": "ns", "pod": "s1", "uid": "uid-s1"}
    story.step("delete-pod", "record", 19.9, target)
    story.step("delete-pod", "apply", 20, target)
    story.pod(20.5, "s1", "uid-s1", "submitter", "DELETED", deleting=True)
    story.step("delete-pod", "effect", 20.6, target)
    story.pod(30, "s2", "uid-s2", "submitter", "ADDED", phase="Pending", ready=False, container=None)
    story.pod(31, "s2", "uid-s2", "submitter")
    story.rayjob(69, "Running", jobStatus="SUCCEEDED")
    story.rayjob(70, "Complete", jobStatus="SUCCEEDED")
    story.end(80)
    return story


def test_another_pod_and_the_same_job(lost):
    finding = RETRIED.judge(lost.view())
    assert finding.outcome == "holds", finding.reason
    assert finding.recovery_seconds["submitter_replaced"] == pytest.approx(11)


def test_a_rayjob_that_fails_with_its_submitter(lost):
    lost.rayjob(40, "Failed", jobStatus="RUNNING", reason="SubmissionFailed")
    finding = RETRIED.judge(lost.view())
    assert finding.outcome == "broken"
    assert "SubmissionFailed; jobStatus RUNNING" in finding.reason


@pytest.mark.parametrize("change", [{"jobId": "job1-zzzzz"}, {"rayClusterName": "job1-zzzzz"}])
def test_a_job_of_another_name(lost, change):
    lost.rayjob(40, "Running", jobStatus="RUNNING", **change)
    assert RETRIED.judge(lost.view()).outcome == "broken"


@pytest.mark.parametrize("stage", ["Retrying", "Initializing", ""])
def test_another_attempt(lost, stage):
    lost.rayjob(40, stage)
    assert RETRIED.judge(lost.view()).outcome == "broken"


def test_no_other_pod(lost):
    lost.drop(lambda e: e.get("uid") == "uid-s2")
    assert RETRIED.judge(lost.view()).outcome == "broken"
    lost.gap("pods", 30, 32)
    assert RETRIED.judge(lost.view()).outcome == "unknown"


def test_a_pod_that_never_ran_is_none(lost):
    lost.drop(lambda e: e.get("uid") == "uid-s2" and e["t"] == 31)
    assert RETRIED.judge(lost.view()).outcome == "broken"


def test_a_replacement_may_be_seen_only_when_it_has_ended(lost):
    lost.drop(lambda e: e.get("uid") == "uid-s2" and e["t"] == 31)
    lost.pod(35, "s2", "uid-s2", "submitter", phase="Succeeded", container="terminated", exit_code=0)
    assert RETRIED.judge(lost.view()).outcome == "holds"


def test_too_early_to_tell(lost):
    lost.end(25)
    assert RETRIED.judge(lost.view()).outcome == "unknown"


def test_a_job_that_has_not_ended(lost):
    lost.end(60)
    assert RETRIED.judge(lost.view()).outcome == "unknown"


def test_a_job_that_did_not_run_at_the_fault(lost):
    lost.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] == 15)
    assert RETRIED.judge(lost.view()).outcome == "unknown"


def test_a_fault_elsewhere(lost):
    other = submitter_retried(namespace="another", rayjob="job1")
    assert other.judge(lost.view()).reason == "no fault was applied in another"
