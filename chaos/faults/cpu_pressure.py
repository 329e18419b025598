"""Take processor time away: processes that compute, in one container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached
from chaos.faults.base import Reach
from chaos.faults.load import Load, place, require_within
from chaos.waiting import until

_BITE_SECONDS = 20
_LEAST_SECONDS = 0.2  # more than a process takes to start and to wait


@dataclass(frozen=True)
class CpuPressure(Load):
    """``busy`` processes that compute; no more than the ``free`` processors that the caller knows of."""

    busy: int
    free: int

    name: ClassVar[str] = "cpu-pressure"

    def __post_init__(self) -> None:
        require_within(self.busy, self.free, "processors", self.seconds)

    @classmethod
    def of(
        cls, pod: dict[str, Any], container: str | None = None, *, busy: int, free: int, seconds: int
    ) -> CpuPressure:
        """On a pod as the API server describes it; in the first container when none is named."""
        return cls(*place(pod, container), seconds, busy, free)

    @property
    def workers(self) -> int:
        return self.busy

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The processor time of the marked processes must rise, by the node's account."""
        before = self._used(reach)

        def used() -> float:
            rise = self._used(reach) - before
            return rise if rise >= _LEAST_SECONDS * self.busy else 0.0

        try:
            seen = until(used, what=f"processor time of the load in {self.pod}", deadline=_BITE_SECONDS)
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"processes": self.busy, "cpu_seconds": round(seen, 2)}

    def _used(self, reach: Reach) -> float:
        return sum(process.cpu_seconds for process in self.working(reach.cluster))
