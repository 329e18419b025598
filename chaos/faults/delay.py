"""Delay what a pod sends, in its own network namespace, by the kernel's netem.

Only what leaves the pod waits: a round trip takes that much longer, whichever end begins it. Where the kernel has no netem
there is no such fault, and what needs it is `unknown`.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.inside import in_sandbox, require_own_network
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_SHOW = "tc -s qdisc show dev eth0"
_HANDLE = re.compile(r"[1-9a-f][0-9a-f]{0,3}:")
_BITE_SECONDS = 10


def _new_handle() -> str:
    """A handle that tells our queue from any other; below ffff:, which is the kernel's own."""
    return f"{0x1000 + secrets.randbelow(0xE000):x}:"


@dataclass(frozen=True)
class Delay(Fault):
    """Every packet that leaves the pod waits ``milliseconds``, more or less by ``jitter``."""

    namespace: str
    pod: str
    uid: str
    node: str
    milliseconds: int
    jitter: int = 0
    handle: str = field(default_factory=_new_handle)

    name: ClassVar[str] = "delay"
    scope: ClassVar[Scope] = Scope.NAMESPACE
    needs: ClassVar[tuple[str, ...]] = ("netem",)

    @classmethod
    def of(cls, pod: dict[str, Any], *, milliseconds: int, jitter: int = 0) -> Delay:
        """Of a pod as the API server describes it."""
        require_own_network(pod)
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"], node, milliseconds, jitter)

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid, "milliseconds": str(self.milliseconds)}

    def undo(self, reach: Reach) -> list[Undo]:
        """Remove our queue, by its handle."""
        return [Undo("pod-queue", {"node": self.node, "uid": self.uid, "handle": self.handle})]

    def apply(self, reach: Reach) -> None:
        """Our queue as the root of the pod's interface, which has none but the kernel's default."""
        times = f"delay {int(self.milliseconds)}ms {int(self.jitter)}ms"
        script = f"tc qdisc add dev eth0 root handle {_checked(self.handle)} netem {times}"
        done = in_sandbox(reach.cluster, self.node, self.uid, script)
        if done is None or not done.ok:
            raise StackError(f"{self.pod} could not be delayed: {done.error_text.strip() if done else 'no sandbox'}")

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The queue must have let packets through, which all had to wait in it."""

        def sent() -> int:
            shown = in_sandbox(reach.cluster, self.node, self.uid, _SHOW)
            return packets(shown.text, self.handle) if shown is not None and shown.ok else 0

        try:
            return {"packets": until(sent, what="delayed packets", deadline=_BITE_SECONDS)}
        except NotReached as late:
            raise NoEffect(str(late)) from late

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """No queue of ours may be left."""
        shown = in_sandbox(reach.cluster, self.node, self.uid, _SHOW)
        if shown is not None and has_queue(shown.text, self.handle):
            raise StackError(f"the queue {self.handle} of {self.pod} is still there")
        return {"queue": "none"}


def has_queue(shown: str, handle: str) -> bool:
    """Whether ``tc qdisc show`` names our queue."""
    return f"qdisc netem {handle} root" in shown


def packets(shown: str, handle: str) -> int:
    """How many packets our queue has sent, by ``tc -s qdisc show``."""
    match = re.search(rf"qdisc netem {handle} root.*?\n Sent \d+ bytes (\d+) pkt", shown, re.DOTALL)
    return int(match[1]) if match else 0


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

    until(gone, what=f"removal of queue {handle}", deadline=10, every=0.1, error=StackError)
