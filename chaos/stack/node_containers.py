"""Power over nodes that are containers: they are stopped and started as machines would be.

What a node is made of outlives its stop: its file system, its volumes and the unit that seals it, which runs before the
kubelet does. Its address may be another one after the start, when another node has taken it meanwhile; a kind node then
adapts its own configuration.
"""

from __future__ import annotations

from datetime import datetime

from chaos.errors import EngineError
from chaos.stack.cluster import NodeState
from chaos.stack.engine import Engine

# A node's systemd stops the kubelet and containerd within seconds; at the end of the time the rest is killed.
_SHUTDOWN_SECONDS = 10


class NodeContainers:
    """The nodes as one engine's containers; implements `chaos.stack.cluster.NodeControl`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def state(self, node: str) -> NodeState | None:
        described = self._engine.inspect("container", node)
        if described is None:
            # Also what an engine that doesn't answer looks like, and that must not pass for a node that is gone.
            if self._engine.docker("ps", "--all", "--filter", f"name=^{node}$", "--format", "{{.Names}}").text.strip():
                raise EngineError(f"the state of node {node} can't be read")
            return None
        state = described["State"]
        return NodeState(bool(state["Running"]), datetime.fromisoformat(state["StartedAt"]))

    def stop(self, node: str, *, at_once: bool) -> None:
        how = ["kill"] if at_once else ["stop", f"--time={_SHUTDOWN_SECONDS}"]
        self._engine.docker(*how, node, timeout=_SHUTDOWN_SECONDS + 50)

    def start(self, node: str) -> None:
        self._engine.docker("start", node)
