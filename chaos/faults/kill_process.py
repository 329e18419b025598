"""Send a signal to a process of a container, from the node it runs on.

Images without a shell can't be asked to kill anything themselves, and a pod deletion takes a hundred times longer than the
windows that a crash must hit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach
from chaos.faults.inside import running_container
from chaos.faults.processes import Process, processes, started_by
from chaos.waiting import until

# Of all processes on the node, those in the PID namespace of the container's main process that bear the name.
_SIGNAL_BY_NAME = """
space=$(readlink "/proc/$2/ns/pid"); found=1
for process in /proc/[0-9]*; do
  [ "$(cat "$process/comm" 2>/dev/null)" = "$0" ] && [ "$(readlink "$process/ns/pid")" = "$space" ] || continue
  kill "-$1" "${process#/proc/}" && found=0
done
exit $found
"""
# Whether somebody listens (state 0A) on the port, in hexadecimal as the kernel's table of sockets has it, in a process' network.
_LISTENS = """
for process; do
  cat "/proc/$process/net/tcp" "/proc/$process/net/tcp6" 2>/dev/null | grep -q ":$0 [0-9A-F]*:0000 0A" && exit
done
exit 1
"""
_END_SECONDS = 30  # one that is asked to end finishes what it is at
_RESTART_SECONDS = 60  # the kubelet's sync, and its back-off of 10 s and 20 s on the second and third restart


@dataclass(frozen=True)
class KillProcess(Fault):
    """The main process of the container named ``container``, or its processes named ``process``; ``signal`` as in `kill`."""

    namespace: str
    pod: str
    uid: str
    node: str
    container: str
    signal: str = "KILL"
    process: str = ""  # as the kernel names it, at most 15 characters
    # That it serves: it has ended for all who need it when nobody listens there, even if the process lingers.
    port: int = 0

    name: ClassVar[str] = "kill-process"

    @classmethod
    def of(
        cls,
        pod: dict[str, Any],
        container: str | None = None,
        *,
        signal: str = "KILL",
        process: str = "",
        port: int = 0,
    ) -> KillProcess:
        """Of a pod as the API server describes it; the first container when none is named."""
        metadata, spec = pod["metadata"], pod["spec"]
        named = container or spec["containers"][0]["name"]
        return cls(
            metadata["namespace"], metadata["name"], metadata["uid"], spec["nodeName"], named, signal, process, port
        )

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid, "container": self.container}

    def apply(self, reach: Reach) -> None:
        """Look the container up by the pod's UID, and signal its first process."""
        container = running_container(reach.cluster, self.node, self.uid, self.container)
        if container is None:
            raise StackError(f"no running container {self.container} of pod {self.pod} on {self.node}")
        if self.port and not self.served_by(reach):
            raise StackError(f"no {self.process} in {self.pod} listens on port {self.port}")
        main = str(container[1])
        command = (
            ["sh", "-c", _SIGNAL_BY_NAME, self.process, self.signal, main]
            if self.process
            else ["kill", f"-{self.signal}", main]
        )
        killed = reach.cluster.node_exec(self.node, command)
        if not killed.ok:
            why = killed.stderr.decode(errors="replace").strip() or f"no process named {self.process}"
            raise StackError(f"nothing was signalled in {self.pod}: {why}")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The pod's status must report that the container ended, with its exit code.

        A process beside the main one need not take the container with it at once: that it is gone is then proof enough, or
        that nobody listens on its port any more.
        """
        if self.process:
            return self._prove_process_gone(reach, since)
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

    def _prove_process_gone(self, reach: Reach, since: int) -> dict[str, Any]:
        # A container that restarts has another of that name, perhaps before this is looked at.
        struck = started_by(reach.writer.entries(since)[0]["wall"])
        try:
            until(
                lambda: all(process.started > struck for process in self.served_by(reach)),
                what=f"the end of {self.process} in {self.pod}", deadline=_END_SECONDS,
            )  # fmt: skip
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"process": self.process, **({"port": self.port, "listening": False} if self.port else {"ended": True})}

    def served_by(self, reach: Reach) -> list[Process]:
        """The pod's living processes of that name; with a port, none when nobody listens there.

        By the pod's UID, since a container that restarts has another PID namespace.
        """
        found = [
            process
            for process in processes(reach.cluster, self.node, self.uid)
            if process.name == self.process and process.state not in "ZX"
        ]
        if not self.port or not found:
            return found
        numbers = [str(process.pid) for process in found]
        listens = reach.cluster.node_exec(self.node, ["sh", "-c", _LISTENS, f"{self.port:04X}", *numbers])
        return found if listens.ok else []

    def _ended(self, pod: dict[str, Any]) -> dict[str, Any] | None:
        for status in pod.get("status", {}).get("containerStatuses") or []:
            if status["name"] == self.container:
                for state in (status.get("state", {}), status.get("lastState", {})):
                    if ended := state.get("terminated"):
                        found: dict[str, Any] = ended
                        return found
        return None
