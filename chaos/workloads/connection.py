"""One connection that stays open through a fault: the only witness of what a partition does to those that were open before.

The script runs in a pod and prints what it sees; each line becomes a ``held-connection`` probe of the history.
"""

from __future__ import annotations

import json
import subprocess
import threading
from typing import Any

from chaos.errors import NoSteadyState
from chaos.history.entry import What
from chaos.history.store import HistoryWriter
from chaos.stack.cluster import Cluster, Object
from chaos.workloads import MOUNT

_CONNECT_SECONDS = 20.0


class HeldConnection:
    """A connection from ``pod`` to a Redis server at ``address``; ``name`` tells it from others in the history."""

    def __init__(self, cluster: Cluster, writer: HistoryWriter, pod: Object, address: str, name: str) -> None:
        where = pod["metadata"]
        self._command = cluster.exec_command(
            where["namespace"], where["name"], ["python", f"{MOUNT}/held_connection.py", address, "--seconds=3600"]
        )
        self._target = {"name": name, "namespace": where["namespace"], "pod": where["name"], "address": address}
        self._writer = writer
        self._connected = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name=f"connection-{name}", daemon=True)

    def start(self) -> None:
        """Returns when it is connected. Raises NoSteadyState."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader.start()
        if not self._connected.wait(_CONNECT_SECONDS):
            self.stop()
            raise NoSteadyState(f"no connection from {self._target['pod']} to Redis at {self._target['address']}")

    def stop(self) -> None:
        """End the watch; safe to repeat."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._reader.is_alive():
            self._reader.join(5)

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                self._record(json.loads(line))
            except ValueError:
                continue  # a line cut by the end of the pod

    def _record(self, said: dict[str, Any]) -> None:
        match said["event"]:
            case "connected":
                self._connected.set()
                self._probe(0.0, None)
            case "second":
                self._probe(float(said["waiting"]), None)
            case "slow":
                self._probe(float(said["took"]), None)
            case "closed":
                self._probe(0.0, "closed by the peer")
            case "error":
                self._probe(0.0, str(said["error"]))

    def _probe(self, stall: float, error: str | None) -> None:
        value = {"stall": stall, "error": error}
        self._writer.write(
            What.PROBE,
            probe="held-connection",
            target=self._target,
            ok=error is None,
            took=stall,
            value=value,
            error=error,
        )
