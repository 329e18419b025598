"""Faults on pods and processes: each does what it says, to what it names and nothing else."""

import pytest

from chaos.errors import NoEffect, StackError
from chaos.faults.cpu_pressure import CpuPressure
from chaos.faults.delete_pod import DeletePod
from chaos.faults.kill_process import KillProcess
from chaos.faults.memory_pressure import MemoryPressure
from chaos.faults.processes import processes
from chaos.faults.restart_container import RestartContainer
from chaos.faults.stop_process import StopProcess
from chaos.waiting import until


def effect_of(inject, pod):
    """What the last fault on the pod was seen to do."""
    effects = [
        e for e in inject.reach.writer.entries()
        if e["what"] == "fault" and e["step"] == "effect" and e["target"].get("uid") == pod["metadata"]["uid"]
    ]  # fmt: skip
    return effects[-1]["detail"]


def seen_now(cluster, pod):
    """The pod as it is, with its one container's status."""
    found = cluster.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    return found, found["status"]["containerStatuses"][0]


def table(cluster, pod):
    """The pod's processes but the sandbox's own, and those that have ended."""
    found = processes(cluster, pod["spec"]["nodeName"], pod["metadata"]["uid"])
    return [process for process in found if process.name == "python3" and process.state not in "ZX"]


def test_delete_pod_removes_exactly_this_uid(cluster, inject, stand_in):
    victim, other = stand_in("victim"), stand_in("other")
    with inject(DeletePod.of(victim)) as fault:
        assert cluster.get("pods", fault.fault.namespace, victim["metadata"]["name"]) is None
    left = cluster.get("pods", other["metadata"]["namespace"], other["metadata"]["name"])
    assert left["metadata"]["uid"] == other["metadata"]["uid"]
    assert "deletionTimestamp" not in left["metadata"]


@pytest.mark.level("core")
def test_delete_pod_spares_a_successor_of_the_same_name(cluster, inject, stand_in):
    pod = stand_in("kept")
    metadata = pod["metadata"]
    stale = DeletePod(metadata["namespace"], metadata["name"], uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(NoEffect), inject(stale):
        pass
    assert cluster.get("pods", metadata["namespace"], metadata["name"])["metadata"]["uid"] == metadata["uid"]


def test_kill_process_ends_the_container_by_the_signal_and_leaves_the_pod(cluster, inject, stand_in):
    pod = stand_in("killed")
    with inject(KillProcess.of(pod)):
        pass
    assert effect_of(inject, pod)["exit_code"] == 137
    found = cluster.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    assert found["metadata"]["uid"] == pod["metadata"]["uid"]


# Renamed for the kernel (PR_SET_NAME), as Python's own name would be the stand-in's as well.
_LINGERS = """
import ctypes, signal, socket, time
ctypes.CDLL(None).prctl(15, b"lingers")
server = socket.create_server(("127.0.0.1", 7001))
signal.signal(signal.SIGTERM, lambda *_: server.close())
while True: time.sleep(1)
"""


def test_a_process_that_lingers_has_ended_once_nobody_listens_on_its_port(cluster, inject, stand_in):
    """As a GCS of Ray 2.60 does, which serves nobody after SIGTERM and stays until its head goes."""
    pod = stand_in("lingering")
    where = pod["metadata"]
    background = ["sh", "-c", 'python3 -c "$0" >/dev/null 2>&1 &', _LINGERS]
    cluster.exec(where["namespace"], where["name"], background, timeout=20).require("a process beside the main one")
    listens = KillProcess.of(pod, signal="TERM", process="lingers", port=7001)
    until(lambda: listens.served_by(inject.reach), what="it listens", deadline=20)
    elsewhere = KillProcess.of(pod, signal="TERM", process="lingers", port=7002)
    with pytest.raises(StackError, match="listens on port 7002"), inject(elsewhere):
        pytest.fail("nobody listens there")
    with inject(listens):
        assert not effect_of(inject, pod)["listening"]
        names = [p.name for p in processes(cluster, pod["spec"]["nodeName"], where["uid"])]
        assert names.count("lingers") == 1, "it is there all the same"
    assert seen_now(cluster, pod)[1]["restartCount"] == 0


def test_a_pod_that_is_terminating_is_not_deleted_again(cluster, inject, namespace):
    # Held by a finalizer, since a stand-in would be gone before anything could be asked.
    body = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "going", "finalizers": ["kuberay-chaos/held"]},
        "spec": {"schedulingGates": [{"name": "kuberay-chaos/never"}], "containers": [{"name": "c", "image": "none"}]},
    }  # fmt: skip
    pod = cluster.create("pods", namespace, body)
    try:
        cluster.delete("pods", namespace, "going")
        with pytest.raises(StackError, match="being deleted already"), inject(DeletePod.of(pod)):
            pytest.fail("the block must not run")
    finally:
        cluster.patch("pods", namespace, "going", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    "process",
    [pytest.param("", id="main process"), pytest.param("python3", id="by name", marks=pytest.mark.level("core"))],
)
def test_a_stopped_server_is_connected_to_and_does_not_answer(cluster, inject, stand_in, connect, attempt, process):
    stopped, running, client = stand_in("stopped"), stand_in("running"), stand_in("client")
    stalls, goes_on = (connect(client, server["status"]["podIP"]) for server in (stopped, running))
    before = {p.pid: p.started for p in table(cluster, stopped)}
    with inject(StopProcess.of(stopped, process=process)):
        assert {p.state for p in table(cluster, stopped)} == {"T"}
        assert "T" not in {p.state for p in table(cluster, running)}
        assert not stalls.exchanged_within(3)
        assert goes_on.exchanged_within(5)
        assert attempt(client, stopped["status"]["podIP"]) == "connected", "by the kernel, without the process"
    assert stalls.exchanged_within(20)
    assert {p.pid: p.started for p in table(cluster, stopped)} == before
    assert seen_now(cluster, stopped)[1]["restartCount"] == 0


