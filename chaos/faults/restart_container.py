"""Restart one container in place: its runtime ends it, as on a request to stop, and the kubelet starts it again in the same pod.

The pod keeps its UID, its address and its sandbox. The kubelet isn't asked, so no preStop hook runs; of a pod that it must
not restart (``restartPolicy: Never``) nothing comes back, which is no effect of this fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.inside import running_container

# What the runtime needs on top of the grace period to end the container and to answer.
_STOP_SECONDS = 20
_RESTART_SECONDS = 60  # the kubelet's sync, and its back-off of 10 s and 20 s on the second and third restart


@dataclass(frozen=True)
class RestartContainer(Fault):
    """The container with this very ID; ``grace`` in seconds, from the request to end to the kill, 0 for the kill at once."""

    namespace: str
    pod: str
    uid: str
    node: str
    container: str
    container_id: str  # as the runtime names it, without its scheme
    grace: int = 0

    name: ClassVar[str] = "restart-container"
    scope: ClassVar[Scope] = Scope.NAMESPACE

    @classmethod
    def of(cls, pod: dict[str, Any], container: str | None = None, *, grace: int = 0) -> RestartContainer:
        """Of a pod as the API server describes it; the first container when none is named."""
        metadata, spec = pod["metadata"], pod["spec"]
        named = container or spec["containers"][0]["name"]
        status = _status(pod, named)
        if status is None or "running" not in status.get("state", {}):
            raise StackError(f"container {named} of pod {metadata['name']} is not running")
        identity = _identity(status)
        return cls(metadata["namespace"], metadata["name"], metadata["uid"], spec["nodeName"], named, identity, grace)

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid, "container": self.container}

    def apply(self, reach: Reach) -> None:
        """Ask the runtime to stop it, by its ID, which a successor doesn't have."""
        running = running_container(reach.cluster, self.node, self.uid, self.container)
        if running is None or running[0] != self.container_id:
            raise StackError(f"container {self.container} of {self.pod} isn't the one that was chosen, or runs no more")
        stopped = reach.cluster.node_exec(
            self.node,
            ["crictl", "--timeout", f"{self.grace + _STOP_SECONDS}s", "stop", "--timeout", str(self.grace), self.container_id],
            timeout=self.grace + 2 * _STOP_SECONDS,
        )  # fmt: skip
        if not stopped.ok:
            raise StackError(f"{self.container} of {self.pod} could not be stopped: {stopped.error_text.strip()}")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The watch must show this container's end, and another one in its place in the same pod."""
        try:
            entry = reach.writer.wait_for(
                lambda e: e["what"] == "object" and e.get("uid") == self.uid and self._replaced(e["object"]) is not None,
                deadline=self.grace + _RESTART_SECONDS, what=f"a restart of {self.container} in {self.pod}", since=since,
            )  # fmt: skip
        except NotReached as late:
            raise NoEffect(str(late)) from late
        found = self._replaced(entry["object"])
        assert found is not None
        return {**found, "entry": entry["n"]}

    def _replaced(self, pod: dict[str, Any]) -> dict[str, Any] | None:
        """How it ended and what runs instead; None while that isn't so."""
        status = _status(pod, self.container) or {}
        ended = status.get("lastState", {}).get("terminated")
        if ended is None or _identity(ended) != self.container_id or "running" not in status.get("state", {}):
            return None
        return {
            "exit_code": ended["exitCode"], "finished": ended["finishedAt"], "restarts": status["restartCount"],
            "container_id": _identity(status),
        }  # fmt: skip


def _status(pod: dict[str, Any], container: str) -> dict[str, Any] | None:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return next((status for status in statuses if status["name"] == container), None)


def _identity(told: dict[str, Any]) -> str:
    """The container's ID without the runtime's scheme (``containerd://``); of a status, or of how one ended."""
    return str(told.get("containerID", "")).rpartition("/")[2]
