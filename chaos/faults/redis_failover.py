"""Make the Sentinels move the primary's role to another member, on command and without any failure.

The old primary is reachable all along: it is demoted, and then its clients are disconnected. There is nothing to undo: which
member is the primary is the Sentinels' to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NoSteadyState, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.redis_member import ask
from chaos.stack import redis
from chaos.waiting import until

_SENTINEL_PORT = 26379
# No vote is held: the promotion takes a second or two, and the other Sentinels hear of it within two more.
_SWITCH_SECONDS = 30.0


@dataclass(frozen=True)
class RedisFailover(Fault):
    """Away from the member ``pod``, the primary at ``address`` since the election ``epoch``."""

    pod: str
    address: str
    epoch: int

    name: ClassVar[str] = "redis-failover"
    scope: ClassVar[Scope] = Scope.CLUSTER

    @classmethod
    def of(cls, health: redis.RedisHealth) -> RedisFailover:
        """Away from the primary that all Sentinels name. Raises NoSteadyState when they don't agree."""
        primary = health.primary
        if primary is None or primary.address is None or primary.epoch is None:
            raise NoSteadyState(f"Redis: {health.disagreement}")
        return cls(primary.pod, primary.address, primary.epoch)

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": redis.NAMESPACE, "pod": self.pod, "address": self.address}

    def apply(self, reach: Reach) -> None:
        """Ask the Sentinel in the primary's own pod."""
        command = ("sentinel", "failover", redis.SERVICE_NAME)
        answer = ask(reach.cluster, redis.NAMESPACE, self.pod, *command, port=_SENTINEL_PORT)
        if answer != "OK":
            raise StackError(f"the Sentinel of {self.pod} starts no failover: {answer}")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """All Sentinels must name one other primary, of a later election, that answers as such."""
        primary = until(
            lambda: self._successor(redis.health(reach.cluster)), what=f"another primary than {self.pod}",
            deadline=_SWITCH_SECONDS, error=NoEffect,
        )  # fmt: skip
        return {"primary": primary.pod, "address": primary.address, "epoch": primary.epoch}

    def _successor(self, health: redis.RedisHealth) -> redis.Member | None:
        primary = health.primary
        if primary is None or primary.address == self.address:
            return None
        return primary if all(m.epoch is not None and m.epoch > self.epoch for m in health.members) else None
