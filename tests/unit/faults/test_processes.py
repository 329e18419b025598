"""Processes of this machine, seen, stopped and loaded by the very scripts that run on a node."""

import os
import signal as signals
import subprocess
import time

import pytest

from chaos.errors import NoEffect, StackError
from chaos.faults import load
from chaos.faults.cpu_pressure import CpuPressure
from chaos.faults.kill_process import KillProcess
from chaos.faults.load import leaves, marked
from chaos.faults.memory_pressure import MemoryPressure
from chaos.faults.processes import Process, parse, processes, signal
from chaos.faults.stop_process import StopProcess
from chaos.faults.undo import Undo, perform
from chaos.history.entry import What

EVERYTHING = ":/"
STAT = "42 (a) b (c) T 7 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 987654 1000 200 18446744073709551615"


@pytest.fixture
def child():
    """A process that sleeps."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def state(pid):
    [found] = [p for p in processes_here() if p.pid == pid]
    return found.state


def processes_here():
    from chaos.process import run

    class Here:
        def node_exec(self, node, argv, **more):
            return run(argv, check=False)

    return processes(Here(), "n", EVERYTHING)


def test_what_the_node_lists_also_with_parentheses_in_a_name_and_lines_in_an_argument():
    arguments = ["/proc/42/cmdline:redis-server", "/proc/42/cmdline:*:6379\n", "/proc/44/cmdline:other", ""]
    assert parse("4096\n" + f"{STAT}\n" + "\0" + "\0".join(arguments)) == [
        Process(
            pid=42, name="a) b (c", state="T", parent=7, started=987654, cpu_seconds=2.0, resident_kib=800,
            command="redis-server *:6379\n",
        )
    ]  # fmt: skip
    assert parse("") == []


def test_a_process_is_seen_as_it_is(child):
    [found] = [p for p in processes_here() if p.pid == child.pid]
    assert (found.name, found.parent, found.command) == ("sleep", os.getpid(), "sleep 60")
    assert found.resident_kib > 0


def test_nothing_belongs_to_a_pod_that_is_gone(local_node):
    assert processes(local_node(), "n", "00000000-0000-0000-0000-000000000000") == []


def test_a_signal_hits_the_process_that_was_seen_and_no_successor_of_its_number(local_node, child):
    [found] = [p for p in processes_here() if p.pid == child.pid]
    successor = Process(**{**found.__dict__, "started": found.started + 1})
    signal(local_node(), "n", "KILL", [successor])
    assert child.poll() is None
    signal(local_node(), "n", "KILL", [found])
    assert child.wait(5) == -signals.SIGKILL
    signal(local_node(), "n", "KILL", [found])


def test_stop_and_go_on(local_node, child, pod, reach):
    here = reach(local_node(main=child.pid))
    fault = StopProcess.of(pod())
    [undo] = fault.undo(here)
    fault.apply(here)
    assert fault.prove(here, 0) == {"stopped": {"sleep": child.pid}}
    with pytest.raises(StackError, match="still stopped"):
        fault.relieved(here)
    perform(here.cluster, undo)
    perform(here.cluster, undo)
    assert state(child.pid) == "S"
    assert fault.relieved(here) == {"states": {"sleep": "S"}}


def test_a_stop_that_did_not_happen_is_no_effect(local_node, child, pod, reach, monkeypatch):
    monkeypatch.setattr("chaos.faults.stop_process._STOP_SECONDS", 0.3)
    with pytest.raises(NoEffect):
        StopProcess.of(pod()).prove(reach(local_node(main=child.pid)), 0)


def test_a_stop_by_name_and_undo_of_all_that_bear_it(local_node, pod, reach, tmp_path):
    program = tmp_path / "kuberay-nap"
    program.symlink_to("/bin/sleep")
    naps = [subprocess.Popen([program, "60"]) for _ in range(2)]
    try:
        here = reach(local_node(main=naps[0].pid))
        fault = StopProcess.of(pod(), process="kuberay-nap")
        [undo] = fault.undo(here)
        fault.apply(here)
        fault.prove(here, 0)
        # One more, stopped after the undo was written, is let go on as well.
        naps.append(subprocess.Popen([program, "60"]))
        naps[-1].send_signal(signals.SIGSTOP)
        perform(here.cluster, undo)
        assert [state(nap.pid) for nap in naps] == ["S"] * 3
    finally:
        for nap in naps:
            nap.kill()
            nap.wait()


def test_the_undo_of_a_stop_leaves_a_successor_of_the_number_alone(local_node, child, pod, reach):
    here = reach(local_node(main=child.pid))
    [undo] = StopProcess.of(pod()).undo(here)
    child.send_signal(signals.SIGSTOP)
    perform(here.cluster, Undo(undo.kind, {**undo.what, "started": undo.what["started"] - 1}))
    assert state(child.pid) == "T"
    perform(here.cluster, Undo(undo.kind, {**undo.what, "container": "restarted-meanwhile"}))
    assert state(child.pid) == "T"


def test_nothing_to_stop_is_told(local_node, child, pod, reach):
    with pytest.raises(StackError, match="no running container"):
        StopProcess.of(pod()).undo(reach(local_node()))
    with pytest.raises(StackError, match="no process kuberay-nobody"):
        StopProcess.of(pod(), process="kuberay-nobody").undo(reach(local_node(main=child.pid)))


# --- an end by name


@pytest.fixture
def nap(tmp_path):
    """A function that starts a process with a name of its own, long enough after the one before to tell them apart."""
    program = tmp_path / "kuberay-nap"
    program.symlink_to("/bin/sleep")
    naps = []

    def start():
        time.sleep(0.05)
        naps.append(subprocess.Popen([program, "60"]))
        time.sleep(0.05)
        return naps[-1]

    yield start
    for each in naps:
        each.kill()
        each.wait()


@pytest.fixture
def struck(local_node, child, pod, reach, writer, monkeypatch):
    """A function that gives what a process is killed by, and the number of the entry that says so."""
    monkeypatch.setattr("chaos.faults.kill_process._END_SECONDS", 0.5)

    def strike(**more):
        here = reach(local_node(main=child.pid))
        return here, KillProcess.of(pod(), process="kuberay-nap", **more), writer.write(What.NOTE, text="record")["n"]

    return strike


def test_a_process_that_was_ended_has_ended_be_there_a_successor_of_its_name(nap, struck):
    first = nap()
    here, fault, since = struck()
    fault.apply(here)
    first.wait()
    nap()
    assert fault.prove(here, since) == {"process": "kuberay-nap", "ended": True}


def test_a_process_that_nobody_has_reaped_has_ended(nap, struck):
    nap()
    here, fault, since = struck()
    fault.apply(here)
    assert fault.prove(here, since)["ended"]


def test_a_process_that_goes_on_is_no_effect(nap, struck):
    nap()
    here, fault, since = struck(signal="CONT")
    fault.apply(here)
    with pytest.raises(NoEffect, match="the end of kuberay-nap"):
        fault.prove(here, since)


# --- loads


def load_is_gone(fault):
    return not marked(processes_here(), fault.marker)


def test_cpu_pressure_uses_the_processor_and_undo_ends_it(local_node, pod, reach):
    here = reach(local_node())
    fault = CpuPressure.of(pod(), busy=2, free=2, seconds=30)
    [undo] = fault.undo(here)
    try:
        fault.apply(here)
        assert fault.prove(here, 0)["cpu_seconds"] >= 0.4
        with pytest.raises(StackError, match="still there"):
            fault.relieved(here)
    finally:
        perform(here.cluster, undo)
    perform(here.cluster, undo)
    assert load_is_gone(fault)
    assert fault.relieved(here) == {"processes": 0}


def test_memory_pressure_holds_what_it_was_told_and_ends_by_itself(local_node, pod, reach):
    here = reach(local_node())
    fault = MemoryPressure.of(pod(), mebibytes=40, free=100, seconds=4)
    fault.apply(here)
    assert 40 <= fault.prove(here, 0)["resident_mebibytes"] < 100
    end = time.monotonic() + 15
    while not load_is_gone(fault):
        assert time.monotonic() < end, "a load must end by itself"
        time.sleep(0.2)


def test_a_load_that_does_not_start_is_told(local_node, pod, reach, monkeypatch):
    monkeypatch.setattr(load, "_LOAD", "import sys; sys.exit('no memory here')")
    with pytest.raises(StackError, match="no memory here"):
        CpuPressure.of(pod(), busy=1, free=1, seconds=5).apply(reach(local_node()))


@pytest.mark.parametrize("size", [0, 3])
def test_a_load_is_never_larger_than_what_is_free(pod, size):
    with pytest.raises(StackError, match="2 are free"):
        CpuPressure.of(pod(), busy=size, free=2, seconds=5)
    with pytest.raises(StackError, match="2 are free"):
        MemoryPressure.of(pod(), mebibytes=size, free=2, seconds=5)


def test_the_first_process_is_ended_last():
    def process(pid, parent, command="python3 -c … mark 5 2 0"):
        return Process(pid, "python3", "R", parent, 1, 0.0, 1, command)

    table = [process(1, 0, "bash"), process(10, 1), process(11, 10), process(12, 10)]
    assert [p.pid for p in leaves(table, "mark")] == [11, 12]
    assert [p.pid for p in leaves(table[:2], "mark")] == [10]
    assert leaves(table, "other") == []
