"""Empty a node as an operator does before maintenance: cordon it, then evict its pods.

Evictions ask: a PodDisruptionBudget may refuse one for now, and it is asked again. Pods of DaemonSets and static pods stay, as
with `kubectl drain --ignore-daemonsets`. All others go, whoever they belong to, the stack's own among them; those with a
volume on this node wait until it is open again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Reach
from chaos.faults.node_cordon import NodeCordon
from chaos.stack.cluster import RESOURCES, ApiError, Cluster, Object
from chaos.waiting import until

_MIRROR = "kubernetes.io/config.mirror"
# A budget that holds an eviction back opens when a pod evicted before is Ready elsewhere.
_EVICT_SECONDS = 120.0
# The default grace of 30 s, and what the kubelet needs on top, doubled for a busy machine.
_GONE_SECONDS = 90.0


@dataclass(frozen=True)
class NodeDrain(NodeCordon):
    """One node, by its UID. Undo opens it again; what was evicted is its controllers' to restore."""

    name: ClassVar[str] = "node-drain"

    def apply(self, reach: Reach) -> None:
        super().apply(reach)
        until(
            lambda: _evict_all(reach.cluster, self.node), what=f"evictions from {self.node}", deadline=_EVICT_SECONDS,
            every=1, error=StackError,
        )  # fmt: skip

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """No pod that can be evicted may be left on the node, and no new one may have come."""
        seen = super().prove(reach, since)
        until(
            lambda: not _evictable(reach.cluster, self.node), what=f"the end of all pods on {self.node}",
            deadline=_GONE_SECONDS, every=1, error=NoEffect,
        )  # fmt: skip
        return {**seen, "pods": "only of DaemonSets, and static"}


def _evict_all(cluster: Cluster, node: str) -> bool:
    """Ask once for the eviction of each pod that isn't leaving yet; raises StackError with the refusals."""
    refused = []
    for pod in _evictable(cluster, node):
        if "deletionTimestamp" not in pod["metadata"]:
            try:
                _evict(cluster, pod)
            except ApiError as refusal:
                refused.append(str(refusal.args[0]))
    if refused:
        raise StackError("; ".join(refused))
    return True


def _evict(cluster: Cluster, pod: Object) -> None:
    """By UID; content when that pod is gone."""
    metadata = pod["metadata"]
    path = RESOURCES["pods"].path("pods", metadata["namespace"], metadata["name"]) + "/eviction"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
    }
    try:
        cluster.request("POST", path, body=body)
    except ApiError as error:
        if error.status not in (404, 409):
            raise


def _evictable(cluster: Cluster, node: str) -> list[Object]:
    """The node's pods but those of DaemonSets, static ones, and those that have ended."""
    listed = cluster.request(
        "GET", RESOURCES["pods"].path("pods", None), query={"fieldSelector": f"spec.nodeName={node}"}
    )
    return [pod for pod in listed["items"] if not _stays(pod)]


def _stays(pod: Object) -> bool:
    metadata = pod["metadata"]
    owners = metadata.get("ownerReferences") or []
    return (
        any(owner["kind"] == "DaemonSet" and owner.get("controller") for owner in owners)
        or _MIRROR in (metadata.get("annotations") or {})
        # One that is being deleted has ended a moment before it is gone.
        or (pod.get("status", {}).get("phase") in ("Succeeded", "Failed") and "deletionTimestamp" not in metadata)
    )
