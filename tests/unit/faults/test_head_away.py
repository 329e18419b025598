"""A head that is kept away, against an API server whose operator makes heads as KubeRay does."""

import pytest

from chaos.errors import NoEffect, StackError
from chaos.faults import head_away
from chaos.faults.head_away import HeadAway
from chaos.faults.undo import Undo, perform
from chaos.history.entry import What

SELECTOR = {"kuberay-chaos/head-away": "true"}


class Server:
    """One RayCluster and its heads. ``stale``: so many heads are still made from the template as it was before."""

    def __init__(self, writer):
        self.selector = {}
        self.seen = {}  # what the operator knows of it
        self.stale = 0
        self.there = True
        self.made = 0
        self.heads = []
        self._writer = writer
        self._make()

    def _make(self):
        if self.stale:
            self.stale -= 1
        else:
            self.seen = dict(self.selector)
        self.made += 1
        name = f"head-{self.made}"
        labels = {"ray.io/cluster": "c", "ray.io/node-type": "head"}
        scheduled = {"type": "PodScheduled", "status": str(not self.seen)}
        if self.seen:
            scheduled["reason"] = "Unschedulable"
        pod = {
            "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels},
            "spec": {"nodeSelector": dict(self.seen), **({} if self.seen else {"nodeName": "node"})},
            "status": {"conditions": [scheduled]},
        }
        self.heads = [pod]
        self._tell("ADDED", pod)

    def _tell(self, change, pod):
        meta = pod["metadata"]
        self._writer.write(
            What.OBJECT, change=change, resource="pods", uid=meta["uid"], namespace="ns", name=meta["name"],
            rv="1", listed=False, object=pod,
        )  # fmt: skip

    def get(self, resource, namespace, name):
        return {"metadata": {"name": name}} if self.there else None

    def list(self, resource, namespace=None, labels=None):
        return list(self.heads)

    def patch(self, resource, namespace, name, body):
        for key, value in body["spec"]["headGroupSpec"]["template"]["spec"]["nodeSelector"].items():
            if value is None:
                self.selector.pop(key, None)
            else:
                self.selector[key] = value

    def delete(self, resource, namespace, name, *, uid=None, grace=None, propagation="Background"):
        [pod] = [head for head in self.heads if head["metadata"]["uid"] == uid]
        self.heads = []
        self._tell("DELETED", pod)
        self._make()
        return True


@pytest.fixture
def server(writer):
    return Server(writer)


@pytest.fixture
def inject(server, injector):
    injector.reach = type(injector.reach)(server, injector.reach.writer)
    return injector


@pytest.mark.parametrize("stale", [0, 2])
def test_the_head_stays_away_until_the_undo(server, inject, stale):
    server.stale = stale
    with inject(HeadAway.of(server.heads[0])):
        assert [head["spec"]["nodeSelector"] for head in server.heads] == [SELECTOR]
        server.stale = stale
    assert [head["spec"].get("nodeName") for head in server.heads] == ["node"]
    assert server.selector == {}


def test_undo_spares_a_head_that_is_not_held_and_may_be_repeated(server):
    undo = Undo("head-selector", {"namespace": "ns", "cluster": "c"})
    perform(server, undo)
    perform(server, undo)
    assert server.made == 1


def test_undo_is_content_when_the_cluster_is_gone(server):
    server.there, server.heads = False, []
    perform(server, Undo("head-selector", {"namespace": "ns", "cluster": "c"}))


def test_a_successor_that_finds_a_node_after_all_is_no_outage(server, inject, monkeypatch):
    monkeypatch.setattr(head_away, "_PENDING_SECONDS", 0.2)
    monkeypatch.setattr(head_away, "_GONE_SECONDS", 0.2)
    fault = HeadAway.of(server.heads[0])
    with pytest.raises(NoEffect):
        fault.prove(inject.reach, since=0)


def test_without_an_operator_it_can_not_be_undone_in_silence(server, monkeypatch):
    monkeypatch.setattr(head_away, "_PENDING_SECONDS", 0.2)
    server.heads = []
    with pytest.raises(StackError):
        perform(server, Undo("head-selector", {"namespace": "ns", "cluster": "c"}))
