"""Keep new pods off a node, as `kubectl cordon` does. Those that are on it stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import ApiError, Cluster, Object
from chaos.waiting import until

_TAINT = "node.kubernetes.io/unschedulable"
# The node controller sees the change by its watch.
_TAINT_SECONDS = 15.0


@dataclass(frozen=True)
class NodeCordon(Fault):
    """One node, by its UID."""

    node: str
    uid: str

    name: ClassVar[str] = "node-cordon"
    scope: ClassVar[Scope] = Scope.NODE

    @classmethod
    def of(cls, node: dict[str, Any]) -> Self:
        """Of a node as the API server describes it."""
        return cls(node["metadata"]["name"], node["metadata"]["uid"])

    @property
    def target(self) -> dict[str, str]:
        return {"node": self.node, "uid": self.uid}

    def undo(self, reach: Reach) -> list[Undo]:
        """Let pods onto it again. A node that somebody else has cordoned is not ours to open."""
        found = _found(reach.cluster, self.node, self.uid)
        if found is None:
            raise NoEffect(f"there is no such node {self.node}")
        if found["spec"].get("unschedulable"):
            raise NoEffect(f"{self.node} is cordoned already")
        return [Undo("node-cordon", {"node": self.node, "uid": self.uid})]

    def apply(self, reach: Reach) -> None:
        _set_unschedulable(reach.cluster, self.node, self.uid, True)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The node controller must have seen it, and put its taint on the node."""
        until(
            lambda: self._tainted(reach.cluster), what=f"taint {_TAINT} of {self.node}", deadline=_TAINT_SECONDS,
            error=NoEffect,
        )  # fmt: skip
        return {"taint": _TAINT}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """The taint must be gone again."""
        until(
            lambda: not self._tainted(reach.cluster), what=f"the end of taint {_TAINT} of {self.node}",
            deadline=_TAINT_SECONDS, error=StackError,
        )  # fmt: skip
        return {"taint": "none"}

    def _tainted(self, cluster: Cluster) -> bool:
        found = _found(cluster, self.node, self.uid)
        taints = found["spec"].get("taints") or [] if found else []
        return any(taint["key"] == _TAINT for taint in taints)


@undoer("node-cordon", node=str, uid=str)
def _uncordon(cluster: Cluster, what: dict[str, Any]) -> None:
    if _found(cluster, what["node"], what["uid"]) is not None:
        _set_unschedulable(cluster, what["node"], what["uid"], None)


def _found(cluster: Cluster, node: str, uid: str) -> Object | None:
    found = cluster.get("nodes", None, node)
    return found if found is not None and found["metadata"]["uid"] == uid else None


def _set_unschedulable(cluster: Cluster, node: str, uid: str, value: bool | None) -> None:
    """With the UID as a precondition: the API server refuses to change another node's."""
    try:
        cluster.patch("nodes", None, node, {"metadata": {"uid": uid}, "spec": {"unschedulable": value}})
    except ApiError as error:
        if value or error.status not in (404, 409):  # gone, or of another UID: nothing is left to open
            raise
