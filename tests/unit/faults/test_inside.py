"""Pods seen from a node whose container runtime lags behind what has ended."""

import json

import pytest

from chaos.faults.inside import in_sandbox, running_container
from chaos.process import Executed


class Node:
    """A runtime that lists one sandbox and one container, of these processes, one look after the other."""

    def __init__(self, *pids, entered=0):
        self.pids = list(pids)
        self.entered = entered
        self.commands = []

    def node_exec(self, node, argv, *, stdin=None, timeout=30):
        if argv[0] == "nsenter":
            self.commands.append(argv)
            return Executed(self.entered, b"done", b"cannot open /proc/7/ns/net")
        if argv[1] in ("pods", "ps"):
            return Executed(0, b"id\n" if self.pids else b"", b"")
        return Executed(0, json.dumps({"info": {"pid": self.pids.pop(0)}}).encode(), b"")


def test_a_script_runs_in_the_network_of_the_sandboxs_process():
    node = Node(7)
    assert in_sandbox(node, "node", "uid", "true").stdout == b"done"
    assert node.commands[0][:4] == ["nsenter", "--target", "7", "--net"]


@pytest.mark.parametrize(
    ("pids", "entered"),
    [
        pytest.param([], 0, id="not listed"),
        pytest.param([0], 0, id="listed without a process"),
        pytest.param([7, 0], 1, id="gone when it was to be entered"),
        pytest.param([7], 1, id="gone when it was to be entered, and from the list"),
    ],
)
def test_a_sandbox_that_is_gone_is_none(pids, entered):
    assert in_sandbox(Node(*pids, entered=entered), "node", "uid", "true") is None


def test_a_script_that_fails_in_a_sandbox_that_is_there_is_told():
    assert in_sandbox(Node(7, 7, entered=1), "node", "uid", "false").code == 1


@pytest.mark.parametrize(("pids", "found"), [([7], ("id", 7)), ([0], None), ([], None)])
def test_a_container_without_a_process_does_not_run(pids, found):
    assert running_container(Node(*pids), "node", "uid", "main") == found
