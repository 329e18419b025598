"""A paused API server: silent, then the same process as before answers again."""

import pytest

from chaos.errors import StackError
from chaos.faults.api_server_pause import ApiServerPause
from chaos.faults.undo import UndoLog, heal, perform


@pytest.fixture
def fault(chaos_run):
    return ApiServerPause(chaos_run.stack.kind.control_plane)


def container(cluster, node):
    """The running API server's container; asked of the runtime, which doesn't need it."""
    return cluster.node_exec(node, ["crictl", "ps", "-q", "--name", "^kube-apiserver$"]).require("crictl").split()


def test_silent_while_it_is_paused(cluster, inject, fault):
    before = container(cluster, fault.node)
    assert len(before) == 1
    with inject(fault), pytest.raises(StackError, match="did not answer"):
        cluster.request("GET", "/api/v1/namespaces/default", timeout=2)
    assert cluster.get("namespaces", None, "default") is not None
    assert container(cluster, fault.node) == before


def test_a_later_process_lets_it_go_on(cluster, inject, fault, tmp_path):
    log = UndoLog(tmp_path / "undo.jsonl")
    [undo] = fault.undo(inject.reach)
    log.append("dead-1", [undo])
    fault.apply(inject.reach)
    try:
        healed, failed = heal(cluster, UndoLog(log.path))
        assert (len(healed), failed) == (1, [])
    finally:
        perform(cluster, undo)
    assert fault.relieved(inject.reach) == {"ready": True}
