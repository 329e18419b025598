"""What a dead process left is undone from the log alone, once and again, and also when the pod is gone."""

import pytest

from chaos.errors import StackError
from chaos.faults.cpu_pressure import CpuPressure
from chaos.faults.delay import Delay
from chaos.faults.loss import Loss
from chaos.faults.memory_pressure import MemoryPressure
from chaos.faults.network_policy import NetworkPolicy
from chaos.faults.partition import Mode, Partition
from chaos.faults.stop_process import StopProcess
from chaos.faults.undo import UndoLog, heal, perform
from chaos.waiting import until

FAULTS = {
    "drop": lambda pod, other: Partition.between(pod, [other]),
    "reject": lambda pod, other: Partition.between(pod, [other], mode=Mode.REJECT),
    "reset": lambda pod, other: Partition.between(pod, [other], mode=Mode.RESET),
    "loss": lambda pod, other: Loss.of(pod, percent=10),
    "delay": lambda pod, other: Delay.of(pod, milliseconds=100),
    "stop": lambda pod, other: StopProcess.of(pod),
    "stop by name": lambda pod, other: StopProcess.of(pod, process="python3"),
    "policy": lambda pod, other: NetworkPolicy.ingress(pod, 7000, probed_from=other),
    "cpu": lambda pod, other: CpuPressure.of(pod, busy=1, free=1, seconds=120),
    "memory": lambda pod, other: MemoryPressure.of(pod, mebibytes=32, free=64, seconds=120),
}


def in_force(fault, reach):
    """What says so without traffic: the proof, or for packet filters that relief is refused."""
    if isinstance(fault, Partition | Loss):
        with pytest.raises(StackError, match="still there"):
            fault.relieved(reach)
    else:
        assert fault.prove(reach, 0)


# The crash points heal all of them as well, some of them at every level.
_ALWAYS = {"drop", "cpu"}


@pytest.mark.parametrize(
    "kind", [kind if kind in _ALWAYS else pytest.param(kind, marks=pytest.mark.level("core")) for kind in FAULTS]
)
def test_a_later_process_heals_what_a_dead_one_left(cluster, inject, stand_in, rules, tmp_path, kind):
    pod, other = stand_in("target", labels={"app": f"heal-{kind.replace(' ', '-')}"}), stand_in("other")
    before = rules(pod)
    fault, reach = FAULTS[kind](pod, other), inject.reach
    undos = fault.undo(reach)
    UndoLog(tmp_path / "undo.jsonl").append("dead-1", undos)
    try:
        fault.apply(reach)
        in_force(fault, reach)
    finally:
        healed, failed = heal(cluster, UndoLog(tmp_path / "undo.jsonl"))
    assert (len(healed), failed) == (len(undos), [])
    fault.relieved(reach)
    assert rules(pod) == before
    assert heal(cluster, UndoLog(tmp_path / "undo.jsonl")) == ([], [])

    for undo in undos:
        perform(cluster, undo)
    where = pod["metadata"]
    cluster.delete("pods", where["namespace"], where["name"], uid=where["uid"], grace=0)
    until(lambda: cluster.get("pods", where["namespace"], where["name"]) is None, what="the pod's end", deadline=30)
    for undo in undos:
        perform(cluster, undo)
    fault.relieved(reach)