@pytest.mark.level("core")
def test_stop_spares_a_container_that_was_restarted_meanwhile(cluster, inject, stand_in):
    pod = stand_in("restarted")
    with inject(StopProcess.of(pod)):
        with inject(RestartContainer.of(pod)):
            pass
        assert "T" not in {p.state for p in table(cluster, pod)}


def test_restart_in_place_keeps_the_pod_and_replaces_the_container(cluster, inject, stand_in):
    pod, other = stand_in("restarted"), stand_in("other")
    former = pod["status"]["containerStatuses"][0]["containerID"]
    with inject(RestartContainer.of(pod)):
        pass
    found, status = seen_now(cluster, pod)
    assert found["metadata"]["uid"] == pod["metadata"]["uid"]
    assert found["status"]["podIP"] == pod["status"]["podIP"]
    assert status["restartCount"] == 1
    assert status["containerID"] != former
    assert status["containerID"].endswith(effect_of(inject, pod)["container_id"])
    assert effect_of(inject, pod)["exit_code"] == 137, "no grace: killed at once"
    assert seen_now(cluster, other)[1]["restartCount"] == 0
    with pytest.raises(StackError, match="isn't the one"), inject(RestartContainer.of(pod)):
        pytest.fail("the former container is not there any more")


@pytest.mark.level("core")
def test_restart_with_grace_lets_the_process_end_by_itself_or_kills_it_then(inject, stand_in):
    pod = stand_in("patient")
    # The first process of a container that handles no SIGTERM doesn't get it.
    with inject(RestartContainer.of(pod, grace=2)) as restarted:
        pass
    assert effect_of(inject, pod)["exit_code"] == 137
    assert effect_of(inject, pod)["injection_lag"] >= 2
    assert restarted.fault.grace == 2


def test_cpu_pressure_loads_this_pod_and_leaves_nothing(cluster, inject, stand_in):
    pod, other = stand_in("loaded"), stand_in("other")
    before = {p.pid for p in table(cluster, pod)}
    with inject(CpuPressure.of(pod, busy=1, free=1, seconds=60)) as load:
        assert [load.fault.marker in p.command for p in table(cluster, other)] == [False]
        assert len(table(cluster, pod)) == len(before) + 2, "one that computes and one that waits for it"
    assert effect_of(inject, pod)["cpu_seconds"] >= 0.2
    assert {p.pid for p in table(cluster, pod)} == before
    assert seen_now(cluster, pod)[1]["restartCount"] == 0


def test_memory_pressure_holds_as_much_as_was_asked(cluster, inject, stand_in):
    pod = stand_in("filled")
    before = {p.pid for p in table(cluster, pod)}
    with inject(MemoryPressure.of(pod, mebibytes=64, free=256, seconds=60)):
        assert 64 <= effect_of(inject, pod)["resident_mebibytes"] < 128
    assert {p.pid for p in table(cluster, pod)} == before
    assert seen_now(cluster, pod)[1]["restartCount"] == 0


@pytest.mark.level("core")
def test_a_load_ends_by_itself(cluster, inject, stand_in):
    pod = stand_in("loaded")
    before = {p.pid for p in table(cluster, pod)}
    CpuPressure.of(pod, busy=1, free=1, seconds=3).apply(inject.reach)
    assert {p.pid for p in table(cluster, pod)} != before
    until(lambda: {p.pid for p in table(cluster, pod)} == before, what="the end of the load", deadline=20)
