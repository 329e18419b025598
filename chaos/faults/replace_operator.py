"""Another version of the KubeRay operator takes the place of the one that runs, its definitions first or left behind.

What undoes it is an upgrade as well: the stack's own version takes over, definitions first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.undo import Undo, undoer
from chaos.stack import kuberay
from chaos.stack.cluster import Cluster
from chaos.stack.kuberay import Release


@dataclass(frozen=True)
class ReplaceOperator(Fault):
    """``release`` in the place of what runs, until ``own`` comes back; without ``definitions`` those stay as they are."""

    release: Release
    own: Release
    definitions: bool = True

    name: ClassVar[str] = "replace-operator"
    scope: ClassVar[Scope] = Scope.CLUSTER

    @property
    def target(self) -> dict[str, str]:
        left = {} if self.definitions else {"definitions": "left as they are"}
        return {
            "namespace": kuberay.NAMESPACE,
            "deployment": kuberay.DEPLOYMENT,
            "version": self.release.version,
            **left,
        }

    def undo(self, reach: Reach) -> list[Undo]:
        """The stack's own version takes over, definitions first."""
        own = {"version": self.own.version, "image": self.own.image, "config": str(self.own.config)}
        return [Undo("operator-release", own)]

    def apply(self, reach: Reach) -> None:
        kuberay.install(reach.cluster, self.release, with_definitions=self.definitions)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The operator's one pod is of this version, and leads."""
        try:
            kuberay.wait_leads(reach.cluster)
            return _led_by(reach.cluster, self.release)
        except StackError as other:
            raise NoEffect(str(other.args[0])) from other

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """The stack's own version leads."""
        return _led_by(reach.cluster, self.own)


def _led_by(cluster: Cluster, release: Release) -> dict[str, Any]:
    """The pod that leads. Raises StackError when it is of another version."""
    leader = kuberay.leader_pod(cluster)
    version = leader["metadata"].get("labels", {}).get(kuberay.VERSION_LABEL)
    if version != release.version:
        raise StackError(f"the operator that leads is of version {version}, not {release.version}")
    return {"leader": leader["metadata"]["name"], "version": version}


@undoer("operator-release", version=str, image=str, config=str)
def _take_over(cluster: Cluster, what: dict[str, Any]) -> None:
    kuberay.ensure(cluster, Release(what["version"], what["image"], Path(what["config"])))
