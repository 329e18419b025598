"""Stop the API server in its tracks (SIGSTOP), and let it go on (SIGCONT), from the node that it runs on.

Its kernel goes on accepting connections, so clients wait for answers instead of being refused. Controllers that elect a leader,
the operator among them, lose their lease and end after some seconds. Held for minutes, the stopped server is killed by the
kubelet, which starts another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.nodes import runs
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_PROCESS = "kube-apiserver"
_SIGNAL = """
found=1
for process in /proc/[0-9]*; do
  [ "$(cat "$process/comm" 2>/dev/null)" = "$0" ] || continue
  kill "-$1" "${process#/proc/}" && found=0
done
exit $found
"""
# The letter of each process's state: T is stopped.
_STATES = """
for process in /proc/[0-9]*; do
  [ "$(cat "$process/comm" 2>/dev/null)" = "$0" ] || continue
  sed -n 's/^State:[[:space:]]*\\(.\\).*/\\1/p' "$process/status" 2>/dev/null
done
exit 0
"""
_SILENCE_SECONDS = 2
_BITE_SECONDS = 15.0
_CONTINUE_SECONDS = 10.0
# One that the kubelet had to start anew needs as long as at the first start.
_RETURN_SECONDS = 90.0


@dataclass(frozen=True)
class ApiServerPause(Fault):
    """The API server of the control plane's node; it is paused for as long as the fault is in force."""

    node: str

    name: ClassVar[str] = "api-server-pause"
    scope: ClassVar[Scope] = Scope.CLUSTER

    @classmethod
    def of(cls, node: dict[str, Any]) -> ApiServerPause:
        """Of the control plane's node as the API server describes it."""
        return cls(node["metadata"]["name"])

    @property
    def target(self) -> dict[str, str]:
        return {"node": self.node, "process": _PROCESS}

    def undo(self, reach: Reach) -> list[Undo]:
        """Let it go on; that takes no API server."""
        if not runs(reach.cluster, self.node):
            raise NoEffect(f"node {self.node} does not run")
        return [Undo("api-server-continue", {"node": self.node})]

    def apply(self, reach: Reach) -> None:
        done = reach.cluster.node_exec(self.node, ["sh", "-c", _SIGNAL, _PROCESS, "STOP"])
        if not done.ok:
            raise StackError(f"no {_PROCESS} on {self.node} was stopped: {done.error_text.strip() or 'there is none'}")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """It must be stopped, and must not answer within two seconds. The watch can't tell: it is silent either way."""
        until(
            lambda: set(_states(reach.cluster, self.node)) == {"T"} and not _answers(reach.cluster),
            what=f"silence of the API server on {self.node}", deadline=_BITE_SECONDS, error=NoEffect,
        )  # fmt: skip
        return {"state": "stopped", "silent_seconds": _SILENCE_SECONDS}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """It must say that it is ready, if its node still runs."""
        if not runs(reach.cluster, self.node):
            return {"ready": False}
        until(
            lambda: _answers(reach.cluster), what="an answer of the API server", deadline=_RETURN_SECONDS, every=1,
            error=StackError,
        )  # fmt: skip
        return {"ready": True}


@undoer("api-server-continue", node=str)
def _continue(cluster: Cluster, what: dict[str, Any]) -> None:
    node = what["node"]
    if not runs(cluster, node):
        return
    # No process of that name is fine: the kubelet may just be starting another one.
    cluster.node_exec(node, ["sh", "-c", _SIGNAL, _PROCESS, "CONT"])
    until(
        lambda: "T" not in _states(cluster, node), what=f"the end of the stop of {_PROCESS} on {node}",
        deadline=_CONTINUE_SECONDS, error=StackError,
    )  # fmt: skip


def _states(cluster: Cluster, node: str) -> list[str]:
    listed = cluster.node_exec(node, ["sh", "-c", _STATES, _PROCESS])
    return listed.require(f"processes of {node}").decode().split()


def _answers(cluster: Cluster) -> bool:
    """Asked by a process of its own, which is ended when the time is up whatever state its connection is in."""
    ask = ["get", "--raw=/readyz", f"--request-timeout={_SILENCE_SECONDS}s"]
    return cluster.run_kubectl(ask, timeout=_SILENCE_SECONDS + 3).ok
