"""A script that runs in a pod for as long as the experiment does, and says what it sees: a JSON line each time.

What the lines mean is for those that derive from `Watch`; each line becomes a probe of the history.
"""

from __future__ import annotations

import json
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from chaos.errors import NoSteadyState
from chaos.history.entry import What
from chaos.history.store import HistoryWriter
from chaos.stack.cluster import Cluster, Object
from chaos.workloads import MOUNT


class Watch(ABC):
    """One such script in ``pod``. ``target`` is what its probes are about."""

    probe: ClassVar[str]
    begins_within: float  # seconds from the start until what is watched must be there
    never_began: str  # what to say when it is not

    def __init__(
        self, cluster: Cluster, writer: HistoryWriter, pod: Object, script: Sequence[str], target: dict[str, str]
    ) -> None:
        where = pod["metadata"]
        name, *arguments = script
        self._command = cluster.exec_command(
            where["namespace"], where["name"], ["python", f"{MOUNT}/{name}", *arguments]
        )
        self._target = target
        self._writer = writer
        self._begun = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)

    def start(self) -> None:
        """Returns when what is watched is there. Raises NoSteadyState."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader.start()
        if not self._begun.wait(self.begins_within):
            self.stop()
            raise NoSteadyState(self.never_began)

    def stop(self) -> None:
        """End the watch; safe to repeat."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._reader.is_alive():
            self._reader.join(5)

    @abstractmethod
    def record(self, said: dict[str, Any]) -> None:
        """Tell one line, with `begin` or `write`."""

    def begin(self) -> None:
        """What is watched is there."""
        self._begun.set()

    def write(self, *, took: float, value: dict[str, Any], error: str | None) -> None:
        """What was seen, into the history."""
        self._writer.write(
            What.PROBE, probe=self.probe, target=self._target, ok=error is None, took=took, value=value, error=error
        )

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # a line cut by the end of the pod
            self.record(said)
