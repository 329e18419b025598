"""Delete one pod by its UID, gracefully or by force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import StackError
from chaos.faults.base import Fault, Reach
from chaos.faults.proof import uid_gone
from chaos.history.objects import is_terminating

# What the kubelet and the watch need on top of the grace period on a busy two-core machine.
_SLACK_SECONDS = 20


@dataclass(frozen=True)
class DeletePod(Fault):
    """``grace`` in seconds; 0 removes the object at once and the process is killed (``kubectl delete --force``)."""

    namespace: str
    pod: str
    uid: str
    grace: int = 0

    name: ClassVar[str] = "delete-pod"

    @classmethod
    def of(cls, pod: dict[str, Any], *, grace: int = 0) -> DeletePod:
        """Of a pod as the API server describes it."""
        metadata = pod["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"], grace)

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid}

    def apply(self, reach: Reach) -> None:
        """Delete with a precondition on the UID, so that a successor of the same name is never hit.

        A pod that is terminating already isn't deleted again: its end would be proof of nothing that was done here.
        """
        found = reach.cluster.get("pods", self.namespace, self.pod)
        if found is not None and found["metadata"]["uid"] == self.uid and is_terminating(found):
            raise StackError(f"pod {self.pod} is being deleted already", fix="choose its successor")
        reach.cluster.delete("pods", self.namespace, self.pod, uid=self.uid, grace=self.grace)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The watch must report the end of exactly this UID."""
        return uid_gone(reach, self.uid, what=f"pod {self.pod}", since=since, deadline=self.grace + _SLACK_SECONDS)
