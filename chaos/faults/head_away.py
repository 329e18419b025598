"""The head pod is lost, and its successor is not scheduled until the fault is undone: an outage of a chosen length.

The successor is held by a scheduling gate in the RayCluster's own head template, which the operator copies when it makes the
pod; pods that exist are left alone (without an upgrade strategy KubeRay changes none). So only this one cluster is hit:
cordoned nodes or an operator that may not make pods would hit every other cluster as well, and after refusals the operator
waits twice as long as they had lasted before it tries again.

The undo takes the gate off the pod that waits. No pod is deleted that the operator may not have seen yet, see `ray.is_known`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach
from chaos.faults.proof import uid_gone
from chaos.faults.undo import Undo, undoer
from chaos.history.objects import Object, condition, is_terminating, labels
from chaos.stack import ray
from chaos.stack.cluster import ApiError, Cluster
from chaos.waiting import until

_GATE = {"name": "kuberay-chaos/head-away"}
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
        """Take our gate out of the template, and off the pod that was made from it."""
        return [Undo("head-gate", {"namespace": self.namespace, "cluster": self.cluster})]

    def apply(self, reach: Reach) -> None:
        """Gate first, then the pod; again while the operator makes one without, as it may for a moment."""
        raycluster = until(
            lambda: self._known_to(reach.cluster), what=f"the operator to know the head of {self.cluster}",
            deadline=_PENDING_SECONDS, error=NoEffect,
        )  # fmt: skip
        gates = [*_gates_of_others(_head_template(raycluster)), _GATE]
        reach.cluster.patch("rayclusters", self.namespace, self.cluster, _template(gates))
        reach.cluster.delete("pods", self.namespace, self.pod, uid=self.uid, grace=0)

        def held() -> bool:
            heads = _heads(reach.cluster, self.namespace, self.cluster)
            for head in heads:
                if not _is_held(head) and ray.is_known(_raycluster(reach.cluster, self.namespace, self.cluster), head):
                    metadata = head["metadata"]
                    reach.cluster.delete("pods", self.namespace, metadata["name"], uid=metadata["uid"], grace=0)
            return any(_is_held(head) for head in heads) or _is_gone(reach.cluster, self.namespace, self.cluster)

        until(held, what=f"a head of {self.cluster} that is held", deadline=_PENDING_SECONDS, error=StackError)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The watch must report the end of exactly this UID, and a successor that the scheduler leaves alone."""
        gone = uid_gone(reach, self.uid, what=f"pod {self.pod}", since=since, deadline=_GONE_SECONDS)
        try:
            entry = reach.writer.wait_for(
                lambda e: e["what"] == "object" and e["namespace"] == self.namespace and self._waits(e["object"]),
                deadline=_PENDING_SECONDS, what=f"a head of {self.cluster} that is not scheduled", since=since,
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
        of = labels(pod)
        if (of.get("ray.io/cluster"), of.get("ray.io/node-type")) != (self.cluster, "head") or not _is_held(pod):
            return False
        scheduled = condition(pod, "PodScheduled")
        return scheduled is not None and scheduled.get("reason") == "SchedulingGated"

    def _known_to(self, cluster: Cluster) -> Object | None:
        """The RayCluster, once its operator knows the pod; also when that is gone, which is for `prove` to tell."""
        raycluster = _raycluster(cluster, self.namespace, self.cluster)
        head = cluster.get("pods", self.namespace, self.pod)
        if head is None or head["metadata"]["uid"] != self.uid:
            return raycluster
        return raycluster if ray.is_known(raycluster, head) else None


@undoer("head-gate", namespace=str, cluster=str)
def _let_come(cluster: Cluster, what: dict[str, Any]) -> None:
    namespace, name = what["namespace"], what["cluster"]
    raycluster = cluster.get("rayclusters", namespace, name)
    if raycluster is None or is_terminating(raycluster):
        return
    if _is_held(template := _head_template(raycluster)):
        cluster.patch("rayclusters", namespace, name, _template(_gates_of_others(template)))

    def free() -> bool:
        # The operator reads its own copy of the RayCluster, and may make one more from the template as it was.
        heads = _heads(cluster, namespace, name)
        for head in heads:
            if _is_held(head):
                _ungate(cluster, head)
        return any(not _is_held(head) for head in heads) or _is_gone(cluster, namespace, name)

    until(free, what=f"a head of {name} that may be scheduled", deadline=_PENDING_SECONDS, error=StackError)


def _raycluster(cluster: Cluster, namespace: str, name: str) -> Object:
    found = cluster.get("rayclusters", namespace, name)
    if found is None:
        raise NoEffect(f"no RayCluster {name} in {namespace}")
    return found


def _is_gone(cluster: Cluster, namespace: str, name: str) -> bool:
    found = cluster.get("rayclusters", namespace, name)
    return found is None or is_terminating(found)


def _ungate(cluster: Cluster, head: Object) -> None:
    metadata = head["metadata"]
    # The UID is a precondition: the API server refuses the patch of a namesake.
    body = {"metadata": {"uid": metadata["uid"]}, "spec": {"schedulingGates": _gates_of_others(head) or None}}
    try:
        cluster.patch("pods", metadata["namespace"], metadata["name"], body)
    except ApiError as refused:
        if refused.status not in (404, 409):
            raise


def _head_template(raycluster: Object) -> Object:
    template: Object = raycluster["spec"]["headGroupSpec"]["template"]
    return template


def _template(gates: list[Object]) -> Object:
    """A merge patch of the head's scheduling gates; it replaces the list as a whole."""
    return {"spec": {"headGroupSpec": {"template": {"spec": {"schedulingGates": gates or None}}}}}


def _gates_of_others(pod: Object) -> list[Object]:
    return [gate for gate in pod["spec"].get("schedulingGates") or [] if gate != _GATE]


def _heads(cluster: Cluster, namespace: str, name: str) -> list[Object]:
    return cluster.list("pods", namespace, f"ray.io/cluster={name},ray.io/node-type=head")


def _is_held(pod: Object) -> bool:
    return _GATE in (pod["spec"].get("schedulingGates") or [])
