"""One way to delay what a pod sends: a queue of the kernel's netem at the root of its interface."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chaos.errors import StackError
from chaos.faults.inside import in_sandbox
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_SHOW = "tc qdisc show dev eth0"
_HANDLE = re.compile(r"[1-9a-f][0-9a-f]{0,3}:")
_REMOVE_SECONDS = 10


def _new_handle() -> str:
    """A handle that tells our queue from any other; below ffff:, which is the kernel's own."""
    return f"{0x1000 + secrets.randbelow(0xE000):x}:"


@dataclass(frozen=True)
class KernelQueue:
    """The queue of one pod, told by its handle."""

    node: str
    uid: str
    handle: str = field(default_factory=_new_handle)

    by: ClassVar[str] = "netem"

    @property
    def undo(self) -> list[Undo]:
        return [Undo("pod-queue", {"node": self.node, "uid": self.uid, "handle": self.handle})]

    def require(self, cluster: Cluster) -> None:
        """Every node has what it takes."""

    def begin(self, cluster: Cluster, milliseconds: int, jitter: int) -> None:
        """Our queue as the root of the pod's interface, which has none but the kernel's default."""
        times = f"delay {int(milliseconds)}ms {int(jitter)}ms"
        script = f"tc qdisc add dev eth0 root handle {_checked(self.handle)} netem {times}"
        done = in_sandbox(cluster, self.node, self.uid, script)
        if done is None:
            raise StackError(f"there is no sandbox of pod {self.uid} on {self.node}")
        done.require("tc in the pod's namespace")

    def require_gone(self, cluster: Cluster) -> None:
        """Raises StackError when the queue is left; content when the pod is gone."""
        shown = in_sandbox(cluster, self.node, self.uid, _SHOW)
        if shown is not None and has_queue(shown.text, self.handle):
            raise StackError(f"the queue {self.handle} is still there")


def has_queue(shown: str, handle: str) -> bool:
    """Whether ``tc qdisc show`` names our queue."""
    return f"qdisc netem {handle} root" in shown


def _checked(handle: str) -> str:
    if not _HANDLE.fullmatch(handle):
        raise StackError(f"{handle!r} is no handle of ours", fix="was the undo log edited by hand?")
    return handle


@undoer("pod-queue", node=str, uid=str, handle=str)
def _remove_queue(cluster: Cluster, what: dict[str, Any]) -> None:
    handle = _checked(what["handle"])

    def gone() -> bool:
        shown = in_sandbox(cluster, what["node"], what["uid"], _SHOW)
        if shown is None or (shown.ok and not has_queue(shown.text, handle)):
            return True
        in_sandbox(cluster, what["node"], what["uid"], f"tc qdisc del dev eth0 root handle {handle}")
        return False

    until(gone, what=f"removal of queue {handle}", deadline=_REMOVE_SECONDS, every=0.1, error=StackError)
