from __future__ import annotations

import pytest

from chaos.checks import functional_twice, head_recovery, one_head

RECOVERY = head_recovery(namespace="ns", cluster="c1", within=60)
ONE = one_head(namespace="ns", cluster="c1")
TWICE = functional_twice(namespace="ns", cluster="c1")


def test_recovery_is_split(story):
    story.head_loss()
    finding = RECOVERY.judge(story.view())
    assert finding.outcome == "holds"
    assert finding.recovery_seconds == pytest.approx(
        {"old_gone": 2.6, "new_created": 2.9, "scheduled": 3.0, "started": 5.0, "ready": 15.4, "functional": 17.2}
    )


def test_recovery_in_place(story):
    story.head_loss()
    story.drop(lambda e: e.get("uid") in ("uid-h1", "uid-h2") and e["t"] > 20)
    story.pod(20.5, "h1", "uid-h1", "head", ready=False, container="terminated", exit_code=1)
    story.pod(22.0, "h1", "uid-h1", "head", ready=False, restarts=1, exit_code=1)
    story.pod(33.0, "h1", "uid-h1", "head", restarts=1, exit_code=1)
    finding = RECOVERY.judge(story.view())
    assert finding.outcome == "holds"
    assert finding.recovery_seconds == pytest.approx({"scheduled": 2, "started": 2, "ready": 13, "functional": 17.2})


def test_a_head_that_never_comes_back(story):
    story.head_loss()
    story.drop(lambda e: e.get("uid") == "uid-h2")
    finding = RECOVERY.judge(story.view())
    assert (finding.outcome, finding.reason) == ("broken", "no new head in 110 s after the fault")
    story.end(60)
    assert RECOVERY.judge(story.view()).outcome == "unknown"


def test_ready_is_not_enough(story):
    story.head_loss()
    story.drop(lambda e: e["what"] == "probe" and e["t"] > 20)
    finding = RECOVERY.judge(story.view())
    assert finding.outcome == "broken"
    assert "not functional" in finding.reason


def test_a_head_that_was_not_lost_has_not_recovered(story):
    story.head_loss()
    story.drop(lambda e: e.get("uid") in ("uid-h1", "uid-h2") and e["t"] > 20)
    assert RECOVERY.judge(story.view()).outcome == "unknown"


def test_a_gap_in_the_recovery_leaves_its_times_open(story):
    story.head_loss()
    story.gap("pods", 24, 26)
    assert RECOVERY.judge(story.view()).outcome == "unknown"


def test_one_head(story):
    story.head_loss()
    assert ONE.judge(story.view()).outcome == "holds"
    story.gap("pods", 90, 91)
    assert ONE.judge(story.view()).outcome == "unknown"


def test_two_heads(story):
    story.head_loss()
    story.pod(50, "h3", "uid-h3", "head", "ADDED", phase="Pending", ready=False, container=None)
    finding = ONE.judge(story.view())
    assert finding.outcome == "broken"
    assert "h2 (uid-h2) and h3 (uid-h3)" in finding.reason


def test_a_terminating_head_beside_the_new_one_is_no_second_head(story):
    story.head_loss()
    story.drop(lambda e: e["t"] == 22.6)
    assert ONE.judge(story.view()).outcome == "holds"


def test_a_second_head_before_the_experiment_is_not_its_business(story):
    story.head_loss()
    story.pod(2, "h0", "uid-h0", "head", "ADDED")
    story.pod(3, "h0", "uid-h0", "head", "DELETED")
    assert ONE.judge(story.view()).outcome == "holds"


def test_no_head_at_all(story):
    story.head_loss()
    story.drop(lambda e: str(e.get("name", "")).startswith("h"))
    assert ONE.judge(story.view()).outcome == "unknown"


def test_functional_twice(story):
    story.head_loss()
    finding = TWICE.judge(story.view())
    assert finding.outcome == "holds"
    assert finding.recovery_seconds == pytest.approx({"functional": 17.2})


def test_a_success_that_did_not_last_is_not_the_recovery(story):
    story.head_loss()
    story.functional(50.5, False, 0)
    finding = TWICE.judge(story.view())
    assert finding.outcome == "holds"
    assert finding.recovery_seconds == pytest.approx({"functional_for_good": 32})


def test_faults_one_after_another_are_counted_from_the_last(story):
    story.head_loss()
    story.step("kill-process", "apply", 71)
    finding = TWICE.judge(story.view())
    assert finding.recovery_seconds == pytest.approx({"functional_after_last_fault": 1})


def test_a_fault_that_lasts_is_counted_from_its_undoing(story):
    story.head_loss()
    story.step("partition", "apply", 70)
    story.step("partition", "undone", 83)
    finding = TWICE.judge(story.view())
    assert finding.recovery_seconds == pytest.approx({"functional_after_undo": 1})
    assert "after the fault was undone" in finding.reason


def test_a_head_that_goes_again_starts_the_wait_anew(story):
    story.head_loss()
    story.pod(115, "h2", "uid-h2", "head", restarts=1, exit_code=1)
    assert TWICE.judge(story.view()).outcome == "unknown"


def test_one_success_is_too_few(story):
    story.head_loss()
    story.end(50)
    assert TWICE.judge(story.view()).outcome == "unknown"


def test_not_functional_at_the_end(story):
    story.head_loss()
    story.functional(129, False, 0)
    finding = TWICE.judge(story.view())
    assert finding.outcome == "broken"
    assert "timed out" in finding.reason


def test_it_is_the_last_faults_end_that_counts(story):
    story.head_loss()
    story.step("partition", "apply", 70)
    story.step("partition", "undone", 115)
    assert TWICE.judge(story.view()).outcome == "unknown"


def test_no_probe_no_verdict(story):
    story.head_loss()
    story.drop(lambda e: e["what"] == "probe")
    assert TWICE.judge(story.view()).outcome == "unknown"
