"""Run another number of a Deployment's pods: none, and nobody does its work; two, and they must agree who does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.stack.ray import is_ready
from chaos.waiting import until

# A pod of the operator is Ready 10 s after its start at the earliest, and gets a tenth of a CPU to start with.
_READY_SECONDS = 120


@dataclass(frozen=True)
class ScaleDeployment(Fault):
    """The Deployment's ``replicas`` as long as the fault is in force."""

    namespace: str
    deployment: str
    replicas: int

    name: ClassVar[str] = "scale-deployment"
    scope: ClassVar[Scope] = Scope.CLUSTER

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "deployment": self.deployment, "replicas": str(self.replicas)}

    def undo(self, reach: Reach) -> list[Undo]:
        """As many as are asked for now."""
        found = reach.cluster.get("deployments", self.namespace, self.deployment)
        if found is None:
            raise NoEffect(f"there is no Deployment {self.namespace}/{self.deployment}")
        where = {"namespace": self.namespace, "name": self.deployment}
        return [Undo("deployment-replicas", {**where, "replicas": found["spec"].get("replicas", 1)})]

    def apply(self, reach: Reach) -> None:
        _scale(reach.cluster, self.namespace, self.deployment, self.replicas)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """So many pods are there, and all of them Ready."""
        try:
            pods = until(
                lambda: self._settled(reach.cluster), what=f"{self.replicas} pods of {self.deployment}",
                deadline=_READY_SECONDS,
            )  # fmt: skip
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"pods": pods["names"]}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """As many as are asked for are Ready."""
        if reach.cluster.get("deployments", self.namespace, self.deployment) is None:
            return {}
        reach.cluster.wait_rolled_out("deployments", self.namespace, self.deployment, _READY_SECONDS)
        return {"ready": f"deployments/{self.deployment}"}

    def _settled(self, cluster: Cluster) -> dict[str, list[str]] | None:
        """The names of the pods once they are as many as asked for, those that end included, and Ready."""
        deployment = cluster.get("deployments", self.namespace, self.deployment)
        if deployment is None:
            return None
        selector = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())
        pods = cluster.list("pods", self.namespace, selector)
        if len(pods) != self.replicas or not all(map(is_ready, pods)):
            return None
        return {"names": sorted(str(pod["metadata"]["name"]) for pod in pods)}


@undoer("deployment-replicas", namespace=str, name=str, replicas=int)
def _restore(cluster: Cluster, what: dict[str, Any]) -> None:
    if cluster.get("deployments", what["namespace"], what["name"]) is None:
        return
    _scale(cluster, what["namespace"], what["name"], what["replicas"])
    found = cluster.get("deployments", what["namespace"], what["name"])
    if found and found["spec"].get("replicas") != what["replicas"]:
        raise StackError(f"{what['name']} still asks for {found['spec'].get('replicas')} pods")


def _scale(cluster: Cluster, namespace: str, name: str, replicas: int) -> None:
    cluster.patch("deployments", namespace, name, {"spec": {"replicas": replicas}})
