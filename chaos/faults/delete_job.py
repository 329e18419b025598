"""Delete one batch Job with its pods, by its UID: the control of experiments that expect a Job to be re-used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chaos.faults.base import Reach
from chaos.faults.deletion import Deletion
from chaos.faults.proof import uid_gone


@dataclass(frozen=True)
class DeleteJob(Deletion):
    """One Job."""

    name = "delete-job"
    resource, kind = "jobs", "job"

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The watch must report the end of exactly this UID."""
        return uid_gone(reach, self.uid, what=f"Job {self.object_name}", since=since, deadline=20)
