"""Stop processes of a container in their tracks (SIGSTOP), and let them go on (SIGCONT).

A stopped server is not a dead one: its kernel goes on accepting connections, so a TCP probe sees nothing, and clients wait.
Undo lets go on what is stopped in this very container, by its ID: one that was restarted meanwhile has another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.inside import running_container
from chaos.faults.processes import Process, processes, signal
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_STOPPED = "T"
# A process that waits for the disk or the network only stops when it comes back from there.
_STOP_SECONDS = 10
_CONTINUE_SECONDS = 10


@dataclass(frozen=True)
class StopProcess(Fault):
    """The main process of the container named ``container``, or its processes named ``process``."""

    namespace: str
    pod: str
    uid: str
    node: str
    container: str
    process: str = ""  # as the kernel names it, at most 15 characters

    name: ClassVar[str] = "stop-process"
    scope: ClassVar[Scope] = Scope.NAMESPACE

    @classmethod
    def of(cls, pod: dict[str, Any], container: str | None = None, *, process: str = "") -> StopProcess:
        """Of a pod as the API server describes it; the first container when none is named."""
        metadata, spec = pod["metadata"], pod["spec"]
        named = container or spec["containers"][0]["name"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"], spec["nodeName"], named, process)

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid, "container": self.container}

    def undo(self, reach: Reach) -> list[Undo]:
        """Let go on what bears the name, or the main process as it is now: its number and its start time."""
        container, chosen = self._chosen(reach.cluster)
        what: dict[str, Any] = {"node": self.node, "container": container, "process": self.process}
        if not self.process:
            what |= {"pid": chosen[0].pid, "started": chosen[0].started}
        return [Undo("stopped-process", what)]

    def apply(self, reach: Reach) -> None:
        _, chosen = self._chosen(reach.cluster)
        signal(reach.cluster, self.node, "STOP", chosen)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The node's process table must say of each that it is stopped."""

        def stopped() -> list[Process]:
            _, chosen = self._chosen(reach.cluster)
            return chosen if all(process.state == _STOPPED for process in chosen) else []

        try:
            seen = until(stopped, what=f"a stop in {self.pod}", deadline=_STOP_SECONDS)
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"stopped": {process.name: process.pid for process in seen}}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """None of the container that runs now may be stopped; one that isn't there any more has no stopped process."""
        found = running_container(reach.cluster, self.node, self.uid, self.container)
        if found is None:
            return {"container": "gone"}
        left = _select(processes(reach.cluster, self.node, found[0]), self.process, found[1])
        if stopped := [process.name for process in left if process.state == _STOPPED]:
            raise StackError(f"{', '.join(stopped)} of {self.pod} is still stopped")
        return {"states": {process.name: process.state for process in left}}

    def _chosen(self, cluster: Cluster) -> tuple[str, list[Process]]:
        """The running container's ID, and what is to be stopped in it; raises StackError when there is nothing."""
        found = running_container(cluster, self.node, self.uid, self.container)
        if found is None:
            raise StackError(f"no running container {self.container} of pod {self.pod} on {self.node}")
        chosen = _select(processes(cluster, self.node, found[0]), self.process, found[1])
        if not chosen:
            raise StackError(f"no process {self.process or found[1]} in container {self.container} of pod {self.pod}")
        return found[0], chosen


def _select(table: list[Process], name: str, main: int) -> list[Process]:
    """What bears the name, or the main process where none is given; what has ended can't be stopped."""
    return [p for p in table if p.state not in "ZX" and (p.name == name if name else p.pid == main)]


@undoer("stopped-process", node=str, container=str, process=str)
def _continue(cluster: Cluster, what: dict[str, Any]) -> None:
    def going() -> bool:
        table = processes(cluster, what["node"], what["container"])
        chosen = _select(table, what["process"], what.get("pid", 0))
        stopped = [p for p in chosen if p.state == _STOPPED and p.started == what.get("started", p.started)]
        signal(cluster, what["node"], "CONT", stopped)
        return not stopped

    until(
        going, what=f"the end of the stop in container {what['container'][:12]}", deadline=_CONTINUE_SECONDS, every=0.1,
        error=StackError,
    )  # fmt: skip
