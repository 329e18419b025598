"""A load that runs in a container and takes processor time or memory away from those who share its limits.

The load is bounded three ways: it is never larger than what the caller says is free, its memory is limited by the kernel,
and an alarm ends every one of its processes after ``seconds``, whoever else has died by then. Its first process waits for
the others and then ends, so nothing is left for the container's own first process to reap. What is counted in the
container's limits is the load's too: memory may end the container, which is for the experiment to want or not.
"""

from __future__ import annotations

import secrets
import threading
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chaos.errors import StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.processes import Process, processes, signal
from chaos.faults.undo import Undo, undoer
from chaos.process import Executed
from chaos.stack.cluster import Cluster
from chaos.waiting import until

# marker, seconds, processes, MiB for each; without memory to hold they compute. Room for the interpreter: 256 MiB.
_LOAD = """
import os, resource, signal, sys
seconds, workers, mebibytes = map(int, sys.argv[2:])
signal.alarm(seconds + 2)
for _ in range(workers):
    if os.fork() == 0:
        signal.alarm(seconds)
        if mebibytes:
            resource.setrlimit(resource.RLIMIT_AS, ((mebibytes + 256) << 20,) * 2)
            held = b"x" * (mebibytes << 20)
            signal.pause()
        while True:
            pass
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""
_START_SECONDS = 20  # an interpreter's start in a pod on a busy machine, and the call through API server and kubelet
_END_SECONDS = 10


@dataclass(frozen=True)
class Load(Fault):
    """A load in one container, told from everything else by a marker among its arguments."""

    namespace: str
    pod: str
    uid: str
    node: str
    container: str
    seconds: int
    marker: str = field(default_factory=lambda: f"kuberay-chaos-load-{secrets.token_hex(8)}", kw_only=True)

    scope: ClassVar[Scope] = Scope.NAMESPACE

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many processes the load has beside its first."""

    @property
    def mebibytes_each(self) -> int:
        return 0

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid, "container": self.container}

    def undo(self, reach: Reach) -> list[Undo]:
        """End what bears the marker in the pod."""
        return [Undo("load", {"node": self.node, "uid": self.uid, "marker": self.marker})]

    def apply(self, reach: Reach) -> None:
        """Start the load; returns when the node sees all of its processes."""
        ended: list[Executed] = []
        threading.Thread(target=lambda: ended.append(self._run(reach.cluster)), name=self.marker, daemon=True).start()
        until(
            lambda: len(marked(processes(reach.cluster, self.node, self.uid), self.marker)) > self.workers or ended,
            what=f"a load in {self.pod}", deadline=_START_SECONDS, error=StackError,
        )  # fmt: skip
        if ended:
            raise StackError(f"the load in {self.pod} ended at once: {ended[0].error_text.strip()[-500:]}")

    def _run(self, cluster: Cluster) -> Executed:
        sizes = [str(self.seconds), str(self.workers), str(self.mebibytes_each)]
        return cluster.exec(
            self.namespace, self.pod, ["python3", "-c", _LOAD, self.marker, *sizes],
            container=self.container, timeout=self.seconds + _START_SECONDS,
        )  # fmt: skip

    def working(self, cluster: Cluster) -> list[Process]:
        return leaves(processes(cluster, self.node, self.uid), self.marker)

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """No process of the pod may bear the marker."""
        if left := marked(processes(reach.cluster, self.node, self.uid), self.marker):
            raise StackError(f"{len(left)} processes of the load in {self.pod} are still there")
        return {"processes": 0}


def marked(table: list[Process], marker: str) -> list[Process]:
    """Of a pod's processes those of the load; one that has ended has no command line any more."""
    return [process for process in table if marker in process.command]


def leaves(table: list[Process], marker: str) -> list[Process]:
    """Those of the load that have no child in it: they do the work, and the first process ends after them."""
    load = marked(table, marker)
    parents = {process.parent for process in load}
    return [process for process in load if process.pid not in parents]


def place(pod: dict[str, Any], container: str | None) -> tuple[str, str, str, str, str]:
    metadata, spec = pod["metadata"], pod["spec"]
    named = container or spec["containers"][0]["name"]
    return metadata["namespace"], metadata["name"], metadata["uid"], spec["nodeName"], named


def require_within(size: int, free: int, unit: str, seconds: int) -> None:
    if not 0 < size <= free:
        raise StackError(f"a load of {size} {unit} where {free} are free")
    if seconds <= 0:
        raise StackError(f"a load can't last {seconds} s")


@undoer("load", node=str, uid=str, marker=str)
def _end_load(cluster: Cluster, what: dict[str, Any]) -> None:
    """Kill those who do the work until none is left; a first process that has nobody to wait for is one of them."""

    def ended() -> bool:
        table = processes(cluster, what["node"], what["uid"])
        signal(cluster, what["node"], "KILL", leaves(table, what["marker"]))
        return not marked(table, what["marker"])

    until(ended, what=f"the end of load {what['marker']}", deadline=_END_SECONDS, every=0.1, error=StackError)
