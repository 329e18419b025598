"""Pods seen from their node: the sandbox's network namespace, and the containers' processes.

Everything is found by the pod's UID and never by its name, so that a successor is not hit.
"""

from __future__ import annotations

import json
from typing import Any

from chaos.errors import StackError
from chaos.faults.nodes import runs
from chaos.process import Executed
from chaos.stack.cluster import Cluster


def require_own_network(pod: dict[str, Any]) -> None:
    """Raises StackError for a pod in its node's own network: what is done there would hit the node and all that is on it."""
    if pod["spec"].get("hostNetwork"):
        raise StackError(f"pod {pod['metadata']['name']} has no network of its own, but its node's")


def in_sandbox(
    cluster: Cluster, node: str, uid: str, script: str, *arguments: str, stdin: bytes | None = None
) -> Executed | None:
    """Run a script of ours in the pod's network namespace, with the node's programs.

    The namespace belongs to the pod's sandbox, which outlives restarts of its containers. None when the pod has no sandbox
    on that node any more, as after the node itself was stopped.
    """
    if (found := _sandbox(cluster, node, uid)) is None:
        return None
    inside = ["nsenter", "--target", str(found[1]), "--net", "sh", "-c", script]
    done = cluster.node_exec(node, [*inside, *(["sh", *arguments] if arguments else [])], stdin=stdin)
    if not done.ok and _sandbox(cluster, node, uid) != found:  # it went before it could be entered
        return None
    return done


def running_container(cluster: Cluster, node: str, uid: str, container: str) -> tuple[str, int] | None:
    """The running container of that name: its runtime's ID, and its main process as the node numbers it; None without one."""
    return _living(cluster, node, uid, ("ps", "--name", f"^{container}$"), "inspect")


def _sandbox(cluster: Cluster, node: str, uid: str) -> tuple[str, int] | None:
    return _living(cluster, node, uid, ("pods", "--state", "ready"), "inspectp")


def _living(cluster: Cluster, node: str, uid: str, listing: tuple[str, ...], inspect: str) -> tuple[str, int] | None:
    """The first of the pod's that is listed: its runtime's ID and its process; None when it has none any more."""
    found = _crictl(cluster, node, *listing, "--label", f"io.kubernetes.pod.uid={uid}")
    if not found:
        return None
    described = cluster.node_exec(node, ["crictl", inspect, found[0]])
    if not described.ok:  # it went between the two questions
        return None
    pid = int(json.loads(described.stdout)["info"]["pid"])
    return (found[0], pid) if pid else None  # listed for a moment after its process is gone


def _crictl(cluster: Cluster, node: str, what: str, *filters: str) -> list[str]:
    listed = cluster.node_exec(node, ["crictl", what, "--quiet", *filters])
    if not listed.ok:
        if not runs(cluster, node):  # and with it all that was in it
            return []
        raise StackError(f"the container runtime of {node} does not answer: {listed.error_text.strip()}")
    return listed.text.split()
