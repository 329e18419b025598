"""Lose what a Redis primary holds: all of it, or one Ray cluster's part. It can't be undone.

The deletion is a write like any other, so the replicas and the append-only files follow it: no failover and no restart
brings the data back. A GCS that runs keeps what it has in memory, and misses the rest when it starts anew.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Reach
from chaos.faults.redis_member import RedisFault
from chaos.waiting import until

# One step to everybody else: who writes at the same time writes before the loss or after it, so an empty database would be
# no lasting evidence. The number of keys lost is left behind under a key that is ours, for a minute.
_LOSE = """
local prefix, lost = ARGV[1], 0
if prefix == '' then
  lost = redis.call('DBSIZE') - #redis.call('KEYS', 'kuberay-chaos:*')
  redis.call('FLUSHALL')
else
  local from = '0'
  repeat
    local page = redis.call('SCAN', from, 'COUNT', 1000)
    from = page[1]
    for _, key in ipairs(page[2]) do
      if string.sub(key, 1, #prefix) == prefix then lost = lost + redis.call('DEL', key) end
    end
  until from == '0'
end
redis.call('SET', KEYS[1], lost, 'EX', 60)
return lost
"""
_BITE_SECONDS = 10.0


@dataclass(frozen=True)
class RedisLoseData(RedisFault):
    """All keys, or with ``storage`` those of one Ray cluster: its external storage namespace, by default the RayCluster's UID.

    Ray keeps each table under the key ``RAY<namespace>@<table>``.
    """

    storage: str = ""
    # The name of what is left behind, so that an earlier loss is not taken for this one.
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    name: ClassVar[str] = "redis-lose-data"

    @classmethod
    def of(cls, pod: dict[str, Any], *, storage: str = "") -> RedisLoseData:
        """Of the primary's pod as the API server describes it."""
        metadata = pod["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"], storage)

    @property
    def target(self) -> dict[str, str]:
        return {**super().target, "keys": f"{self._prefix}*"}

    @property
    def _prefix(self) -> str:
        return f"RAY{self.storage}@" if self.storage else ""

    @property
    def _key(self) -> str:
        return f"kuberay-chaos:lost:{self.mark}"

    def apply(self, reach: Reach) -> None:
        """Delete and count. A replica refuses, and that is an error: the data would be as it was."""
        self.require_pod(reach)
        answer = self.ask(reach, "eval", _LOSE, "1", self._key, self._prefix)
        if not answer.isdigit():
            raise StackError(f"Redis in {self.pod} lost nothing: {answer}")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """What the deletion left behind must be there, and say that there was something to lose."""
        lost = until(
            lambda: self.ask(reach, "get", self._key), what=f"the loss in {self.pod}", deadline=_BITE_SECONDS,
            error=NoEffect,
        )  # fmt: skip
        if lost == "0":
            raise NoEffect(f"Redis in {self.pod} held no key {self._prefix}*")
        return {"keys_lost": int(lost)}
