"""Faults on pods and processes: each does what it says, to what it names and nothing else."""

import pytest

from chaos.errors import NoEffect
from chaos.faults.delete_pod import DeletePod
from chaos.faults.kill_process import KillProcess


def test_delete_pod_removes_exactly_this_uid(cluster, inject, stand_in):
    victim, other = stand_in("victim"), stand_in("other")
    with inject(DeletePod.of(victim)) as fault:
        assert cluster.get("pods", fault.fault.namespace, victim["metadata"]["name"]) is None
    left = cluster.get("pods", other["metadata"]["namespace"], other["metadata"]["name"])
    assert left["metadata"]["uid"] == other["metadata"]["uid"]
    assert "deletionTimestamp" not in left["metadata"]


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
    effects = [
        e for e in inject.reach.writer.entries()
        if e["what"] == "fault" and e["step"] == "effect" and e["target"].get("uid") == pod["metadata"]["uid"]
    ]  # fmt: skip
    assert effects[-1]["detail"]["exit_code"] == 137
    found = cluster.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    assert found["metadata"]["uid"] == pod["metadata"]["uid"]
