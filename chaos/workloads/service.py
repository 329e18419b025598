"""A client of a service on Ray, in a pod of its own: the outage that it sees is the one that users see.

What it calls is an actor that it makes when there is none, as a service's controller would; see ``inpod/call_service.py``.
"""

from __future__ import annotations

from typing import Any

from chaos.history.store import HistoryWriter
from chaos.stack.cluster import Cluster, Object
from chaos.stack.ray import RayClusterHandle
from chaos.workloads.watch import Watch

_PORT = 10001  # of Ray's client server, in the head


class ServiceClient(Watch):
    """Calls from ``pod``, twice a second. The actor takes ``start_up`` seconds to begin."""

    probe = "client"

    def __init__(
        self, cluster: Cluster, writer: HistoryWriter, pod: Object, handle: RayClusterHandle, *, start_up: float
    ) -> None:
        address = f"{handle.name}-head-svc:{_PORT}"
        target = {"namespace": handle.namespace, "cluster": handle.name}
        super().__init__(cluster, writer, pod, ["call_service.py", address, f"--start-up={start_up:g}"], target)
        # Beside its start-up: a client's connection or two (15 s each at most) and a worker process, on two busy cores.
        self.begins_within = start_up + 60.0
        self.never_began = f"the service in {handle.namespace} does not answer"

    def record(self, said: dict[str, Any]) -> None:
        match said:
            case {"event": "answer", "took": took, "pid": pid, "born": born, "count": count}:
                self.begin()
                self.write(took=took, value={"pid": pid, "born": born, "count": count}, error=None)
            case {"event": "silence", "why": why}:
                self.write(took=0.0, value={}, error=why)
