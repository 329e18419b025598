"""Chains of our own in a pod's packet filter, one an injection: made whole, read back with counters, removed without a trace.

Rules in a node's chains don't do: a CNI that enforces policies moves its own accepting chain in front of them at the next
pod event, and a NetworkPolicy cuts new connections only. A pod's own network namespace belongs to its sandbox, which
outlives restarts of its containers, so undo always finds it. Only chains whose names begin with ours are ever touched.
"""

from __future__ import annotations

import re
import secrets
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach
from chaos.faults.inside import in_sandbox
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

PREFIX = "KUBERAY-CHAOS-"
_BASES = ("INPUT", "OUTPUT")
_REMOVE_SECONDS = 10


def new_name() -> str:
    """A name that no other injection has; a chain's name has 28 characters at most."""
    return PREFIX + secrets.token_hex(4)


@dataclass(frozen=True)
class PodChain:
    """One chain in the namespace of one pod, which is named by its UID."""

    node: str
    uid: str
    name: str

    @property
    def undo(self) -> Undo:
        return Undo("pod-chain", {"node": self.node, "uid": self.uid, "chain": self.name})

    def install(self, cluster: Cluster, rules: Sequence[str]) -> None:
        """Make the chain with these rules and go through it first, both ways; all of it or nothing."""
        _restore(cluster, self, self.made(rules))

    def made(self, rules: Sequence[str]) -> bytes:
        """What makes the chain so, for ``iptables-restore --noflush``."""
        lines = [f":{self.name} - [0:0]", *(f"-A {self.name} {rule}" for rule in rules)]
        return _table([*lines, *(f"-I {base} 1 -j {self.name}" for base in _BASES)])

    def counted(self, cluster: Cluster) -> int:
        """How many packets its rules dropped or refused; 0 when the pod is gone."""
        return hits(_saved(cluster, self) or "", self.name)

    def require_gone(self, cluster: Cluster) -> None:
        """Raises StackError when anything of the chain is left; content when the pod is gone."""
        if removal(_saved(cluster, self) or "", self.name):
            raise StackError(f"rules of {self.name} are still there")


@dataclass(frozen=True)
class ChainFault(Fault):
    """A fault that is one chain of rules in a pod's packet filter; implementations say which rules."""

    namespace: str
    pod: str
    uid: str
    node: str
    chain: str = field(default_factory=new_name, kw_only=True)

    awaited: ClassVar[str]  # what its rules count, for the message when there is none
    bite_seconds: ClassVar[float]  # how soon there must be one

    @property
    @abstractmethod
    def rules(self) -> list[str]:
        """The rules of its chain."""

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
        """The rules must have counted packets, which only peers that live and talk send.

        Where nobody sends anything that the rules hit, that is no effect: an idle connection wasn't tried.
        """
        try:
            packets = until(lambda: self._chain.counted(reach.cluster), what=self.awaited, deadline=self.bite_seconds)
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"packets": packets}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """No rule of ours may be left; what packets do then is the open connections' to show."""
        self._chain.require_gone(reach.cluster)
        return {"rules": "none"}


def hits(saved: str, chain: str) -> int:
    """Packets that rules of the chain dropped or refused, by what ``iptables-save -c`` printed."""
    rule = re.compile(rf"^\[(\d+):\d+\] -A {re.escape(chain)} .*-j (?:DROP|REJECT)\b", re.MULTILINE)
    return sum(int(packets) for packets in rule.findall(saved))


def removal(saved: str, chain: str) -> list[str]:
    """What removes the chain and every jump to it, for ``iptables-restore --noflush``; nothing when there is none."""
    jumps = re.findall(rf"^(?:\[\d+:\d+\] )?-A (\S+ .*-j {re.escape(chain)})$", saved, re.MULTILINE)
    there = re.search(rf"^:{re.escape(chain)} ", saved, re.MULTILINE)
    return [f"-D {jump}" for jump in jumps] + ([f"-F {chain}", f"-X {chain}"] if there else [])


@undoer("pod-chain", node=str, uid=str, chain=str)
def _remove(cluster: Cluster, what: dict[str, Any]) -> None:
    chain = PodChain(what["node"], what["uid"], what["chain"])
    if not chain.name.startswith(PREFIX):
        raise StackError(f"{chain.name} is not a chain of ours", fix="was the undo log edited by hand?")

    def gone() -> bool:
        lines = removal(_saved(cluster, chain) or "", chain.name)
        if lines:
            _restore(cluster, chain, _table(lines))
        return not lines

    # A pod that ends meanwhile makes a command fail, and has no sandbox at the next look.
    until(gone, what=f"removal of {chain.name}", deadline=_REMOVE_SECONDS, every=0.1, error=StackError)


def _saved(cluster: Cluster, chain: PodChain) -> str | None:
    """The pod's filter table with its counters; None when the pod has no sandbox any more."""
    saved = in_sandbox(cluster, chain.node, chain.uid, "iptables-save -c -t filter")
    return None if saved is None else saved.require("iptables-save in the pod's namespace").decode(errors="replace")


def _table(lines: Sequence[str]) -> bytes:
    return "\n".join(["*filter", *lines, "COMMIT", ""]).encode()


def _restore(cluster: Cluster, chain: PodChain, table: bytes) -> None:
    """Change the filter table, all lines or none."""
    done = in_sandbox(cluster, chain.node, chain.uid, "iptables-restore -w --noflush", stdin=table)
    if done is None:
        raise StackError(f"there is no sandbox of pod {chain.uid} on {chain.node}")
    done.require("iptables-restore in the pod's namespace")
