"""Delete one RayCluster, by its UID, as a user would: what it leaves behind is what experiments look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached
from chaos.faults.base import Fault, Reach
from chaos.history.objects import Object, is_terminating

# The API server answers a deletion when it is written; what follows is the watch's delay on a busy machine.
_SEEN_SECONDS = 20.0


@dataclass(frozen=True)
class DeleteCluster(Fault):
    """One RayCluster, by its UID. It goes when its finalizer is gone, which is no part of the fault."""

    namespace: str
    cluster: str
    uid: str

    name: ClassVar[str] = "delete-cluster"

    @classmethod
    def of(cls, cluster: Object) -> DeleteCluster:
        """Of a RayCluster as the API server describes it."""
        metadata = cluster["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"])

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "cluster": self.cluster, "uid": self.uid}

    def apply(self, reach: Reach) -> None:
        reach.cluster.delete("rayclusters", self.namespace, self.cluster, uid=self.uid)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The watch must report that exactly this UID is being deleted, or is gone already."""
        try:
            entry = reach.writer.wait_for(
                lambda e: e["what"] == "object" and e.get("uid") == self.uid
                and (e["change"] == "DELETED" or is_terminating(e["object"])),
                deadline=_SEEN_SECONDS, what=f"the deletion of RayCluster {self.cluster}", since=since,
            )  # fmt: skip
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"deletion_seen": entry["t"], "entry": entry["n"]}
