from __future__ import annotations

import pytest

from chaos.checks import head_exited, workers_outlived_outage, workers_timed_out

WHERE = {"namespace": "ns", "cluster": "c1"}
OUTLIVED = workers_outlived_outage(**WHERE)


def timed_out(seconds):
    return workers_timed_out(**WHERE, timeout=seconds)


@pytest.fixture
def outage(story):
    """The head is away from 20 s to 62 s; functional again at 80 s."""
    story.head_loss(("FT-9", "short-timeout"))
    story.drop(lambda e: e.get("uid") == "uid-h2" or (e["what"] == "probe" and 20 < e["t"] < 80))
    for entry in story.entries:
        if entry["what"] == "object" and str(entry["name"]).startswith("w"):
            env = [{"name": "RAY_gcs_rpc_server_reconnect_timeout_s", "value": "600"}]
            entry["object"]["spec"] = {"containers": [{"env": env}]}
    story.pod(22.9, "h2", "uid-h2", "head", "ADDED", phase="Pending", ready=False, container=None, scheduled=False)
    story.pod(62, "h3", "uid-h3", "head", "ADDED", phase="Pending", ready=False, container=None)
    story.pod(63, "h3", "uid-h3", "head", ready=False)
    return story


def lose(story, at, *workers):
    for worker in workers:
        story.pod(at, worker, f"uid-{worker}", "worker", ready=False, restarts=1, exit_code=1)


def test_workers_end_when_their_time_out_runs_out(outage):
    lose(outage, 44, "w1", "w2")
    finding = timed_out(20).judge(outage.view())
    assert finding.outcome == "holds"
    assert "margin below 0.5" in finding.reason
    assert finding.recovery_seconds == {"first_worker_lost": 24, "last_worker_lost": 24}
    assert OUTLIVED.judge(outage.view()).outcome == "broken"


@pytest.mark.parametrize("at", [30, 56])
def test_an_end_at_another_time_is_not_the_time_outs(outage, at):
    lose(outage, 44, "w1")
    lose(outage, at, "w2")
    finding = timed_out(20).judge(outage.view())
    assert finding.outcome == "broken"
    assert f"w2 after {at - 20}.0 s" in finding.reason


def test_a_worker_that_outlives_the_outage(outage):
    lose(outage, 44, "w1")
    assert timed_out(20).judge(outage.view()).outcome == "broken"


def test_a_loss_after_the_new_head_runs_may_be_its_doing(outage):
    lose(outage, 64, "w1", "w2")
    assert timed_out(20).judge(outage.view()).outcome == "broken"
    assert timed_out(40).judge(outage.view()).outcome == "unknown"


def test_an_outage_that_was_too_short_shows_nothing(outage):
    finding = timed_out(40).judge(outage.view())
    assert finding.outcome == "unknown"
    assert "away for 43 s" in finding.reason


def test_a_gap_hides_survival(outage):
    outage.gap("pods", 30, 31)
    assert timed_out(20).judge(outage.view()).outcome == "unknown"
    assert OUTLIVED.judge(outage.view()).outcome == "unknown"


def test_the_margin_is_told(outage):
    finding = OUTLIVED.judge(outage.view())
    assert finding.outcome == "holds"
    assert finding.reason == "2 workers outlived an outage of 60.0 s: time-out 600 s, margin 10.0"


def test_without_an_end_the_outage_has_no_length(outage):
    outage.drop(lambda e: e["what"] == "probe" and e["t"] > 20)
    assert OUTLIVED.judge(outage.view()).outcome == "unknown"


@pytest.mark.parametrize("check", [timed_out(20), OUTLIVED])
def test_a_head_that_was_not_lost_is_no_outage(outage, check):
    outage.drop(lambda e: e.get("uid") == "uid-h1" and e["t"] > 2)
    assert check.judge(outage.view()).outcome == "unknown"


@pytest.mark.parametrize("check", [timed_out(20), OUTLIVED])
def test_a_fault_elsewhere_is_not_about_this_cluster(outage, check):
    for entry in outage.entries:
        if entry["what"] == "fault":
            entry["target"]["namespace"] = "other"
    assert check.judge(outage.view()).outcome == "unknown"


@pytest.fixture
def quiet(story):
    """The GCS is ended at 20 s; the head's container ends at 82 s and starts again."""
    story.head_loss(("FT-7", "rays-default"))
    story.drop(lambda e: e["what"] in ("object", "probe") and e["t"] > 20)
    story.pod(68, "h1", "uid-h1", "head", ready=False)
    story.pod(82, "h1", "uid-h1", "head", ready=False, restarts=1, exit_code=1)
    return story


@pytest.mark.parametrize(("timeout", "outcome"), [(60, "holds"), (20, "broken"), (90, "broken")])
def test_the_head_ends_when_its_time_out_runs_out(quiet, timeout, outcome):
    finding = head_exited(**WHERE, timeout=timeout).judge(quiet.view())
    assert finding.outcome == outcome
    assert finding.recovery_seconds == {"head_exited": 62}


@pytest.mark.parametrize("end", [{"deleting": True}, {"change": "DELETED"}])
def test_a_head_that_was_deleted_has_not_exited(quiet, end):
    quiet.pod(70, "h1", "uid-h1", "head", **end)
    assert head_exited(**WHERE, timeout=60).judge(quiet.view()).outcome == "unknown"


def test_a_head_that_never_ended_shows_no_time_out(quiet):
    quiet.drop(lambda e: e["what"] == "object" and e["t"] > 80)
    assert head_exited(**WHERE, timeout=60).judge(quiet.view()).outcome == "unknown"
