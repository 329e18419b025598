"""Pull a node's network cable: nothing passes between it and the others any more, while all on it runs on.

The packets are dropped in the node itself, for its own processes and for its pods alike, before any chain that the CNI orders
anew. Taking the node's container off its Docker network would do more than that: it would come back with another interface,
without its routes to the other nodes' pods, with a way out of the sealed network, and perhaps at another address.
What is within the node, among its pods too, still passes. A control plane that is cut off takes the API server with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.nodes import runs
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_CHAIN = "KUBERAY-CHAOS"
# Where each packet comes in from the cable or goes out to it; the interfaces of pods bear other names.
_HOOKS = ("PREROUTING -i eth+", "POSTROUTING -o eth+")
_TABLE = "iptables -w -t mangle"
_KUBELET_PORT = "10250"
_CONNECT = 'exec 3<>"/dev/tcp/$0/$1"'
_BITE_SECONDS, _RELIEF_SECONDS = 15.0, 15.0


@dataclass(frozen=True)
class NodeDisconnect(Fault):
    """The node ``node`` at ``address``; the node ``witness`` tells whether it can be reached."""

    node: str
    address: str
    witness: str

    name: ClassVar[str] = "node-disconnect"
    scope: ClassVar[Scope] = Scope.NODE
    needs: ClassVar[tuple[str, ...]] = ("iptables",)

    @classmethod
    def of(cls, node: dict[str, Any], witness: dict[str, Any]) -> NodeDisconnect:
        """Of a node and of another one, each as the API server describes it."""
        [address] = [a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"]
        return cls(node["metadata"]["name"], address, witness["metadata"]["name"])

    @property
    def target(self) -> dict[str, str]:
        return {"node": self.node, "address": self.address}

    def undo(self, reach: Reach) -> list[Undo]:
        """Remove our chain; it would be gone too if the node were started anew."""
        if not self._reached(reach.cluster):
            raise NoEffect(f"{self.witness} does not reach {self.node} as it is")
        return [Undo("node-chain", {"node": self.node})]

    def apply(self, reach: Reach) -> None:
        """Filled before it is reached: from the first hook on, all of it drops."""
        script = [f"{_TABLE} -N {_CHAIN}", f"{_TABLE} -A {_CHAIN} -j DROP"]
        script += [f"{_TABLE} -I {hook} -j {_CHAIN}" for hook in _HOOKS]
        done = reach.cluster.node_exec(self.node, ["sh", "-c", " && ".join(script)])
        done.require(f"node {self.node} could not be cut off")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The other node must not reach its kubelet any more, and packets must have been dropped."""
        dropped = until(
            lambda: None if self._reached(reach.cluster) else self._dropped(reach.cluster),
            what=f"{self.node} out of reach of {self.witness}", deadline=_BITE_SECONDS, error=NoEffect,
        )  # fmt: skip
        return {"unreachable_from": self.witness, "dropped_packets": dropped}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """The other node must reach it again, if both still run."""
        if not (runs(reach.cluster, self.node) and runs(reach.cluster, self.witness)):
            return {"reached_from": "nowhere: a node does not run"}
        until(
            lambda: self._reached(reach.cluster), what=f"{self.node} in reach of {self.witness}",
            deadline=_RELIEF_SECONDS, error=StackError,
        )  # fmt: skip
        return {"reached_from": self.witness}

    def _reached(self, cluster: Cluster) -> bool:
        knock = ["timeout", "2", "bash", "-c", _CONNECT, self.address, _KUBELET_PORT]
        return cluster.node_exec(self.witness, knock).ok

    def _dropped(self, cluster: Cluster) -> int:
        listed = cluster.node_exec(self.node, ["sh", "-c", f"{_TABLE} -nvxL {_CHAIN}"])
        return sum(int(line.split()[0]) for line in listed.text.splitlines() if " DROP " in line)


@undoer("node-chain", node=str)
def _remove_chain(cluster: Cluster, what: dict[str, Any]) -> None:
    if not runs(cluster, what["node"]):
        return  # gone, or stopped: its rules went with it
    unhook = " ; ".join(f"while {_TABLE} -D {hook} -j {_CHAIN} 2>/dev/null; do :; done" for hook in _HOOKS)
    remove = f"if {_TABLE} -nL {_CHAIN} >/dev/null 2>&1; then {_TABLE} -F {_CHAIN} && {_TABLE} -X {_CHAIN}; fi"
    done = cluster.node_exec(what["node"], ["sh", "-c", f"{unhook} ; {remove}"])
    done.require(f"chain {_CHAIN} is still on node {what['node']}")
