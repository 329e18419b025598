from __future__ import annotations

import pytest

from chaos.checks import head_recoveries

WHERE = {"namespace": "ns", "cluster": "c1"}
CHECK = head_recoveries(**WHERE, within=60, at_least=2)


@pytest.fixture
def losses(story):
    """Two losses: at 20 s, functional at 37.2 s, and at 70 s, functional at 91 s."""
    story.head_loss()
    story.drop(lambda e: e["what"] == "probe" and 70 < e["t"] < 91 and e["probe"] == "functional")
    target = {"namespace": "ns", "pod": "h2", "uid": "uid-h2"}
    for step, t in (("record", 69.9), ("apply", 70), ("effect", 71)):
        story.add("fault", t, fault="delete-pod", id="second", group="second", step=step, target=target, detail={})
    story.pod(71, "h2", "uid-h2", "head", "DELETED", deleting=True)
    story.pod(72, "h3", "uid-h3", "head", "ADDED", phase="Pending", ready=False, container=None)
    story.pod(75, "h3", "uid-h3", "head", ready=False)
    story.pod(86, "h3", "uid-h3", "head")
    story.functional(91, True, 50)
    return story


def test_the_spread_is_told(losses):
    finding = CHECK.judge(losses.view())
    assert finding.outcome == "holds"
    split = finding.recovery_seconds
    assert (split["ready_min"], split["ready_median"], split["ready_max"]) == pytest.approx((15.4, 15.7, 16))
    assert (split["functional_min"], split["functional_max"]) == pytest.approx((17.2, 21))
    assert "2 recoveries: ready 15.4 to 16.0 s" in finding.reason


def test_one_slow_recovery_breaks_it(losses):
    finding = head_recoveries(**WHERE, within=18, at_least=2).judge(losses.view())
    assert finding.outcome == "broken"
    assert finding.reason.startswith("loss 2:")


def test_a_gap_in_one_leaves_all_open(losses):
    losses.gap("pods", 80, 81)
    assert CHECK.judge(losses.view()).outcome == "unknown"


def test_too_few_losses_are_no_spread(losses):
    assert head_recoveries(**WHERE, within=60, at_least=3).judge(losses.view()).outcome == "unknown"
