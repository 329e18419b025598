"""Stop a whole node, in order or as a power cut does, and start it again.

With it go its pods' processes and its kubelet, and with the control plane the API server: so nothing here but the wait for
the node's return relies on that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.nodes import ready_since, runs
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_STOP_SECONDS = 10.0
# A node starts within 30 s, its control plane within 60 s more, and its network's pod after that; doubled for a busy machine.
_RETURN_SECONDS = 180.0


@dataclass(frozen=True)
class NodeStop(Fault):
    """One node; ``at_once`` for a power cut, otherwise its services are shut down in order."""

    node: str
    at_once: bool = True

    name: ClassVar[str] = "node-stop"
    scope: ClassVar[Scope] = Scope.NODE

    @classmethod
    def of(cls, node: dict[str, Any], *, at_once: bool = True) -> NodeStop:
        """Of a node as the API server describes it."""
        return cls(node["metadata"]["name"], at_once)

    @property
    def target(self) -> dict[str, str]:
        return {"node": self.node, "how": "at once" if self.at_once else "in order"}

    def undo(self, reach: Reach) -> list[Undo]:
        """Start it. Raises NoEffect when it doesn't run, StackError where nodes aren't ours to stop."""
        if not runs(reach.cluster, self.node):
            raise NoEffect(f"node {self.node} does not run")
        return [Undo("node-start", {"node": self.node})]

    def apply(self, reach: Reach) -> None:
        reach.cluster.node_control.stop(self.node, at_once=self.at_once)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The machine that carries the node must say that it doesn't run."""
        until(
            lambda: not runs(reach.cluster, self.node), what=f"the end of node {self.node}",
            deadline=_STOP_SECONDS, error=NoEffect,
        )  # fmt: skip
        return {"running": False}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """The node must be Ready, by its kubelet's word after the start."""
        state = reach.cluster.node_control.state(self.node)
        if state is not None and not ready_since(reach.cluster, self.node, state.started):
            raise StackError(f"node {self.node} is not Ready")
        return {"ready": state is not None}


@undoer("node-start", node=str)
def _start(cluster: Cluster, what: dict[str, Any]) -> None:
    """Its seal comes back by itself: a unit of the node closes its way out before the kubelet starts."""
    node, control = what["node"], cluster.node_control
    if control.state(node) is None:
        return
    control.start(node)

    def back() -> bool:
        state = control.state(node)
        return state is None or (state.running and ready_since(cluster, node, state.started))

    until(back, what=f"node {node} Ready", deadline=_RETURN_SECONDS, every=1, error=StackError)
