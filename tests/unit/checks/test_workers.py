from __future__ import annotations

from chaos.checks import workers_lost, workers_survived

SURVIVED = workers_survived(namespace="ns", cluster="c1")
LOST = workers_lost(namespace="ns", cluster="c1")


def test_workers_survive(story):
    story.head_loss()
    finding = SURVIVED.judge(story.view())
    assert finding.outcome == "holds"
    assert "w1, w2" in finding.reason
    assert {item.entry for item in finding.evidence} <= {entry["n"] for entry in story.all().entries}


def test_a_restart_in_place_is_a_loss_and_is_told(story):
    story.head_loss()
    story.pod(83.5, "w1", "uid-w1", "worker", restarts=1, exit_code=1)
    finding = SURVIVED.judge(story.view())
    assert finding.outcome == "broken"
    assert "1 of 2 workers lost" in finding.reason
    assert "w1 restarted in place, restart count 0→1, exit code 1, 63.5 s after the fault" in finding.reason


def test_a_dead_container_is_a_loss_before_its_restart_is_counted(story):
    story.head_loss()
    story.pod(125, "w1", "uid-w1", "worker", ready=False, container="terminated", exit_code=1)
    assert SURVIVED.judge(story.view()).outcome == "broken"


def test_a_new_pod_is_a_loss_even_under_the_old_name(story):
    story.head_loss()
    story.pod(80, "w2", "uid-w2", "worker", "DELETED")
    story.pod(81, "w2", "uid-w2-again", "worker", "ADDED")
    finding = SURVIVED.judge(story.view())
    assert finding.outcome == "broken"
    assert "w2 deleted" in finding.reason


def test_a_worker_being_deleted_has_not_survived(story):
    story.head_loss()
    story.pod(128, "w1", "uid-w1", "worker", deleting=True)
    assert SURVIVED.judge(story.view()).outcome == "broken"


def test_a_loss_before_the_fault_is_none(story):
    story.head_loss()
    story.pod(4, "w0", "uid-w0", "worker", "ADDED")
    story.pod(18, "w0", "uid-w0", "worker", "DELETED")
    assert SURVIVED.judge(story.view()).outcome == "holds"


def test_too_early_after_the_new_head(story):
    story.head_loss()
    story.end(105)
    finding = SURVIVED.judge(story.view())
    assert finding.outcome == "unknown"
    assert "too early" in finding.reason


def test_the_old_heads_last_answer_does_not_start_the_clock(story):
    story.head_loss()
    story.functional(21, True, 4)  # answered while terminating: counted from here, 105 s would be late enough
    story.end(105)
    assert SURVIVED.judge(story.view()).outcome == "unknown"


def test_a_gap_hides_survival_but_not_a_loss(story):
    story.head_loss()
    story.gap("pods", 50, 55)
    finding = SURVIVED.judge(story.view())
    assert finding.outcome == "unknown"
    assert "gap" in finding.reason
    story.pod(83, "w1", "uid-w1", "worker", restarts=1)
    assert SURVIVED.judge(story.view()).outcome == "broken"


def test_a_gap_before_the_fault_does_not_matter(story):
    story.head_loss()
    story.gap("pods", 8, 10)
    assert SURVIVED.judge(story.view()).outcome == "holds"


def test_no_worker_and_no_fault_show_nothing(story):
    story.head_loss()
    story.drop(lambda e: str(e.get("name", "")).startswith("w"))
    assert "no worker" in SURVIVED.judge(story.view()).reason
    story.drop(lambda e: e["what"] == "fault")
    finding = SURVIVED.judge(story.view())
    assert (finding.outcome, finding.reason) == ("unknown", "no fault was applied")


def lose_both(story, at=69.0):
    for worker in ("w1", "w2"):
        story.pod(at, worker, f"uid-{worker}", "worker", ready=False, restarts=1, exit_code=1)


def test_workers_lost(story):
    story.head_loss()
    lose_both(story)
    finding = LOST.judge(story.view())
    assert finding.outcome == "holds"
    assert finding.reason.endswith("the last was lost 49.0 s after the fault, 33.6 s after the new head was ready")
    assert finding.recovery_seconds == {"first_worker_lost": 49.0, "last_worker_lost": 49.0}


def test_the_return_of_the_last_worker_is_measured(story):
    story.head_loss()
    lose_both(story, at=28.0)
    story.pod(60, "w1", "uid-w1", "worker", restarts=1, exit_code=1)
    story.pod(63, "w2", "uid-w2", "worker", "DELETED", restarts=1, exit_code=1)
    story.pod(64, "w3", "uid-w3", "worker", "ADDED", ready=False)
    story.pod(71, "w3", "uid-w3", "worker")
    finding = LOST.judge(story.view())
    assert finding.outcome == "holds"
    assert finding.reason.endswith("8.0 s after the fault, 7.4 s before the new head was ready")
    assert finding.recovery_seconds == {
        "first_worker_lost": 8.0,
        "last_worker_lost": 8.0,
        "last_worker_ready_again": 51.0,
    }


def test_a_replaced_worker_is_recreated_too(story):
    story.head_loss()
    lose_both(story)
    story.drop(lambda e: e.get("uid") == "uid-w1" and e["t"] > 20)
    story.pod(69, "w1", "uid-w1", "worker", "DELETED")
    assert LOST.judge(story.view()).outcome == "broken"
    story.pod(70, "w3", "uid-w3", "worker", "ADDED")
    assert LOST.judge(story.view()).outcome == "holds"


def test_one_survivor_breaks_it(story):
    story.head_loss()
    story.pod(69, "w1", "uid-w1", "worker", restarts=1, exit_code=1)
    finding = LOST.judge(story.view())
    assert finding.outcome == "broken"
    assert "w2 survived" in finding.reason


def test_a_late_loss_breaks_it(story):
    story.head_loss()
    lose_both(story, at=112)
    finding = LOST.judge(story.view())
    assert finding.outcome == "broken"
    assert "later than 75 s" in finding.reason


def test_survivors_seen_too_briefly_are_unknown(story):
    story.head_loss()
    story.end(100)
    assert LOST.judge(story.view()).outcome == "unknown"


def test_no_new_head_is_unknown(story):
    story.head_loss()
    lose_both(story)
    story.drop(lambda e: e.get("uid") == "uid-h2")
    assert LOST.judge(story.view()).outcome == "unknown"


def _stall_without_a_new_head(story, end):
    """The head is cut off from 20 s to 40 s and goes on as it was."""
    story.head_loss()
    story.drop(lambda e: e.get("name") in ("h1", "h2") or e["what"] == "probe" or e.get("phase") == "end")
    story.pod(1, "h1", "uid-h1", "head", "ADDED")
    story.functional(16, True, 1)
    story.functional(41, True, 2)
    story.end(end)


def test_where_the_head_never_began_anew_a_second_look_serves(story):
    _stall_without_a_new_head(story, end=62)
    assert SURVIVED.judge(story.view()).outcome == "holds"


def test_but_a_second_look_there_must_be(story):
    _stall_without_a_new_head(story, end=55)
    finding = SURVIVED.judge(story.view())
    assert finding.outcome == "unknown"
    assert "20 s" in finding.reason
