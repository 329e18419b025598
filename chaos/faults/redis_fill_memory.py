"""Make one Redis server take its memory for full, with nothing that it may evict.

The limit is lowered below what it already uses rather than filled up to: the answers to clients are the same, and neither
the node's memory nor the container's limit is touched. Reads and deletions go on, and the Sentinels find nothing wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chaos.faults.redis_member import WritesRefused


@dataclass(frozen=True)
class RedisFillMemory(WritesRefused):
    """A server with a limit of ``limit`` bytes; an empty one uses about a million."""

    limit: int = 1

    name: ClassVar[str] = "redis-fill-memory"
    refusal: ClassVar[str] = "OOM"

    @property
    def settings(self) -> dict[str, str]:
        return {"maxmemory": str(self.limit), "maxmemory-policy": "noeviction"}
