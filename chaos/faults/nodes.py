"""Nodes as faults see them: whether one runs, by the machine that carries it, and whether its kubelet says that it is Ready."""

from __future__ import annotations

from datetime import datetime

from chaos.stack.cluster import Cluster


def runs(cluster: Cluster, node: str) -> bool:
    """Whether the node is there and runs; the API server isn't asked. Raises StackError where nodes aren't ours."""
    state = cluster.node_control.state(node)
    return state is not None and state.running


def ready_since(cluster: Cluster, node: str, moment: datetime) -> bool:
    """Whether the kubelet has said after that moment that the node is Ready.

    An older word counts for nothing: a node that was away for less than 40 s is shown as Ready all the while. Both times
    are of the machine that carries the node.
    """
    found = cluster.get("nodes", None, node)
    conditions = found["status"].get("conditions") or [] if found else []
    return any(
        condition["type"] == "Ready"
        and condition["status"] == "True"
        and datetime.fromisoformat(condition["lastHeartbeatTime"]) > moment
        for condition in conditions
    )
