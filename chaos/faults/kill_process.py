"""Send a signal to a container's main process, from the node it runs on.

Images without a shell can't be asked to kill anything themselves, and a pod deletion takes a hundred times longer than the
windows that a crash must hit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.inject import Reach
from chaos.faults.undo import Undo

_RESTART_SECONDS = 60  # the kubelet's sync, and its back-off of 10 s and 20 s on the second and third restart


@dataclass(frozen=True)
class KillProcess:
    """The container named ``container`` of one pod; ``signal`` as `kill` names it."""

    namespace: str
    pod: str
    uid: str
    node: str
    container: str
    signal: str = "KILL"

    name: ClassVar[str] = "kill-process"

    @classmethod
    def of(cls, pod: dict[str, Any], container: str | None = None, *, signal: str = "KILL") -> KillProcess:
        """Of a pod as the API server describes it; the first container when none is named."""
        metadata, spec = pod["metadata"], pod["spec"]
        named = container or spec["containers"][0]["name"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"], spec["nodeName"], named, signal)

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid, "container": self.container}

    def undo(self, reach: Reach) -> list[Undo]:
        """Nothing: the kubelet restarts the container."""
        return []

    def apply(self, reach: Reach) -> None:
        """Look the container up by the pod's UID, and signal its first process."""
        listed = reach.cluster.node_exec(
            self.node,
            [
                "crictl",
                "ps",
                "--quiet",
                "--name",
                f"^{self.container}$",
                "--label",
                f"io.kubernetes.pod.uid={self.uid}",
            ],
        )
        identity = listed.text.split()
        if not identity:
            raise StackError(f"no running container {self.container} of pod {self.pod} on {self.node}")
        described = json.loads(reach.cluster.node_exec(self.node, ["crictl", "inspect", identity[0]]).stdout)
        killed = reach.cluster.node_exec(self.node, ["kill", f"-{self.signal}", str(described["info"]["pid"])])
        if not killed.ok:
            raise StackError(f"kill in {self.node} failed: {killed.error_text.strip()}")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The pod's status must report that the container ended, with its exit code."""
        try:
            entry = reach.writer.wait_for(
                lambda e: e["what"] == "object" and e.get("uid") == self.uid and self._ended(e["object"]) is not None,
                deadline=_RESTART_SECONDS, what=f"the end of container {self.container} in {self.pod}", since=since,
            )  # fmt: skip
        except NotReached as late:
            raise NoEffect(str(late)) from late
        ended = self._ended(entry["object"])
        assert ended is not None
        return {"exit_code": ended["exitCode"], "finished": ended["finishedAt"], "entry": entry["n"]}

    def _ended(self, pod: dict[str, Any]) -> dict[str, Any] | None:
        for status in pod.get("status", {}).get("containerStatuses", []):
            if status["name"] == self.container:
                for state in (status.get("state", {}), status.get("lastState", {})):
                    if ended := state.get("terminated"):
                        found: dict[str, Any] = ended
                        return found
        return None
