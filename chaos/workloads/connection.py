"""One connection that stays open through a fault: the only witness of what a partition does to those that were open before."""

from __future__ import annotations

from typing import Any

from chaos.history.store import HistoryWriter
from chaos.stack.cluster import Cluster, Object
from chaos.workloads.watch import Watch


class HeldConnection(Watch):
    """A connection from ``pod`` to a Redis server at ``address``; ``name`` tells it from others in the history."""

    probe = "held-connection"
    begins_within = 20.0

    def __init__(self, cluster: Cluster, writer: HistoryWriter, pod: Object, address: str, name: str) -> None:
        where = pod["metadata"]
        target = {"name": name, "namespace": where["namespace"], "pod": where["name"], "address": address}
        super().__init__(cluster, writer, pod, ["held_connection.py", address, "--seconds=3600"], target)
        self.never_began = f"no connection from {where['name']} to Redis at {address}"

    def record(self, said: dict[str, Any]) -> None:
        match said["event"]:
            case "connected":
                self.begin()
                self._exchange(0.0, None)
            case "second":
                self._exchange(float(said["waiting"]), None)
            case "slow":
                self._exchange(float(said["took"]), None)
            case "closed":
                self._exchange(0.0, "closed by the peer")
            case "error":
                self._exchange(0.0, str(said["error"]))

    def _exchange(self, stall: float, error: str | None) -> None:
        self.write(took=stall, value={"stall": stall, "error": error}, error=error)
