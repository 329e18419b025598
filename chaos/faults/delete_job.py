"""Delete one batch Job with its pods, by its UID: the control of experiments that expect a Job to be re-used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.faults.base import Fault, Reach
from chaos.faults.proof import uid_gone


@dataclass(frozen=True)
class DeleteJob(Fault):
    """One Job, by its UID."""

    namespace: str
    job: str
    uid: str

    name: ClassVar[str] = "delete-job"

    @classmethod
    def of(cls, job: dict[str, Any]) -> DeleteJob:
        """Of a Job as the API server describes it."""
        metadata = job["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"])

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "job": self.job, "uid": self.uid}

    def apply(self, reach: Reach) -> None:
        reach.cluster.delete("jobs", self.namespace, self.job, uid=self.uid, propagation="Background")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The watch must report the end of exactly this UID."""
        return uid_gone(reach, self.uid, what=f"Job {self.job}", since=since, deadline=20)
