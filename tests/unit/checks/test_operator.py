from __future__ import annotations

import pytest

from chaos.checks import (
    attempt_unchanged,
    facts,
    one_submission,
    one_submitter_job,
    operator_killed_in_window,
    same_job_reused,
    status_moved_on,
)
from chaos.errors import Unjudged

WHO = {"namespace": "ns", "rayjob": "job1"}
ONE_JOB = one_submitter_job(**WHO)
REUSED = same_job_reused(**WHO)
WINDOW = operator_killed_in_window(**WHO)
MOVED = status_moved_on(**WHO, to="Running")
ONCE = attempt_unchanged(**WHO, restarts=1)


@pytest.mark.parametrize("check", [ONE_JOB, REUSED, WINDOW, MOVED, ONCE], ids=lambda check: check.name)
def test_a_kill_that_is_survived(story, check):
    story.operator_kill()
    finding = check.judge(story.view())
    assert finding.outcome == "holds", finding.reason
    assert finding.evidence


def test_ray_pods_are_no_operators_though_kuberay_labels_them_so(story):
    """KubeRay gives heads and workers the very name label that its plain manifests give the operator."""
    story.operator_kill()
    for number, role in enumerate(("head", "worker", "submitter")):
        story.pod(3, f"p{number}", f"uid-{role}", role, "ADDED")
    story.pod(50, "p0", "uid-head", "head", restarts=4, exit_code=1)
    view = story.view()
    assert [pod.name for pod in facts.operator_pods(view)] == ["op"]
    counted = attempt_unchanged(**WHO, restarts=2).judge(view)
    assert (counted.outcome, counted.reason) == ("unknown", "the operator was restarted 1 time, 2 are needed")


def test_a_deleted_head_is_no_killed_operator(story):
    story.head_loss()
    with pytest.raises(Unjudged, match="no fault killed an operator"):
        facts.operator_kill(story.view())
    assert WINDOW.judge(story.view()).outcome == "unknown"


@pytest.mark.parametrize(
    ("labels", "role"),
    [
        ({"app.kubernetes.io/component": "kuberay-operator", "app.kubernetes.io/name": "kuberay"}, "operator"),
        ({"app.kubernetes.io/name": "kuberay-operator", "app.kubernetes.io/instance": "kuberay-operator"}, "operator"),
        ({"app.kubernetes.io/name": "kuberay", "ray.io/cluster": "ray", "ray.io/node-type": "head"}, "head"),
        ({"app.kubernetes.io/name": "kuberay", "ray.io/cluster": "ray", "ray.io/node-type": "worker"}, "worker"),
        ({"job-name": "ray-redis-cleanup", "ray.io/cluster": "ray", "ray.io/node-type": "redis-cleanup"}, "clean-up"),
        ({"batch.kubernetes.io/job-name": "job", "job-name": "job"}, "submitter"),
        ({"app.kubernetes.io/name": "kuberay"}, ""),
        ({}, ""),
    ],
)
def test_roles_by_real_labels(labels, role):
    assert facts.role({"metadata": {"name": "p", "labels": labels}}) == role


def test_a_second_job(story):
    story.operator_kill()
    story.job(40, "uid-job", "DELETED")
    story.job(41, "uid-job-2")
    for check in (ONE_JOB, REUSED):
        finding = check.judge(story.view())
        assert finding.outcome == "broken"
        assert "uid-job-2" in finding.reason


def test_a_second_job_of_another_name(story):
    story.operator_kill()
    story.job(41, "uid-job-2", name="job1-again")
    assert ONE_JOB.judge(story.view()).outcome == "broken"


def audit(story, t, code=201):
    story.add(
        "audit", t, verb="create", resource="jobs", namespace="ns", name="job1", user="operator", code=code,
        requested=0.0, answered=1_800_000_000.0 + t, id=str(t),
    )  # fmt: skip


def test_the_audit_log_tells_of_a_create_that_no_watch_saw(story):
    story.operator_kill()
    audit(story, 19.7)
    audit(story, 40, code=409)
    assert ONE_JOB.judge(story.view()).outcome == "holds"
    audit(story, 41)
    assert ONE_JOB.judge(story.view()).outcome == "broken"


@pytest.mark.parametrize("check", [ONE_JOB, REUSED], ids=lambda check: check.name)
def test_a_gap_could_hide_a_second_job(story, check):
    story.operator_kill()
    story.gap("jobs", 40, 42)
    assert check.judge(story.view()).outcome == "unknown"


