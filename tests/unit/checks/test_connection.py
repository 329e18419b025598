from __future__ import annotations

import pytest

from chaos.checks import connection_broken, connection_kept, connection_stalled

STALLED = connection_stalled(probe="redis", min_seconds=28)
BROKEN = connection_broken(probe="redis")
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
    ("exchanges", "stalled", "broken", "kept"),
    [
        ([(19, 0.1, None), (51, 31.5, None)], "holds", "broken", "broken"),
        ([(t, 0.1, None) for t in range(19, 60)], "broken", "broken", "holds"),
        ([(30, 9, None), (51, 12, None)], "broken", "broken", "broken"),
        ([(20.1, 0.1, "reset by peer")], "broken", "holds", "broken"),
        ([(30, 0.1, None), (51, 0.1, "closed by the peer")], "broken", "broken", "broken"),
        ([(19, 0.1, None)], "unknown", "unknown", "unknown"),
        ([], "unknown", "unknown", "unknown"),
    ],
    ids=["stalls", "goes on", "stalls twice but briefly", "breaks", "breaks afterwards", "not watched", "no probe"],
)
def test_connections(story, exchanges, stalled, broken, kept):
    hold(story, exchanges)
    assert STALLED.judge(story.view()).outcome == stalled
    assert BROKEN.judge(story.view()).outcome == broken
    assert KEPT.judge(story.view()).outcome == kept


def test_a_stall_outside_the_fault_is_no_proof(story):
    hold(story, [(21, 0.1, None), (59, 30, None)])  # 29 to 59 s: 21 s of it within the fault
    assert STALLED.judge(story.view()).outcome == "broken"


def test_a_connection_that_falls_silent_is_neither_kept_nor_unbroken(story):
    hold(story, [(21, 0.1, None), (30, 0.1, None)])
    assert BROKEN.judge(story.view()).outcome == "unknown"
    assert KEPT.judge(story.view()).outcome == "unknown"
