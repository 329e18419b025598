"""Delete one RayJob, by its UID, as a user does: its finalizer holds it until the operator lets go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.faults.base import Fault, Reach
from chaos.faults.proof import uid_gone

# The operator asks Ray to stop the job, 2 s at most, and takes the finalizer away; 0.2 s were measured.
_GONE_SECONDS = 20


@dataclass(frozen=True)
class DeleteRayJob(Fault):
    """One RayJob. What it owns is deleted behind it and not waited for."""

    namespace: str
    rayjob: str
    uid: str

    name: ClassVar[str] = "delete-rayjob"

    @classmethod
    def of(cls, rayjob: dict[str, Any]) -> DeleteRayJob:
        """Of a RayJob as the API server describes it."""
        metadata = rayjob["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"])

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "rayjob": self.rayjob, "uid": self.uid}

    def apply(self, reach: Reach) -> None:
        reach.cluster.delete("rayjobs", self.namespace, self.rayjob, uid=self.uid, propagation="Background")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The watch must report the end of exactly this UID."""
        return uid_gone(reach, self.uid, what=f"RayJob {self.rayjob}", since=since, deadline=_GONE_SECONDS)
