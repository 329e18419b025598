"""A cluster of one dict, and a kind of undo that acts on it."""

import pytest

from chaos.faults import undo
from chaos.faults.inject import Injector
from chaos.faults.undo import UndoLog
from chaos.history.store import HistoryWriter


class FakeCluster:
    """What is broken in it, by name; things in ``stuck`` can't be repaired."""

    def __init__(self):
        self.broken = set()
        self.stuck = set()
        self.repaired = []  # in the order of the attempts


@pytest.fixture
def cluster(monkeypatch):
    def repair(cluster, what):
        cluster.repaired.append(what["name"])
        if what["name"] in cluster.stuck:
            raise RuntimeError(f"{what['name']} is stuck")
        cluster.broken.discard(what["name"])

    undo.load_faults()  # not later: what they register then would be lost with this copy
    monkeypatch.setattr(undo, "_UNDOERS", {**undo._UNDOERS, "repair": repair})
    return FakeCluster()


@pytest.fixture
def log(tmp_path):
    return UndoLog(tmp_path / "undo.jsonl")


@pytest.fixture
def writer(tmp_path):
    history = HistoryWriter(tmp_path / "history.jsonl")
    yield history
    history.close()


@pytest.fixture
def injector(cluster, writer, log):
    return Injector(cluster, writer, log)
