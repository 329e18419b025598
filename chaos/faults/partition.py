"""Cut a pod off from addresses, inside the pod's own network namespace.

Rules in a node's chains don't do: a CNI that enforces policies moves its own accepting chain in front of them at the next
pod event, and a NetworkPolicy cuts new connections only. The namespace belongs to the pod's sandbox, which outlives
restarts of its containers, so undo always finds it. Only a chain of our own name is made and removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach
from chaos.faults.inside import in_sandbox
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_CHAIN = "KUBERAY-CHAOS"
_BITE_SECONDS = 10


@dataclass(frozen=True)
class BlackHole(Fault):
    """Packets between one pod and ``addresses`` (IPv4) are dropped, both ways, without an answer."""

    namespace: str
    pod: str
    uid: str
    node: str
    addresses: tuple[str, ...]

    name: ClassVar[str] = "black-hole"
    needs: ClassVar[tuple[str, ...]] = ("iptables",)

    @classmethod
    def between(cls, pod: dict[str, Any], others: list[dict[str, Any]]) -> BlackHole:
        """Between a pod and other pods, each as the API server describes it."""
        metadata = pod["metadata"]
        return cls(
            metadata["namespace"], metadata["name"], metadata["uid"], pod["spec"]["nodeName"],
            tuple(other["status"]["podIP"] for other in others),
        )  # fmt: skip

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid, "addresses": " ".join(self.addresses)}

    def undo(self, reach: Reach) -> list[Undo]:
        """Remove our chain from the sandbox's namespace, which is named by the pod's UID."""
        return [Undo("pod-chain", {"node": self.node, "uid": self.uid})]

    def apply(self, reach: Reach) -> None:
        """Our chain, reached first from both directions."""
        script = [f"iptables -w -N {_CHAIN}"]
        for address in self.addresses:
            script += [f"iptables -w -A {_CHAIN} -{way} {address} -j DROP" for way in "sd"]
        script += [f"iptables -w -I {base} -j {_CHAIN}" for base in ("INPUT", "OUTPUT")]
        done = in_sandbox(reach.cluster, self.node, self.uid, " && ".join(script))
        if done is None or not done.ok:
            raise StackError(f"{self.pod} could not be cut off: {done.error_text.strip() if done else 'no sandbox'}")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The rules must have dropped packets of connections that were open before: only live peers send any."""
        try:
            dropped = until(lambda: self._dropped(reach.cluster), what="dropped packets", deadline=_BITE_SECONDS)
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"dropped_packets": dropped}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """No rule of ours may be left; what packets do then is the open connections' to show."""
        listed = in_sandbox(reach.cluster, self.node, self.uid, "iptables-save")
        if listed is not None and _CHAIN in listed.text:
            raise StackError(f"rules of {_CHAIN} are still in the namespace of {self.pod}")
        return {"rules": "none"}

    def _dropped(self, cluster: Cluster) -> int:
        listed = in_sandbox(cluster, self.node, self.uid, f"iptables -w -nvxL {_CHAIN}")
        if listed is None or not listed.ok:
            return 0
        return sum(int(line.split()[0]) for line in listed.text.splitlines() if " DROP " in line)


@undoer("pod-chain", node=str, uid=str)
def _remove_chain(cluster: Cluster, what: dict[str, Any]) -> None:
    unhook = " ; ".join(
        f"while iptables -w -D {base} -j {_CHAIN} 2>/dev/null; do :; done" for base in ("INPUT", "OUTPUT")
    )
    remove = f"if iptables -w -nL {_CHAIN} >/dev/null 2>&1; then iptables -w -F {_CHAIN} && iptables -w -X {_CHAIN}; fi"
    done = in_sandbox(cluster, what["node"], what["uid"], f"{unhook} ; {remove}")
    if done is not None and not done.ok:
        raise StackError(f"chain {_CHAIN} is still there: {done.error_text.strip()}")
