"""Change the password of one Redis server under its clients.

Whoever connects anew with the old password is refused; connections that are open stay open and stay authenticated, replicas
and Sentinels included. So nothing happens to a GCS until it has to connect again. The pod's own readiness probes are such
clients: after two of them the member is listed in no Service any more. A Sentinel that has to connect anew takes a primary for
dead, and the role moves to a member whose password is the old one. ``masterauth`` is not touched: it is what the member
shows to others, and theirs is as it was.

The other password is made from the old one inside the pod, so that undo needs to know neither; nothing outside of the pod
ever sees one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Reach
from chaos.faults.redis_member import RESTORE_SECONDS, RedisFault, ask, run_in, there
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_BITE_SECONDS = 10.0
# `printf` is the shell's own, so nothing secret is a program's argument; a one-way function's result tells nothing of the old.
_OTHER = 'other=$(printf %s "$REDISCLI_AUTH" | sha256sum | cut -c 1-64)'
_CHANGE = f"""{_OTHER}
printf 'config set requirepass "%s"\\n' "$other" | timeout 5 redis-cli
"""
_CHANGE_BACK = f"""{_OTHER}
[ "$(timeout 5 redis-cli ping)" = PONG ] ||
  printf 'config set requirepass "%s"\\n' "$REDISCLI_AUTH" | REDISCLI_AUTH=$other timeout 5 redis-cli
timeout 5 redis-cli ping
"""


@dataclass(frozen=True)
class RedisChangePassword(RedisFault):
    """The server takes another password than the one in the Secret."""

    name: ClassVar[str] = "redis-change-password"

    def undo(self, reach: Reach) -> list[Undo]:
        """The old one again, which the pod knows."""
        return [Undo("redis-password", self.place)]

    def apply(self, reach: Reach) -> None:
        self.require_pod(reach)
        answer = run_in(reach.cluster, self.namespace, self.pod, _CHANGE)
        if answer != "OK":
            raise StackError(f"Redis in {self.pod} keeps its password: {answer}")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """A new connection with the old password must be refused."""
        until(
            lambda: "NOAUTH" in self.ask(reach, "ping"), what=f"refusal of the old password by {self.pod}",
            deadline=_BITE_SECONDS, error=NoEffect,
        )  # fmt: skip
        return {"refused": "a new connection with the old password"}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """A new connection with the old password must be taken."""

        def accepted() -> bool:
            return (
                not there(reach.cluster, self.namespace, self.pod, self.uid)
                or ask(reach.cluster, self.namespace, self.pod, "ping") == "PONG"
            )

        until(accepted, what=f"the old password at {self.pod}", deadline=_BITE_SECONDS, error=StackError)
        return {"accepted": "a new connection with the old password"}


@undoer("redis-password", namespace=str, pod=str, uid=str)
def _change_back(cluster: Cluster, what: dict[str, Any]) -> None:
    def changed_back() -> bool:
        if not there(cluster, what["namespace"], what["pod"], what["uid"]):
            return True
        return run_in(cluster, what["namespace"], what["pod"], _CHANGE_BACK).endswith("PONG")

    until(changed_back, what=f"the old password at {what['pod']}", deadline=RESTORE_SECONDS, every=1, error=StackError)
