"""Lose a share of a pod's packets, at random, in its own network namespace.

By a rule that drops at random, which kernels have far more often than netem. Both ways are hit alike and independently, so
of an exchange of two packets ``1 - (1 - share)²`` is disturbed. Traffic inside the pod, on its loopback, is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.chain import PodChain, new_name
from chaos.faults.inside import require_own_network
from chaos.faults.undo import Undo
from chaos.waiting import until

# At one percent and ten packets a second, the odds that none is lost in this time are one in 400.
_BITE_SECONDS = 60


@dataclass(frozen=True)
class Loss(Fault):
    """``percent`` of all packets from and to the pod are lost."""

    namespace: str
    pod: str
    uid: str
    node: str
    percent: float
    chain: str = field(default_factory=new_name)

    name: ClassVar[str] = "loss"
    scope: ClassVar[Scope] = Scope.NAMESPACE
    needs: ClassVar[tuple[str, ...]] = ("iptables", "statistic")

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
        """The rules of its chain."""
        random = f"-m statistic --mode random --probability {self.percent / 100:.6f} -j DROP"
        return ["-i lo -j RETURN", "-o lo -j RETURN", random]

    @property
    def _chain(self) -> PodChain:
        return PodChain(self.node, self.uid, self.chain)

    def undo(self, reach: Reach) -> list[Undo]:
        """Remove our chain from the sandbox's namespace."""
        return [self._chain.undo]

    def apply(self, reach: Reach) -> None:
        """Our chain, reached first from both directions."""
        self._chain.install(reach.cluster, self.rules)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The rule must have dropped a packet; a pod that nobody talks to loses none."""
        try:
            packets = until(lambda: self._chain.counted(reach.cluster), what="lost packets", deadline=_BITE_SECONDS)
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"packets": packets}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """No rule of ours may be left."""
        self._chain.require_gone(reach.cluster)
        return {"rules": "none"}
