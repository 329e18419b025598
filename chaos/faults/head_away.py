"""The head pod is lost, and its successor finds no node until the fault is undone: an outage of a chosen length.

The successor is held by a node selector in the RayCluster's own head template, which the operator copies when it makes the
pod; pods that exist are left alone (without an upgrade strategy KubeRay changes none). So only this one cluster is hit:
cordoned nodes or an operator that may not make pods would hit every other cluster as well, and after refusals the operator
waits twice as long as they had lasted before it tries again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach
from chaos.faults.proof import uid_gone
from chaos.faults.undo import Undo, undoer
from chaos.history.objects import Object, condition, is_terminating, labels
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_SELECTOR = "kuberay-chaos/head-away"
# What the kubelet and the watch need on a busy two-core machine; the operator and the scheduler come on top.
_GONE_SECONDS, _PENDING_SECONDS = 20.0, 30.0


@dataclass(frozen=True)
class HeadAway(Fault):
    """The head pod of one RayCluster, by its UID; it is deleted by force."""

    namespace: str
    cluster: str
    pod: str
    uid: str

    name: ClassVar[str] = "head-away"

    @classmethod
    def of(cls, head: Object) -> HeadAway:
        """Of a head pod as the API server describes it."""
        metadata = head["metadata"]
        return cls(metadata["namespace"], labels(head)["ray.io/cluster"], metadata["name"], metadata["uid"])

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "cluster": self.cluster, "pod": self.pod, "uid": self.uid}

    def undo(self, reach: Reach) -> list[Undo]:
        """Take our selector out of the template, and let the operator make the pod again from that."""
        return [Undo("head-selector", {"namespace": self.namespace, "cluster": self.cluster})]

    def apply(self, reach: Reach) -> None:
        """Selector first, then the pod; again while the operator makes one without, as it may for a moment."""
        reach.cluster.patch("rayclusters", self.namespace, self.cluster, _template({_SELECTOR: "true"}))
        reach.cluster.delete("pods", self.namespace, self.pod, uid=self.uid, grace=0)
        _until_heads(reach.cluster, self.namespace, self.cluster, held=True)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The watch must report the end of exactly this UID, and a successor that the scheduler has no node for."""
        gone = uid_gone(reach, self.uid, what=f"pod {self.pod}", since=since, deadline=_GONE_SECONDS)
        try:
            entry = reach.writer.wait_for(
                lambda e: e["what"] == "object" and e["namespace"] == self.namespace and self._waits(e["object"]),
                deadline=_PENDING_SECONDS, what=f"a head of {self.cluster} that finds no node", since=since,
            )  # fmt: skip
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {**gone, "successor": entry["name"]}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """A head must have a node again, if the cluster is still there."""

        def placed() -> str | None:
            if _is_gone(reach.cluster, self.namespace, self.cluster):
                return "none: the cluster is gone"
            heads = _heads(reach.cluster, self.namespace, self.cluster)
            return next((str(head["spec"]["nodeName"]) for head in heads if head["spec"].get("nodeName")), None)

        node = until(placed, what=f"a node for the head of {self.cluster}", deadline=_PENDING_SECONDS, error=StackError)
        return {"node": node}

    def _waits(self, pod: Object) -> bool:
        if not _is_held(pod) or labels(pod).get("ray.io/cluster") != self.cluster:
            return False
        scheduled = condition(pod, "PodScheduled")
        return scheduled is not None and scheduled.get("reason") == "Unschedulable"


@undoer("head-selector", namespace=str, cluster=str)
def _let_come(cluster: Cluster, what: dict[str, Any]) -> None:
    namespace, name = what["namespace"], what["cluster"]
    if _is_gone(cluster, namespace, name):
        return
    cluster.patch("rayclusters", namespace, name, _template({_SELECTOR: None}))
    _until_heads(cluster, namespace, name, held=False)


def _until_heads(cluster: Cluster, namespace: str, name: str, *, held: bool) -> None:
    """Wait until the operator has made the head from the template as it is now; heads from an older one are deleted.

    It reads its own copy of the RayCluster, which may be a moment old when it sees that a pod is gone.
    """

    def made() -> bool:
        heads = _heads(cluster, namespace, name)
        for head in heads:
            if _is_held(head) is not held:
                cluster.delete("pods", namespace, head["metadata"]["name"], uid=head["metadata"]["uid"], grace=0)
        return any(_is_held(head) is held for head in heads) or _is_gone(cluster, namespace, name)

    until(made, what=f"another head of {name}", deadline=_PENDING_SECONDS, error=StackError)


def _is_gone(cluster: Cluster, namespace: str, name: str) -> bool:
    found = cluster.get("rayclusters", namespace, name)
    return found is None or is_terminating(found)


def _template(selector: dict[str, str | None]) -> Object:
    """A merge patch of the head's node selector; None takes a key out."""
    return {"spec": {"headGroupSpec": {"template": {"spec": {"nodeSelector": selector}}}}}


def _heads(cluster: Cluster, namespace: str, name: str) -> list[Object]:
    return cluster.list("pods", namespace, f"ray.io/cluster={name},ray.io/node-type=head")


def _is_held(pod: Object) -> bool:
    return labels(pod).get("ray.io/node-type") == "head" and _SELECTOR in (pod["spec"].get("nodeSelector") or {})
