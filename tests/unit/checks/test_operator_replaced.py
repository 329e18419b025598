"""OP-14: pods that another version of the operator finds."""

import pytest

from chaos.checks import job_kept, pods_kept

KEPT = pods_kept(namespace="ns")
WHO = {"namespace": "ns", "rayjob": "job1"}
JOB = job_kept(**WHO)
VERSION = "kuberay-chaos/kuberay-version"


def operator(story, t, version, change="ADDED", **state):
    story.pod(t, f"op-{version}", f"uid-{version}", "operator", change, **state)
    story.entries[-1]["object"]["metadata"]["labels"][VERSION] = version


def lease(story, t, holder):
    meta = {"name": "ray-operator-leader", "namespace": "operators", "uid": "uid-lease"}
    story.object("leases", t, {"metadata": meta, "spec": {"holderIdentity": holder}})


@pytest.fixture
def upgraded(story):
    """1.0 comes at 6 s and makes three pods; from 30 s on 2.0 takes its place, and leads from 50 s on."""
    story.phase("begin", 5, claims=[["OP-14", "definitions-first"]])
    operator(story, 1, "2.0-before")
    story.step("replace-operator", "record", 5.5)
    story.step("replace-operator", "apply", 6)
    operator(story, 7, "2.0-before", "DELETED")
    operator(story, 8, "1.0")
    lease(story, 9, "op-1.0_a")
    story.step("replace-operator", "effect", 10)
    story.pod(12, "h1", "uid-h1", "head", "ADDED")
    story.pod(13, "w1", "uid-w1", "worker", "ADDED")
    story.pod(20, "s1", "uid-s1", "submitter", "ADDED")
    story.rayjob(21, "Running")
    story.step("replace-operator", "undo", 30)
    operator(story, 32, "1.0", "DELETED", deleting=True)
    operator(story, 33, "2.0")
    lease(story, 50, "op-2.0_b")
    story.step("replace-operator", "undone", 51)
    story.end(110)
    return story


def test_pods_are_left_as_they_are(upgraded):
    finding = KEPT.judge(upgraded.view())
    assert finding.outcome == "holds", finding.reason
    assert "operator 1.0 → 2.0: 3 pods kept" in finding.reason
    assert finding.recovery_seconds == {"operator_replaced": 20.0}


def test_a_worker_is_deleted(upgraded):
    upgraded.pod(52, "w1", "uid-w1", "worker", deleting=True)
    finding = KEPT.judge(upgraded.view())
    assert finding.outcome == "broken"
    assert "1 of 3 pods lost: w1 is being deleted, 22.0 s after it began" in finding.reason


def test_a_head_is_restarted_in_place(upgraded):
    upgraded.pod(52, "h1", "uid-h1", "head", restarts=1, exit_code=1)
    assert KEPT.judge(upgraded.view()).outcome == "broken"


def test_a_pod_is_made_besides(upgraded):
    upgraded.pod(52, "s2", "uid-s2", "submitter", "ADDED")
    finding = KEPT.judge(upgraded.view())
    assert finding.outcome == "broken"
    assert "0 of 3 pods lost: s2 made" in finding.reason


def test_what_goes_when_the_job_has_ended_is_no_loss(upgraded):
    upgraded.pod(94, "s1", "uid-s1", "submitter", ready=False, container="terminated", exit_code=0)
    upgraded.pod(94.2, "s1", "uid-s1", "submitter", phase="Succeeded", ready=False, container="terminated", exit_code=0)
    upgraded.rayjob(95, "Complete")
    upgraded.pod(96, "h1", "uid-h1", "head", deleting=True)
    assert KEPT.judge(upgraded.view()).outcome == "holds"
    upgraded.pod(94.5, "h1", "uid-h1", "head", deleting=True)
    assert KEPT.judge(upgraded.view()).outcome == "broken"


def test_a_submitter_that_fails_is_lost(upgraded):
    upgraded.pod(60, "s1", "uid-s1", "submitter", ready=False, container="terminated", exit_code=1)
    assert KEPT.judge(upgraded.view()).outcome == "broken"


def test_what_a_third_operator_does_is_not_this_ones(upgraded):
    upgraded.add(
        "fault", 95, fault="replace-operator", id="another", group="another", step="apply", target={}, detail={}
    )
    upgraded.pod(96, "w1", "uid-w1", "worker", deleting=True)
    assert KEPT.judge(upgraded.view()).outcome == "holds"


def test_too_short_a_look(upgraded):
    upgraded.end(85)
    assert "too early to tell" in KEPT.judge(upgraded.view()).reason


@pytest.mark.parametrize("missing", ["pods", "leases"])
def test_what_was_not_seen_is_unknown(upgraded, missing):
    upgraded.drop(lambda e: e.get("resource") == missing and e["t"] > 30)
    assert KEPT.judge(upgraded.view()).outcome == "unknown"


def test_the_same_version_again_is_unknown(upgraded):
    for entry in upgraded.entries:
        if entry.get("name") == "op-2.0":
            entry["object"]["metadata"]["labels"][VERSION] = "1.0"
    assert "same version" in KEPT.judge(upgraded.view()).reason


def test_no_pods_and_gaps_are_unknown(upgraded):
    assert pods_kept(namespace="elsewhere").judge(upgraded.view()).outcome == "unknown"
    upgraded.gap("pods", 60, 61)
    assert KEPT.judge(upgraded.view()).outcome == "unknown"


def executed(story, times=1):
    story.drop(lambda e: e["what"] == "probe")
    story.probe("ledger", 105, target=WHO, value={"lines": [{"submission_id": "s", "attempt": "c"}] * times})


def test_the_job_goes_on_in_its_attempt(upgraded):
    upgraded.rayjob(95, "Complete")
    upgraded.gap("rayjobs", 31, 32)
    assert JOB.judge(upgraded.view()).outcome == "unknown", "nobody read the ledger"
    executed(upgraded)
    finding = JOB.judge(upgraded.view())
    assert finding.outcome == "holds", finding.reason


@pytest.mark.parametrize("status", [{"jobId": "another"}, {"rayClusterName": "another"}, {"failed": 1}])
def test_the_job_is_in_another_attempt(upgraded, status):
    upgraded.rayjob(95, "Complete", **status)
    executed(upgraded)
    assert JOB.judge(upgraded.view()).outcome == "broken"


def test_the_job_fails_or_is_executed_twice(upgraded):
    executed(upgraded, 2)
    upgraded.rayjob(94, "Complete")
    assert JOB.judge(upgraded.view()).outcome == "broken"
    executed(upgraded)
    upgraded.rayjob(95, "Failed")
    assert JOB.judge(upgraded.view()).outcome == "broken"


def test_a_job_that_has_not_ended_or_did_not_run(upgraded):
    executed(upgraded)
    assert JOB.judge(upgraded.view()).outcome == "unknown"
    upgraded.rayjob(95, "Complete")
    upgraded.rayjob(29, "Initializing")
    assert JOB.judge(upgraded.view()).outcome == "unknown"
