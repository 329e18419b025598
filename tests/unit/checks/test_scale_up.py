from __future__ import annotations

import pytest

from chaos.checks import scale_up_granted

WHERE = {"namespace": "ns", "cluster": "c1"}
GRANTED = scale_up_granted(**WHERE, workers=3)


def ask(story, t, workers, ok=True):
    story.probe("workers-asked-for", t, ok, target={**WHERE, "workers": workers})


def look(story, t, *workers, ok=True):
    nodes = [{"address": f"ip-{name}", "head": False} for name in workers]
    story.probe("functional", t, ok, value={"nodes": [{"address": "ip-h2", "head": True}, *nodes]})


def worker(story, t, name):
    story.pod(t, name, f"uid-{name}", "worker", "ADDED", phase="Pending", ready=False, container=None)
    story.pod(t + 8, name, f"uid-{name}", "worker")
    story.entries[-1]["object"]["status"]["podIP"] = f"ip-{name}"


@pytest.fixture
def scaled(story):
    """The head is lost at 20 s; three workers are asked for at 40 s, of which two are there, and the third joins."""
    story.head_loss()
    story.drop(lambda e: e["what"] == "probe" and e["t"] > 38)
    ask(story, 40, 3)
    worker(story, 42, "w3")
    look(story, 60, "w1", "w2", "w3")
    return story


def test_a_new_worker_joins(scaled):
    finding = GRANTED.judge(scaled.view())
    assert finding.outcome == "holds"
    assert "Ray lists 3: w3 is new, created after 2.0 s" in finding.reason
    assert finding.recovery_seconds == {"worker_created": 2, "worker_joined": 20}


def test_more_than_are_allowed_are_not_granted(scaled):
    ask(scaled, 61, 4)
    scaled.end(150)
    look(scaled, 140, "w1", "w2", "w3")
    view = scaled.view()
    assert GRANTED.judge(view).outcome == "holds"
    finding = scale_up_granted(**WHERE, workers=4).judge(view)
    assert finding.outcome == "broken"
    assert finding.reason == "4 workers were asked for, and 79 s later Ray lists 3: no new pod since"


def unmade(story):
    story.drop(lambda e: e.get("uid") == "uid-w3" or (e["what"] == "probe" and e["t"] > 41))


def test_a_request_that_is_not_heard(scaled):
    unmade(scaled)
    look(scaled, 116, "w1", "w2")
    finding = GRANTED.judge(scaled.view())
    assert finding.outcome == "broken"
    assert "Ray lists 2: no new pod since" in finding.reason


@pytest.mark.parametrize(
    "listed", [["w1", "w2"], ["w1", "w3"]], ids=["made but not known to Ray", "in the place of another"]
)
def test_a_pod_alone_is_no_scale_up(scaled, listed):
    scaled.drop(lambda e: e["what"] == "probe" and e["t"] > 41)
    look(scaled, 120, *listed)
    finding = GRANTED.judge(scaled.view())
    assert finding.outcome == "broken"
    assert "Ray lists 2: 1 new pod since" in finding.reason


def test_workers_that_were_there_before_are_no_answer(scaled):
    scaled.drop(lambda e: e.get("uid") == "uid-w3")
    worker(scaled, 30, "w3")
    look(scaled, 120, "w1", "w2", "w3")
    assert GRANTED.judge(scaled.view()).outcome == "broken"


def test_too_early_to_tell(scaled):
    unmade(scaled)
    look(scaled, 90, "w1", "w2")
    look(scaled, 125, "w1", "w2", ok=False)
    assert GRANTED.judge(scaled.view()).outcome == "unknown"


def test_a_gap_may_hide_the_new_worker(scaled):
    unmade(scaled)
    look(scaled, 120, "w1", "w2")
    scaled.gap("pods", 50, 51)
    assert GRANTED.judge(scaled.view()).outcome == "unknown"


def test_a_request_that_failed_asked_for_nothing(scaled):
    scaled.drop(lambda e: e["what"] == "probe" and e["probe"] == "workers-asked-for")
    assert "not asked for" in GRANTED.judge(scaled.view()).reason
    ask(scaled, 40, 3, ok=False)
    finding = GRANTED.judge(scaled.view())
    assert finding.outcome == "unknown"
    assert "timed out" in finding.reason


def test_a_request_before_the_fault_is_not_meant(scaled):
    scaled.drop(lambda e: e["what"] == "probe" and e["probe"] == "workers-asked-for")
    ask(scaled, 15, 3)
    assert GRANTED.judge(scaled.view()).outcome == "unknown"
