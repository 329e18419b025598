"""Make one Redis server answer nobody for a moment, and go on by itself: a stall of an exact length, in milliseconds.

The server keeps the time (`CLIENT PAUSE … ALL`), so the length depends neither on how long a command takes to get into the pod
nor on anyone who ends it. Connections stay open, and what was asked meanwhile is answered afterwards. Meant for what is too
short for a process to be stopped and continued; Sentinels that are asked to find a silent server sooner replace this one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Reach
from chaos.faults.redis_member import RedisFault, run_in
from chaos.history.objects import Object

# An answer takes some milliseconds otherwise. The clock is the pod's, so the way into it does not count.
_FELT_SECONDS = 0.5
_ASK = "cut -d' ' -f1 /proc/uptime; redis-cli ping; cut -d' ' -f1 /proc/uptime"


@dataclass(frozen=True)
class RedisPause(RedisFault):
    """Of a member or of a single Redis. There is nothing to undo: it is over when the server says so."""

    milliseconds: int = 2500

    name: ClassVar[str] = "redis-pause"

    @classmethod
    def of(cls, pod: Object, *, milliseconds: int = 2500) -> Self:
        """Of a pod as the API server describes it."""
        return replace(super().of(pod), milliseconds=milliseconds)

    def apply(self, reach: Reach) -> None:
        """The answer to the command itself still comes."""
        self.require_pod(reach)
        answer = self.ask(reach, "client", "pause", str(self.milliseconds), "all")
        if answer != "OK":
            raise StackError(f"Redis in {self.pod} does not pause: {answer}")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """Somebody in the pod must wait for an answer, which comes when the pause is over."""
        asked, answer, answered = run_in(reach.cluster, self.namespace, self.pod, _ASK).splitlines()
        waited = float(answered) - float(asked)
        if waited < _FELT_SECONDS:
            raise NoEffect(f"Redis in {self.pod} answered {answer} within {waited:.2f} s of {self.milliseconds} ms")
        return {"answer": answer, "waited": round(waited, 2)}
