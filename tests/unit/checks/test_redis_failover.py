from __future__ import annotations

import pytest

from chaos.checks.redis_failover import redis_failed_over


def looked_up(story, *seen):
    story.head_loss()
    for t, primary in seen:
        story.probe("redis", t, target={"namespace": "redis"}, value={"primary": primary})
    return redis_failed_over().judge(story.view()).outcome


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (((15, "redis-0"), (50, "redis-1")), "holds"),
        (((15, "redis-0"), (50, "redis-1"), (60, "redis-0")), "broken"),
        (((15, "redis-0"), (50, None)), "unknown"),
        (((50, "redis-1"),), "unknown"),
    ],
)
def test_failover(story, seen, outcome):
    assert looked_up(story, *seen) == outcome
