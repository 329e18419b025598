"""The process that dies: ``python -m tests.crash.child ORDERS`` injects one fault and kills itself at the point it was told.

The product has no such option: what it calls is replaced here by what does the same and dies on the way. Death is SIGKILL,
so nothing that the harness does at its end is done.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.faults import inject
from chaos.faults.base import Fault
from chaos.faults.inject import Injector
from chaos.faults.undo import UndoLog, perform
from chaos.history.recorder import Recorder
from chaos.history.store import HistoryWriter
from chaos.stack.cluster import Cluster
from chaos.stack.engine import Engine
from chaos.stack.node_containers import NodeContainers
from tests.crash.points import TORN_RECORD, Orders


class Death:
    """Comes at one point."""

    def __init__(self, point: str, marker: Path) -> None:
        self.point = point
        self._marker = marker
        self._step = ""
        self._calls = 0

    def at(self, point: str) -> None:
        if point != self.point:
            return
        with self._marker.open("w") as file:
            file.write(point)
            file.flush()
            os.fsync(file.fileno())
        os.kill(os.getpid(), signal.SIGKILL)

    def called(self) -> None:
        """A call to the cluster has returned."""
        if self._step:
            self._calls += 1
            self.at(f"{self._step} call {self._calls}")

    @contextmanager
    def during(self, step: str) -> Iterator[None]:
        self._step, self._calls = step, 0
        yield
        self._step = ""
        if self.point.startswith(f"{step} call "):  # there were fewer calls
            self.at(self.point)


class MortalCluster(Cluster):
    """Tells death of every call, once it has returned."""

    death: Death

    def request(self, *args, **options):
        try:
            return super().request(*args, **options)
        finally:
            self.death.called()

    def node_exec(self, *args, **options):
        try:
            return super().node_exec(*args, **options)
        finally:
            self.death.called()

    def exec(self, *args, **options):
        try:
            return super().exec(*args, **options)
        finally:
            self.death.called()

    def run_kubectl(self, *args, **options):
        try:
            return super().run_kubectl(*args, **options)
        finally:
            self.death.called()


class MortalLog(UndoLog):
    def __init__(self, path: Path, death: Death) -> None:
        super().__init__(path)
        self._death = death

    def append(self, injection, undos):
        self._death.at("before record")
        if self._death.point == TORN_RECORD:
            line = json.dumps({"injection": injection, "index": 0, "kind": undos[0].kind, "what": undos[0].what})
            self.path.write_text(line[: len(line) // 2])
            self._death.at(TORN_RECORD)
        super().append(injection, undos)
        self._death.at("record")

    def done(self, injection, index):
        super().done(injection, index)
        self._death.at("undo noted")


class MortalFault(Fault):
    """The fault itself, with a death after each of its steps."""

    def __init__(self, fault: Fault, death: Death) -> None:
        self._fault = fault
        self._death = death
        self.name, self.scope, self.needs = fault.name, fault.scope, fault.needs

    @property
    def target(self):
        return self._fault.target

    def undo(self, reach):
        return self._fault.undo(reach)

    def apply(self, reach):
        self._death.at("apply begins")
        with self._death.during("apply"):
            self._fault.apply(reach)
        self._death.at("apply")

    def prove(self, reach, since):
        seen = self._fault.prove(reach, since)
        self._death.at("prove")
        return seen

    def relieved(self, reach):
        seen = self._fault.relieved(reach)
        self._death.at("verify")
        return seen


def main(orders: Orders) -> None:
    """Inject the fault; returns only when the point was never reached."""
    engine = Engine()
    death = Death(orders.point, orders.marker)
    cluster = MortalCluster(
        orders.stack, orders.kubeconfig, orders.kubectl,
        lambda node, argv, stdin, timeout: engine.exec(node, argv, stdin=stdin, timeout=timeout),
        node_control=NodeContainers(engine),
    )  # fmt: skip
    cluster.death = death

    def mortal_perform(cluster, undo):
        death.at("undo begins")
        with death.during("undo"):
            perform(cluster, undo)
        death.at("undo")

    inject.perform = mortal_perform
    writer = HistoryWriter(orders.folder / "history.jsonl")
    Recorder(cluster.api, writer).start()
    injector = Injector(cluster, writer, MortalLog(orders.undo_log, death))
    with injector(MortalFault(orders.fault, death)) as injected:
        injected.hold(0)
        death.at("hold")


if __name__ == "__main__":
    main(Orders.load(Path(sys.argv[1])))
    sys.exit("the fault came to its end, and the point was never reached")
