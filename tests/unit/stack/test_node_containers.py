"""Nodes as containers: what is told of them, and what an engine that is away must not be taken for. `docker` is a script."""

from datetime import UTC, datetime

import pytest

from chaos.errors import EngineError
from chaos.stack.engine import Engine
from chaos.stack.node_containers import NodeContainers

INSPECTED = '[{"State": {"Running": false, "StartedAt": "2026-11-30T04:09:11.123456789Z"}}]'


@pytest.fixture
def nodes():
    return NodeContainers(Engine())


def test_a_stopped_node_has_a_state(program, nodes):
    program("docker", f"echo '{INSPECTED}'")
    state = nodes.state("n-worker")
    assert state.running is False
    assert state.started == datetime(2026, 11, 30, 4, 9, 11, 123456, tzinfo=UTC)


def test_a_node_that_is_gone_has_none(program, nodes):
    program("docker", '[ "$1" = ps ] || { echo "No such container" >&2; exit 1; }')
    assert nodes.state("n-worker") is None


def test_an_engine_that_is_away_is_no_node_that_is_gone(program, nodes):
    program("docker", "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    with pytest.raises(EngineError, match="Cannot connect"):
        nodes.state("n-worker")


@pytest.mark.parametrize(
    ("act", "command"),
    [
        (lambda nodes: nodes.stop("n", at_once=True), "kill n"),
        (lambda nodes: nodes.stop("n", at_once=False), "stop --time=10 n"),
        (lambda nodes: nodes.start("n"), "start n"),
    ],
)
def test_commands(program, nodes, tmp_path, act, command):
    program("docker", f'echo "$@" >{tmp_path}/said')
    act(nodes)
    assert (tmp_path / "said").read_text().strip() == command
