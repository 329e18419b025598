"""Delete one RayJob, by its UID, as a user does: its finalizer holds it until the operator lets go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chaos.faults.base import Reach
from chaos.faults.deletion import Deletion
from chaos.faults.proof import uid_gone

# The operator asks Ray to stop the job, 2 s at most, and takes the finalizer away; 0.2 s were measured.
_GONE_SECONDS = 20


@dataclass(frozen=True)
class DeleteRayJob(Deletion):
    """One RayJob."""

    name = "delete-rayjob"
    resource, kind = "rayjobs", "rayjob"

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The watch must report the end of exactly this UID."""
        return uid_gone(reach, self.uid, what=f"RayJob {self.object_name}", since=since, deadline=_GONE_SECONDS)
