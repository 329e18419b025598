"""Cut a pod off from addresses, inside the pod's own network namespace (`chaos.faults.chain` says why there).

What those who talk see, by mode:

- *drop*: nothing. An open connection stalls and goes on afterwards, a new one times out.
- *reject*: an ICMP port unreachable. A new connection is refused, at the latest at its second try, since the kernel sends
  few such answers a second to one address; an open one takes it for a passing trouble and stalls.
- *reset*: a TCP reset. An open connection breaks at its next packet, a new one is refused. Only TCP is cut.

The answer goes to the sender of what is refused: with *out* to the pod, with *in* to the others. The opposite side sees a
black hole, and finds an open connection dead when it sends on one that was reset.

The answers of a refusal pass the chain, or the one for packets that come in would be dropped on its way out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from chaos.errors import StackError
from chaos.faults.base import Scope
from chaos.faults.chain import ChainFault
from chaos.faults.inside import require_own_network


class Mode(StrEnum):
    """What happens to a packet."""

    DROP = "drop"
    REJECT = "reject"
    RESET = "reset"


class Direction(StrEnum):
    """Which packets, as the pod sees them."""

    BOTH = "both"
    OUT = "out"
    IN = "in"


_FIRST = {
    Mode.DROP: (),
    Mode.REJECT: ("-p icmp --icmp-type port-unreachable -j RETURN",),
    Mode.RESET: ("-p tcp --tcp-flags RST RST -j RETURN",),
}
_VERDICTS = {
    Mode.DROP: "-j DROP",
    Mode.REJECT: "-j REJECT --reject-with icmp-port-unreachable",
    Mode.RESET: "-p tcp -j REJECT --reject-with tcp-reset",
}
_SIDES = {Direction.BOTH: "sd", Direction.OUT: "d", Direction.IN: "s"}


@dataclass(frozen=True)
class Partition(ChainFault):
    """Packets between one pod and ``addresses`` (IPv4), by ``mode`` and ``direction``.

    Several may be in force on one pod: each has a chain of its own.
    """

    addresses: tuple[str, ...]
    mode: Mode = Mode.DROP
    direction: Direction = Direction.BOTH

    name: ClassVar[str] = "partition"
    scope: ClassVar[Scope] = Scope.NAMESPACE
    # Only refusals take "reject", but no stack is without it.
    needs: ClassVar[tuple[str, ...]] = ("iptables", "reject")
    awaited: ClassVar[str] = "cut packets"
    bite_seconds: ClassVar[float] = 10

    def __post_init__(self) -> None:
        if not self.addresses:
            raise StackError(f"there is no address to cut {self.pod} off from")
        for address in self.addresses:
            try:
                ipaddress.IPv4Address(address)
            except ValueError:
                raise StackError(f"{address!r} is no IPv4 address: {self.pod} can't be cut off from it") from None

    @classmethod
    def of(
        cls,
        pod: dict[str, Any],
        addresses: Sequence[str],
        *,
        mode: Mode = Mode.DROP,
        direction: Direction = Direction.BOTH,
    ) -> Partition:
        """Between a pod as the API server describes it and addresses, such as those of a Service (`chaos.faults.addresses`)."""
        require_own_network(pod)
        metadata = pod["metadata"]
        return cls(
            metadata["namespace"], metadata["name"], metadata["uid"], pod["spec"]["nodeName"],
            tuple(addresses), mode, direction,
        )  # fmt: skip

    @classmethod
    def between(
        cls,
        pod: dict[str, Any],
        others: Sequence[dict[str, Any]],
        *,
        mode: Mode = Mode.DROP,
        direction: Direction = Direction.BOTH,
    ) -> Partition:
        """Between a pod and other pods."""
        return cls.of(pod, [other["status"]["podIP"] for other in others], mode=mode, direction=direction)

    @property
    def target(self) -> dict[str, str]:
        return {
            "namespace": self.namespace, "pod": self.pod, "uid": self.uid, "addresses": " ".join(self.addresses),
            "mode": self.mode, "direction": self.direction,
        }  # fmt: skip

    @property
    def rules(self) -> list[str]:
        sides, verdict = _SIDES[self.direction], _VERDICTS[self.mode]
        return [*_FIRST[self.mode], *(f"-{side} {address} {verdict}" for address in self.addresses for side in sides)]
