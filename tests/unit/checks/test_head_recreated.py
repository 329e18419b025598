"""OP-12: whether the operator made another head."""

import pytest

from chaos.checks.head_recreated import head_recreated

RECREATED = head_recreated(namespace="ns", cluster="c1")


def test_another_head_in_time(story):
    story.head_loss()
    finding = RECREATED.judge(story.view())
    assert finding.outcome == "holds"
    assert finding.recovery_seconds["new_head"] == pytest.approx(2.9)


def test_no_other_head(story):
    story.head_loss()
    story.drop(lambda e: e.get("name") == "h2")
    finding = RECREATED.judge(story.view())
    assert finding.outcome == "broken"
    assert "no other head" in finding.reason


def test_too_early_or_not_watched(story):
    story.head_loss()
    story.drop(lambda e: e.get("name") == "h2" or e.get("phase") == "end")
    story.gap("pods", 30, 31)
    story.end(130)
    assert RECREATED.judge(story.view()).outcome == "unknown"


def test_it_is_too_early_before_the_time_is_over(story):
    story.head_loss()
    story.drop(lambda e: e.get("name") == "h2" or e["t"] > 45 or e.get("phase") == "end")
    story.end(45)
    assert RECREATED.judge(story.view()).outcome == "unknown"
