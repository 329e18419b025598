"""One row a kind of fault: how it is made on a stage of light pods. A fault without a row fails a unit test.

Several rows may be of one class, where its parameters make a different mechanism of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chaos.faults.base import Fault
from chaos.faults.delete_job import DeleteJob
from chaos.faults.delete_pod import DeletePod
from chaos.faults.kill_process import KillProcess
from chaos.faults.partition import BlackHole
from chaos.faults.refuse_write import RefuseWrite
from chaos.kernel import FEATURES, has
from chaos.machine import LocalMachine
from chaos.stack.kuberay import ACCOUNT, CLUSTER_ROLE
from tests.crash.stage import Stage


@dataclass(frozen=True)
class Row:
    """``build`` makes the fault. ``visible``: a snapshot taken while it is in force differs from the one before."""

    fault: type[Fault]
    build: Callable[[Stage], Fault]
    visible: bool = True

    @property
    def undone(self) -> bool:
        """Whether there is something to undo; otherwise the stack's own controllers restore what was hit, or nobody does."""
        return self.fault.undo is not Fault.undo


def _black_hole(stage: Stage) -> BlackHole:
    server, cut = stage.pod("server"), stage.pod("cut")
    stage.traffic(cut, server)  # the proof is that packets of an open connection are dropped
    return BlackHole.between(cut, [server])


KINDS: Mapping[str, Row] = {
    "delete-pod, forced": Row(DeletePod, lambda stage: DeletePod.of(stage.pod("victim"))),
    "delete-pod, graceful": Row(DeletePod, lambda stage: DeletePod.of(stage.pod("victim"), grace=1)),
    "delete-job": Row(DeleteJob, lambda stage: DeleteJob.of(stage.job("victim"))),
    "kill-process, main": Row(KillProcess, lambda stage: KillProcess.of(stage.pod("victim"))),
    "kill-process, by name": Row(KillProcess, lambda stage: KillProcess.of(stage.pod("victim"), process="python3")),
    "black-hole": Row(BlackHole, _black_hole),
    "refuse-write": Row(RefuseWrite, lambda stage: RefuseWrite(CLUSTER_ROLE, ACCOUNT, "ray.io", "rayjobs/status")),
}


def missing_feature(row: Row) -> str:
    """The kernel feature that the fault needs and this machine is known to lack; empty when none."""
    machine = LocalMachine()
    lacking = [f.name for f in FEATURES if f.name in row.fault.needs and has(machine, f) is False]
    return ", ".join(lacking)
