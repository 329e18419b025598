"""Lose a share of a pod's packets, at random, in its own network namespace.

By a rule that drops at random, which kernels have far more often than netem. Both ways are hit alike and independently, so
of an exchange of two packets ``1 - (1 - share)²`` is disturbed. Traffic inside the pod, on its loopback, is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import StackError
from chaos.faults.base import Scope
from chaos.faults.chain import ChainFault
from chaos.faults.inside import require_own_network


@dataclass(frozen=True)
class Loss(ChainFault):
    """``percent`` of all packets from and to the pod are lost."""

    percent: float

    name: ClassVar[str] = "loss"
    scope: ClassVar[Scope] = Scope.NAMESPACE
    needs: ClassVar[tuple[str, ...]] = ("iptables", "statistic")
    awaited: ClassVar[str] = "lost packets"
    # At one percent and ten packets a second, the odds that none is lost in this time are one in 400.
    bite_seconds: ClassVar[float] = 60

    def __post_init__(self) -> None:
        if not 0 < self.percent <= 100:
            raise StackError(f"{self.percent:g} percent of packets can't be lost")

    @classmethod
    def of(cls, pod: dict[str, Any], *, percent: float) -> Loss:
        """Of a pod as the API server describes it."""
        require_own_network(pod)
        metadata = pod["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"], pod["spec"]["nodeName"], percent)

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid, "percent": f"{self.percent:g}"}

    @property
    def rules(self) -> list[str]:
        random = f"-m statistic --mode random --probability {self.percent / 100:.6f} -j DROP"
        return ["-i lo -j RETURN", "-o lo -j RETURN", random]
