"""Make one Redis server refuse writes for want of replicas, as it does when an operator asks for more safety than there is.

Whoever writes through a primary is told NOREPLICAS at once: nothing hangs, connections stay open, and the Sentinels find
nothing wrong, so there is no failover to end it. A replica that is promoted meanwhile takes writes again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaos.faults.redis_member import WritesRefused


@dataclass(frozen=True)
class RedisReadOnly(WritesRefused):
    """A primary that wants ``replicas`` in step before it takes a write."""

    replicas: int = 99

    name: ClassVar[str] = "redis-read-only"
    refusal: ClassVar[str] = "NOREPLICAS"

    @property
    def settings(self) -> dict[str, str]:
        return {"min-replicas-to-write": str(self.replicas)}
