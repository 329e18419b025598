"""Delay what a pod sends, in its own network namespace: by the kernel's netem, or in user space where the kernel has none.

Only what leaves the pod waits: a round trip takes that much longer, whichever end begins it, and in open connections too.
Where neither way is to be had there is no such fault, and what needs it is `unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.inside import in_sandbox, require_own_network
from chaos.faults.kernel_queue import KernelQueue
from chaos.faults.undo import Undo
from chaos.faults.user_queue import UserQueue
from chaos.history.entry import What
from chaos.kernel import NETEM, offers
from chaos.machine import LocalMachine
from chaos.stack.cluster import Cluster
from chaos.waiting import until

# From the node to the pod and back, some times over. Nobody need listen there: the refusal comes back as an answer does.
_ROUND_TRIPS = """
for _ in 1 2 3; do
  began=$EPOCHREALTIME
  said=$({ : 3<>"/dev/tcp/$0/1"; } 2>&1)
  said=${said##*: }
  echo "$began $EPOCHREALTIME ${said:-connected}"
done
"""
_ANSWERED = ("connected", "Connection refused")
_BITE_SECONDS = 15
_RELIEF_SECONDS = 15


class Queue(Protocol):
    """One way to delay."""

    by: ClassVar[str]  # its name in the history

    @property
    def undo(self) -> list[Undo]:
        """What removes it."""

    def require(self, cluster: Cluster) -> None:
        """Raises FeatureMissing where it isn't to be had."""

    def begin(self, cluster: Cluster, milliseconds: int, jitter: int) -> None:
        """From now on, what leaves the pod waits."""

    def require_gone(self, cluster: Cluster) -> None:
        """Raises StackError when anything of it is left; content when the pod is gone."""


@dataclass(frozen=True)
class Delay(Fault):
    """Every packet that leaves the pod waits ``milliseconds``, more or less by ``jitter``."""

    namespace: str
    pod: str
    uid: str
    node: str
    address: str
    queue: Queue
    milliseconds: int
    jitter: int = 0

    name: ClassVar[str] = "delay"
    scope: ClassVar[Scope] = Scope.NAMESPACE
    needs: ClassVar[tuple[str, ...]] = ("netem_or_nfqueue",)

    def __post_init__(self) -> None:
        if not 0 <= self.jitter < self.milliseconds:
            raise StackError(f"a delay of {self.milliseconds} ms can't be {self.jitter} ms more or less")

    @classmethod
    def of(cls, pod: dict[str, Any], *, milliseconds: int, jitter: int = 0) -> Delay:
        """Of a pod as the API server describes it."""
        require_own_network(pod)
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        lacks_netem = offers(LocalMachine(), NETEM) is False
        queue: Queue = UserQueue(node, metadata["uid"]) if lacks_netem else KernelQueue(node, metadata["uid"])
        return cls(
            metadata["namespace"], metadata["name"], metadata["uid"], node, pod["status"]["podIP"], queue,
            milliseconds, jitter,
        )  # fmt: skip

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid, "milliseconds": str(self.milliseconds)}

    @property
    def _least(self) -> float:
        return (self.milliseconds - self.jitter) / 1000

    def undo(self, reach: Reach) -> list[Undo]:
        """Remove our queue. A round trip that takes as long without it would prove nothing."""
        self.queue.require(reach.cluster)
        took = self._round_trip(reach.cluster)
        reach.writer.write(
            What.PROBE, probe="round-trip", target=self.target, ok=True, took=took, value={"before": self.name},
            error=None,
        )  # fmt: skip
        if took >= self._least:
            raise NoEffect(f"a round trip to {self.pod} takes {took * 1000:.0f} ms without the delay")
        return self.queue.undo

    def apply(self, reach: Reach) -> None:
        self.queue.begin(reach.cluster, self.milliseconds, self.jitter)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """A round trip from the node must take as long as the delay."""

        def late() -> dict[str, Any] | None:
            took = self._round_trip(reach.cluster)
            return {"round_trip_seconds": took, "by": self.queue.by} if took >= self._least else None

        what = f"a round trip to {self.pod} that is late"
        return until(late, what=what, deadline=_BITE_SECONDS, error=NoEffect)

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """Nothing of ours may be left, and a round trip must take less than it did."""
        self.queue.require_gone(reach.cluster)

        def prompt() -> dict[str, Any] | None:
            shown = in_sandbox(reach.cluster, self.node, self.uid, "ip -4 -o addr show dev eth0")
            if shown is None or (shown.ok and f" {self.address}/" not in shown.text):
                return {"sandbox": "gone"}  # a pod whose node was restarted has another one, with another address
            took = self._round_trip(reach.cluster)
            return {"round_trip_seconds": took} if took < self._least else None

        what = f"a round trip to {self.pod} that is prompt again"
        return until(prompt, what=what, deadline=_RELIEF_SECONDS, error=StackError)

    def _round_trip(self, cluster: Cluster) -> float:
        """The shortest of some, in seconds, as the node takes the time; raises StackError without an answer."""
        longest = str(10 + 3 * (self.milliseconds + self.jitter) // 1000)
        asked = cluster.node_exec(self.node, ["timeout", longest, "bash", "-c", _ROUND_TRIPS, self.address])
        if not (times := round_trips(asked.text)):
            raise StackError(f"{self.address} does not answer {self.node}: {(asked.text + asked.error_text).strip()}")
        return min(times)


def round_trips(told: str) -> list[float]:
    """Seconds that answers took, by what the script told; whatever else came, such as the word that there is no way, is none."""
    found = []
    for line in told.splitlines():
        began, ended, said = line.split(" ", 2)
        if said.endswith(_ANSWERED):
            found.append(round(float(ended) - float(began), 6))
    return found