@pytest.mark.parametrize("check", [ONE_JOB, REUSED], ids=lambda check: check.name)
def test_no_job_at_all(story, check):
    story.operator_kill()
    story.drop(lambda e: e.get("resource") == "jobs")
    assert check.judge(story.view()).outcome == "unknown"


def test_the_job_is_deleted_and_not_made_again(story):
    story.operator_kill()
    story.job(40, "uid-job", "DELETED")
    assert REUSED.judge(story.view()).outcome == "broken"


def test_the_status_was_written_before_the_kill(story):
    story.operator_kill()
    story.rayjob(19.9, "Running")
    finding = WINDOW.judge(story.view())
    assert (finding.outcome, finding.reason[:17]) == ("unknown", "missed the window")


def test_the_job_was_made_by_the_new_operator(story):
    story.operator_kill()
    story.drop(lambda e: e.get("resource") == "jobs")
    story.job(38, "uid-job")
    assert "missed the window" in WINDOW.judge(story.view()).reason
    assert REUSED.judge(story.view()).outcome == "unknown"


def test_no_new_operator(story):
    story.operator_kill()
    story.drop(lambda e: e.get("uid") == "uid-op" and e["t"] > 21)
    assert "no new operator" in WINDOW.judge(story.view()).reason


def test_no_fault_killed_an_operator(story):
    story.operator_kill()
    for entry in story.entries:
        if entry["what"] == "fault":
            entry["target"] = {"uid": "uid-of-another"}
    assert WINDOW.judge(story.view()).reason == "no fault killed an operator"


def test_the_status_stands_still(story):
    story.operator_kill()
    story.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] > 20)
    finding = MOVED.judge(story.view())
    assert finding.outcome == "broken"
    assert "never reached Running: it is Initializing" in finding.reason
    story.end(60)
    assert MOVED.judge(story.view()).outcome == "unknown"


def test_passing_the_stage_unseen_counts_and_failing_does_not(story):
    story.operator_kill()
    story.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] == 39)
    assert MOVED.judge(story.view()).outcome == "holds"
    story.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] > 20)
    story.rayjob(70, "Failed")
    assert MOVED.judge(story.view()).outcome == "broken"


def test_a_stage_that_was_reached_before_shows_nothing(story):
    story.operator_kill()
    assert status_moved_on(**WHO, to="Initializing").judge(story.view()).outcome == "unknown"


@pytest.mark.parametrize("change", [{"failed": 1}, {"rayClusterName": "job1-zzzzz"}, {"jobId": "job1-zzzzz"}])
def test_a_new_attempt(story, change):
    story.operator_kill()
    story.rayjob(50, "Running", **change)
    finding = ONCE.judge(story.view())
    assert finding.outcome == "broken"
    assert next(iter(change)) in finding.reason


def test_too_few_restarts_show_nothing(story):
    story.operator_kill()
    finding = attempt_unchanged(**WHO).judge(story.view())
    assert (finding.outcome, finding.reason) == ("unknown", "the operator was restarted 1 time, 3 are needed")


def test_new_pods_and_restarts_in_place_both_count(story):
    story.operator_kill()
    story.pod(50, "op", "uid-op", "operator", "DELETED", restarts=1)
    story.pod(51, "op2", "uid-op2", "operator", "ADDED", phase="Pending", ready=False, container=None)
    story.pod(52, "op2", "uid-op2", "operator")
    story.pod(60, "op2", "uid-op2", "operator", restarts=1)
    assert attempt_unchanged(**WHO).judge(story.view()).outcome == "holds"


def test_an_attempt_needs_names(story):
    story.operator_kill()
    story.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] == 7)
    assert "no attempt yet" in ONCE.judge(story.view()).reason


def ledger(story, lines, ids):
    where = {"namespace": "ns", "rayjob": "job1"}
    lines = [{"submission_id": "s1", "attempt": 1, "time": 1.0}] * lines
    story.probe("ledger", 90, target=where, value={"lines": lines})
    story.probe("submissions", 91, target=where, value={"ids": ids})


@pytest.mark.parametrize(
    ("lines", "ids", "outcome"),
    [(1, ["s1"], "holds"), (2, ["s1"], "broken"), (0, ["s1"], "broken"), (1, ["s1", "s2"], "broken")],
)
def test_the_ledger_counts_executions(story, lines, ids, outcome):
    story.operator_kill()
    ledger(story, lines, ids)
    assert one_submission(**WHO).judge(story.view()).outcome == outcome


def test_without_a_ledger_nothing_is_counted(story):
    story.operator_kill()
    assert one_submission(**WHO).judge(story.view()).outcome == "unknown"
