"""Delete one RayCluster, by its UID, as a user would: what it leaves behind is what experiments look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chaos.errors import NoEffect, NotReached
from chaos.faults.base import Reach
from chaos.faults.deletion import Deletion
from chaos.history.objects import is_terminating

# The API server answers a deletion when it is written; what follows is the watch's delay on a busy machine.
_SEEN_SECONDS = 20.0


@dataclass(frozen=True)
class DeleteCluster(Deletion):
    """One RayCluster. It goes when its finalizer is gone, which is no part of the fault."""

    name = "delete-cluster"
    resource, kind = "rayclusters", "cluster"

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The watch must report that exactly this UID is being deleted, or is gone already."""
        try:
            entry = reach.writer.wait_for(
                lambda e: e["what"] == "object" and e.get("uid") == self.uid
                and (e["change"] == "DELETED" or is_terminating(e["object"])),
                deadline=_SEEN_SECONDS, what=f"the deletion of RayCluster {self.object_name}", since=since,
            )  # fmt: skip
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"deletion_seen": entry["t"], "entry": entry["n"]}
