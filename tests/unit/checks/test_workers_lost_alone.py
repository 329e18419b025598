from __future__ import annotations

import pytest

from chaos.checks import head_kept, workers_replaced

WHERE = {"namespace": "ns", "cluster": "c1"}
KEPT, REPLACED = head_kept(**WHERE), workers_replaced(**WHERE)


def worker(story, t, name, change="MODIFIED", **state):
    story.pod(t, name, f"uid-{name}", "worker", change, **state)
    story.entries[-1]["object"]["status"]["podIP"] = f"ip-{name}"


@pytest.fixture
def loss(story):
    """Both workers are deleted at 20 s; others are Ready at 40 s and nodes of the cluster at 50 s."""
    story.head_loss(("FT-1", "workers-lost"))
    story.drop(lambda e: e["what"] in ("object", "probe"))
    story.pod(1, "h1", "uid-h1", "head", "ADDED")
    for old, new in (("w1", "w3"), ("w2", "w4")):
        worker(story, 1, old, "ADDED")
        worker(story, 21, old, "DELETED", deleting=True)
        worker(story, 22, new, "ADDED", ready=False, container=None)
        worker(story, 40, new)
    story.probe("functional", 50, value={"nodes": [{"address": a} for a in ("ip-h1", "ip-w3", "ip-w4")]})
    return story


def test_the_head_stays_and_the_workers_are_replaced(loss):
    assert KEPT.judge(loss.view()).outcome == "holds"
    finding = REPLACED.judge(loss.view())
    assert finding.outcome == "holds"
    assert finding.recovery_seconds == {"workers_ready_again": 20}


@pytest.mark.parametrize("state", [{"restarts": 1}, {"change": "DELETED"}, {"deleting": True}])
def test_a_head_that_falls_too_breaks_it(loss, state):
    loss.pod(60, "h1", "uid-h1", "head", **state)
    assert KEPT.judge(loss.view()).outcome == "broken"


def test_a_gap_or_a_short_look_hides_the_heads_fall(loss):
    loss.gap("pods", 60, 61)
    assert KEPT.judge(loss.view()).outcome == "unknown"
    loss.drop(lambda e: e["what"] == "gap")
    loss.end(35)
    assert KEPT.judge(loss.view()).outcome == "unknown"


def test_a_replacement_that_is_missing_breaks_it(loss):
    loss.drop(lambda e: e.get("name") == "w4")
    assert REPLACED.judge(loss.view()).outcome == "broken"


def test_a_ready_pod_that_is_no_node_has_not_joined(loss):
    loss.probe("functional", 60, value={"nodes": [{"address": "ip-h1"}, {"address": "ip-w3"}]})
    finding = REPLACED.judge(loss.view())
    assert (finding.outcome, finding.reason) == ("broken", "Ready, but no node to Ray: w4")


def test_without_a_loss_or_a_list_of_nodes_nothing_is_known(loss):
    loss.drop(lambda e: e["what"] == "probe")
    assert REPLACED.judge(loss.view()).outcome == "unknown"
    loss.drop(lambda e: e.get("change") == "DELETED")
    assert REPLACED.judge(loss.view()).outcome == "unknown"
