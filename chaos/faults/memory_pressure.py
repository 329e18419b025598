"""Take memory away: a process that holds some, in one container. What is beyond the container's limit ends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached
from chaos.faults.base import Reach
from chaos.faults.load import Load, place, require_within
from chaos.waiting import until

_BITE_SECONDS = 20  # a page after the other is written, on a busy machine


@dataclass(frozen=True)
class MemoryPressure(Load):
    """``mebibytes`` that are written to and held; no more than the ``free`` ones that the caller knows of."""

    mebibytes: int
    free: int

    name: ClassVar[str] = "memory-pressure"

    def __post_init__(self) -> None:
        require_within(self.mebibytes, self.free, "MiB", self.seconds)

    @classmethod
    def of(
        cls, pod: dict[str, Any], container: str | None = None, *, mebibytes: int, free: int, seconds: int
    ) -> MemoryPressure:
        """On a pod as the API server describes it; in the first container when none is named."""
        return cls(*place(pod, container), seconds, mebibytes, free)

    @property
    def workers(self) -> int:
        return 1

    @property
    def mebibytes_each(self) -> int:
        return self.mebibytes

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """What the marked process holds in memory must reach the size, by the node's account."""

        def held() -> int:
            resident = sum(process.resident_kib for process in self.working(reach.cluster)) // 1024
            return resident if resident >= self.mebibytes else 0

        try:
            seen = until(held, what=f"{self.mebibytes} MiB held in {self.pod}", deadline=_BITE_SECONDS)
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"resident_mebibytes": seen}
