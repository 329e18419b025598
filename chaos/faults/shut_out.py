"""What the operator makes from a cluster's head template from now on is not let through to Redis.

The network policy at Redis goes by a label that the head template carries; the fault takes it out of the template. A head that
runs keeps its label and its connections, so what is hit is the next pod: another head, or the clean-up of a deleted cluster,
whose pod is made from the same template. Redis itself and all other clusters are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect
from chaos.faults.base import Fault, Reach
from chaos.faults.undo import Undo, undoer
from chaos.history.objects import Object
from chaos.stack import redis
from chaos.stack.cluster import Cluster


@dataclass(frozen=True)
class ShutOut(Fault):
    """One RayCluster, by its name and UID."""

    namespace: str
    cluster: str
    uid: str

    name: ClassVar[str] = "shut-out"

    @classmethod
    def of(cls, cluster: Object) -> ShutOut:
        """Of a RayCluster as the API server describes it."""
        metadata = cluster["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"])

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "cluster": self.cluster, "uid": self.uid}

    def undo(self, reach: Reach) -> list[Undo]:
        """Put the label back; a cluster that never had it can't be shut out."""
        found = reach.cluster.get("rayclusters", self.namespace, self.cluster)
        if found is None or _value(found) is None:
            raise NoEffect(f"{self.cluster} does not let its head through to Redis by the label {redis.CLIENT_LABEL}")
        return [Undo("redis-client", {"namespace": self.namespace, "cluster": self.cluster, "uid": self.uid})]

    def apply(self, reach: Reach) -> None:
        reach.cluster.patch("rayclusters", self.namespace, self.cluster, _patch(None))

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The template must lack the label. Whether a pod without it gets through is what experiments look at."""
        found = reach.cluster.get("rayclusters", self.namespace, self.cluster)
        if found is not None and found["metadata"]["uid"] == self.uid and _value(found) is not None:
            raise NoEffect(f"the head template of {self.cluster} still has the label {redis.CLIENT_LABEL}")
        return {"without": redis.CLIENT_LABEL}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """The template has the label again, unless the cluster is gone."""
        found = reach.cluster.get("rayclusters", self.namespace, self.cluster)
        return {"label": "the cluster is gone" if found is None else _value(found)}


@undoer("redis-client", namespace=str, cluster=str, uid=str)
def _let_through(cluster: Cluster, what: dict[str, Any]) -> None:
    found = cluster.get("rayclusters", what["namespace"], what["cluster"])
    if found is not None and found["metadata"]["uid"] == what["uid"]:
        cluster.patch("rayclusters", what["namespace"], what["cluster"], _patch("true"))


def _patch(value: str | None) -> Object:
    """A merge patch of the head template's label; None takes it out."""
    labels = {redis.CLIENT_LABEL: value}
    return {"spec": {"headGroupSpec": {"template": {"metadata": {"labels": labels}}}}}


def _value(raycluster: Object) -> str | None:
    template = raycluster["spec"]["headGroupSpec"]["template"]
    value = ((template.get("metadata") or {}).get("labels") or {}).get(redis.CLIENT_LABEL)
    return None if value is None else str(value)
