from __future__ import annotations

import pytest

from chaos.checks import fault_lasted, outage_ended

CHECK = outage_ended(namespace="ns", cluster="c1", within=30)
NAMESPACE = {"namespace": "ns", "pod": "h1"}


@pytest.fixture
def silent(story):
    """Redis is out of reach from 20 to 40 s: nothing works, every pod is Ready, and at 43 s all works again."""
    story.phase("begin", 5, claims=[["FT-13", "black-hole"]])
    story.pod(1, "h1", "uid-h1", "head", "ADDED")
    story.pod(1, "w1", "uid-w1", "worker", "ADDED")
    for step, t in (("apply", 20), ("effect", 20.5), ("undo", 39.5), ("undone", 40)):
        story.step("partition", step, t, NAMESPACE)
    for t in (15, 31, 39, 43, 65):
        story.functional(t, ok=not 20 < t < 40, count=1)
    story.end(70)
    return story


def test_an_outage_that_no_readiness_told_of(silent):
    finding = CHECK.judge(silent.view())
    assert finding.outcome == "holds"
    assert "c1 did not work for 23.0 s (every pod was Ready all the while)" in finding.reason
    assert finding.recovery_seconds == {"outage": 23, "outage_unseen": 23}


def test_an_outage_that_a_head_told_of_in_the_end(silent):
    silent.pod(27, "h1", "uid-h1", "head", ready=False, restarts=1, exit_code=1)
    silent.pod(38, "h1", "uid-h1", "head", restarts=1, exit_code=1)
    finding = CHECK.judge(silent.view())
    assert finding.outcome == "holds"
    assert "readiness told after 7.0 s" in finding.reason
    assert finding.recovery_seconds == {"outage": 23, "outage_unseen": 7}


def test_a_pod_of_another_moment_tells_nothing(silent):
    silent.pod(10, "w1", "uid-w1", "worker", ready=False)
    silent.pod(12, "w1", "uid-w1", "worker")
    silent.pod(50, "w1", "uid-w1", "worker", ready=False)
    assert CHECK.judge(silent.view()).recovery_seconds["outage_unseen"] == 23


def test_the_last_failure_counts_not_the_first_success(silent):
    silent.functional(50, ok=False, count=1)
    assert CHECK.judge(silent.view()).recovery_seconds["outage"] == 45


def test_an_outage_that_outlives_its_fault(silent):
    for t in (43, 65):
        silent.drop(lambda e, t=t: e["what"] == "probe" and e["t"] == t)
        silent.functional(t, ok=False, count=1)
    silent.end(90)
    finding = CHECK.judge(silent.view())
    assert finding.outcome == "broken"
    assert "did not work 50 s after the fault was over" in finding.reason
    silent.functional(80, ok=True, count=1)
    assert CHECK.judge(silent.view()).outcome == "broken"
    assert outage_ended(namespace="ns", cluster="c1", within=60).judge(silent.view()).outcome == "holds"


def test_a_cluster_that_was_not_seen_to_fail(silent):
    silent.drop(lambda e: e["what"] == "probe" and not e["ok"])
    assert CHECK.judge(silent.view()).outcome == "unknown"


def test_a_record_that_ends_too_early_or_has_a_hole(silent):
    silent.gap("pods", 25, 30)
    assert CHECK.judge(silent.view()).outcome == "unknown"
    silent.end(42)
    assert CHECK.judge(silent.view()).outcome == "unknown"


@pytest.mark.parametrize(("at_least", "outcome"), [(19, "holds"), (19.5, "unknown"), (21, "broken")])
def test_how_long_a_fault_was_in_force(silent, at_least, outcome):
    assert fault_lasted(namespace="ns", at_least=at_least).judge(silent.view()).outcome == outcome


def test_a_fault_elsewhere_or_without_an_end_says_nothing(silent):
    assert fault_lasted(namespace="other", at_least=1).judge(silent.view()).outcome == "unknown"
    silent.drop(lambda e: e.get("step") == "undone")
    assert fault_lasted(namespace="ns", at_least=1).judge(silent.view()).outcome == "unknown"
