"""What the faults share that delete one object by its UID, as a user does; each has a proof of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from chaos.faults.base import Fault, Reach
from chaos.history.objects import Object


@dataclass(frozen=True)
class Deletion(Fault):
    """One object. What it owns is deleted behind it and not waited for."""

    namespace: str
    object_name: str
    uid: str

    resource: ClassVar[str]
    kind: ClassVar[str]  # as the history names it

    @classmethod
    def of(cls, found: Object) -> Self:
        """Of an object as the API server describes it."""
        metadata = found["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"])

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, self.kind: self.object_name, "uid": self.uid}

    def apply(self, reach: Reach) -> None:
        """With a precondition on the UID, so that a successor of the same name is never hit."""
        reach.cluster.delete(self.resource, self.namespace, self.object_name, uid=self.uid)
