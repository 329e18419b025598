"""Hold one object's deletion by a finalizer of ours: what waits for its end stays in between, for as long as is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Fault, Reach
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster, Object
from chaos.waiting import until

FINALIZER = "kuberay-chaos/held"
# A write that meets another one is refused, and tried again.
_WRITE_SECONDS = 10.0


@dataclass(frozen=True)
class HoldDeletion(Fault):
    """One object, by its UID; ``resource`` is the plural that the cluster handle knows it by."""

    resource: str
    namespace: str
    object: str
    uid: str

    name: ClassVar[str] = "hold-deletion"

    @classmethod
    def of(cls, resource: str, found: Object) -> HoldDeletion:
        """Of an object as the API server describes it."""
        metadata = found["metadata"]
        return cls(resource, metadata["namespace"], metadata["name"], metadata["uid"])

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "resource": self.resource, "object": self.object, "uid": self.uid}

    def undo(self, reach: Reach) -> list[Undo]:
        """Take our finalizer off this object."""
        where = {"resource": self.resource, "namespace": self.namespace, "name": self.object, "uid": self.uid}
        return [Undo("finalizer", where)]

    def apply(self, reach: Reach) -> None:
        _change(reach.cluster, self.undo(reach)[0].what, lambda finalizers: [*finalizers, FINALIZER])

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The object carries it."""
        found = _found(reach.cluster, self.resource, self.namespace, self.object, self.uid)
        if found is None or FINALIZER not in _finalizers(found):
            raise NoEffect(f"{self.resource}/{self.object} does not carry {FINALIZER}")
        return {"held": f"{self.resource}/{self.object}"}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """The object doesn't carry it any more, or is gone."""
        found = _found(reach.cluster, self.resource, self.namespace, self.object, self.uid)
        if found is not None and FINALIZER in _finalizers(found):
            raise StackError(f"{self.resource}/{self.object} still carries {FINALIZER}")
        return {"released": f"{self.resource}/{self.object}"}


@undoer("finalizer", resource=str, namespace=str, name=str, uid=str)
def _release(cluster: Cluster, what: dict[str, Any]) -> None:
    _change(cluster, what, lambda finalizers: [each for each in finalizers if each != FINALIZER])


def _change(cluster: Cluster, what: dict[str, Any], change: Callable[[list[str]], list[str]]) -> None:
    """Replace the finalizers of an object that is there; read anew when somebody wrote it meanwhile, whose must not be lost."""

    def changed() -> bool:
        found = _found(cluster, what["resource"], what["namespace"], what["name"], what["uid"])
        if found is not None and (now := change(before := _finalizers(found))) != before:
            version = {"resourceVersion": found["metadata"]["resourceVersion"], "finalizers": now}
            cluster.patch(what["resource"], what["namespace"], what["name"], {"metadata": version})
        return True

    until(changed, what=f"a change of {what['name']}'s finalizers", deadline=_WRITE_SECONDS, error=StackError)


def _found(cluster: Cluster, resource: str, namespace: str, name: str, uid: str) -> Object | None:
    found = cluster.get(resource, namespace, name)
    return found if found and found["metadata"]["uid"] == uid else None


def _finalizers(found: Object) -> list[str]:
    return list(found["metadata"].get("finalizers") or [])
