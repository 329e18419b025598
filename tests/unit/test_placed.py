"""Actors that are to be at one place, with a Ray that takes another now and then, as a young cluster's does."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos import workloads

AT = "10.0.0.2"
HEAD, GONE, WORKER = (digit * 56 for digit in "0a1")  # as long as Ray's are


class Ray:
    """Two nodes; the first starts go to these, whatever was asked for."""

    def __init__(self, *first):
        self.first = list(first)
        self.started = []
        self.killed = []

    def nodes(self):
        told = [(HEAD, "10.0.0.1", True), (GONE, AT, False), (WORKER, AT, True)]
        return [{"NodeID": node, "NodeManagerAddress": at, "Alive": alive} for node, at, alive in told]

    def start(self, strategy):
        assert strategy.soft, "it must be able to start again elsewhere"
        node = self.first.pop(0) if self.first else strategy.node_id
        self.started.append(node)
        return SimpleNamespace(node=SimpleNamespace(remote=lambda: node))

    def get(self, reference):
        return reference

    def kill(self, actor):
        self.killed.append(actor.node.remote())


@pytest.fixture
def placed(monkeypatch):
    """The script, which is no module of a package, with a Ray of ours."""
    path = Path(workloads.__file__).parent / "inpod" / "placed.py"
    spec = importlib.util.spec_from_file_location("placed", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PAUSE", 0)
    return module


@pytest.mark.parametrize("elsewhere", [(), (HEAD,), (HEAD, HEAD)])
def test_an_actor_that_ray_puts_elsewhere_is_started_again(placed, monkeypatch, elsewhere):
    ray = Ray(*elsewhere)
    monkeypatch.setattr(placed, "ray", ray)
    actor = placed.start_at(AT, ray.start)
    assert actor.node.remote() == WORKER
    assert ray.started == [*elsewhere, WORKER]
    assert ray.killed == [*elsewhere]


def test_an_address_without_a_living_node_is_told(placed, monkeypatch):
    monkeypatch.setattr(placed, "ray", Ray())
    with pytest.raises(LookupError, match="no living Ray node"):
        placed.start_at("10.0.0.9", lambda strategy: None)
