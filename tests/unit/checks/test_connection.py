from __future__ import annotations

import pytest

from chaos.checks import connection_kept, connection_stalled

STALLED = connection_stalled(probe="redis", min_seconds=28)
KEPT = connection_kept(probe="redis")


def hold(story, exchanges):
    """A black hole from 20 to 50 s; ``exchanges`` are (t, stall, error)."""
    story.phase("begin", 5)
    story.step("partition", "apply", 20)
    story.step("partition", "undone", 50)
    for t, stall, error in exchanges:
        value = {"stall": stall, "error": error}
        story.probe("held-connection", t, target={"name": "redis"}, value=value, took=stall)
    story.end(60)


@pytest.mark.parametrize(
    ("exchanges", "stalled", "kept"),
    [
        ([(19, 0.1, None), (51, 31.5, None)], "holds", "broken"),
        ([(t, 0.1, None) for t in range(19, 60)], "broken", "holds"),
        ([(30, 9, None), (51, 12, None)], "broken", "broken"),
        ([(20.1, 0.1, "reset by peer")], "broken", "broken"),
        ([(19, 0.1, None)], "unknown", "unknown"),
        ([], "unknown", "unknown"),
    ],
    ids=["stalls", "goes on", "stalls twice but briefly", "breaks", "not watched", "no probe"],
)
def test_connections(story, exchanges, stalled, kept):
    hold(story, exchanges)
    assert STALLED.judge(story.view()).outcome == stalled
    assert KEPT.judge(story.view()).outcome == kept


def test_a_stall_outside_the_fault_is_no_proof(story):
    hold(story, [(21, 0.1, None), (59, 30, None)])  # 29 to 59 s: 21 s of it within the fault
    assert STALLED.judge(story.view()).outcome == "broken"


def test_a_connection_that_falls_silent_is_not_kept(story):
    hold(story, [(21, 0.1, None), (30, 0.1, None)])
    assert KEPT.judge(story.view()).outcome == "unknown"
