"""A head that is kept away, against an API server whose operator makes heads as KubeRay does."""

import copy

import pytest

from chaos.errors import NoEffect, StackError
from chaos.faults import head_away
from chaos.faults.head_away import HeadAway
from chaos.faults.undo import Undo, perform
from chaos.history.entry import What

GATE = {"name": "kuberay-chaos/head-away"}
UNDO = Undo("head-gate", {"namespace": "ns", "cluster": "c"})


class Server:
    """One RayCluster and its heads. ``stale``: so many heads are still made from the template as it was before.

    An operator that never saw the pod it made waits for it, as KubeRay's does for 30 s: it makes no other.
    """

    def __init__(self, writer):
        self.gates = []
        self.seen = []  # what the operator knows of them
        self.stale = 0
        self.there = True
        self.made = 0
        self.heads = []
        self.known = "nothing yet"  # the address of the head the operator has seen, None of one without
        self._writer = writer
        self._make()
        self._look()

    def _make(self):
        if self.stale:
            self.stale -= 1
        else:
            self.seen = list(self.gates)
        self.made += 1
        name = f"head-{self.made}"
        labels = {"ray.io/cluster": "c", "ray.io/node-type": "head"}
        pod = {
            "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels},
            "spec": {"schedulingGates": list(self.seen)},
            "status": {},
        }
        self.heads = [pod]
        self._schedule(pod)
        self._tell("ADDED", pod)

    def _schedule(self, pod):
        condition = {"type": "PodScheduled", "status": str(not pod["spec"]["schedulingGates"])}
        pod["status"] = {"conditions": [condition]}
        if pod["spec"]["schedulingGates"]:
            condition["reason"] = "SchedulingGated"
        else:
            pod["spec"]["nodeName"] = "node"
            pod["status"]["podIP"] = f"address of {pod['metadata']['name']}"

    def _look(self):
        for pod in self.heads:
            self.known = pod["status"].get("podIP")

    def _tell(self, change, pod):
        meta = pod["metadata"]
        self._writer.write(
            What.OBJECT, change=change, resource="pods", uid=meta["uid"], namespace="ns", name=meta["name"],
            rv="1", listed=False, object=pod,
        )  # fmt: skip

    def get(self, resource, namespace, name):
        if resource == "pods":
            return next((copy.deepcopy(head) for head in self.heads if head["metadata"]["name"] == name), None)
        if not self.there:
            return None
        found = {
            "metadata": {"name": name},
            "spec": {"headGroupSpec": {"template": {"spec": {"schedulingGates": list(self.gates)}}}},
            "status": {"head": {"podIP": self.known}},
        }
        self._look()  # it is told a moment later
        return found

    def list(self, resource, namespace=None, labels=None):
        return copy.deepcopy(self.heads)

    def patch(self, resource, namespace, name, body):
        if resource == "rayclusters":
            self.gates = body["spec"]["headGroupSpec"]["template"]["spec"]["schedulingGates"] or []
            return
        [pod] = self.heads
        assert body["metadata"]["uid"] == pod["metadata"]["uid"]
        pod["spec"]["schedulingGates"] = body["spec"]["schedulingGates"] or []
        self._schedule(pod)

    def delete(self, resource, namespace, name, *, uid=None, grace=None, propagation="Background"):
        [pod] = [head for head in self.heads if head["metadata"]["uid"] == uid]
        self.heads = []
        self._tell("DELETED", pod)
        if self.known == pod["status"].get("podIP"):
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
        assert [head["spec"]["schedulingGates"] for head in server.heads] == [[GATE]]
    assert [head["spec"].get("nodeName") for head in server.heads] == ["node"]
    assert server.gates == []


def test_the_pod_that_waited_is_the_one_that_comes(server, inject):
    """Deleted before the operator had seen it, it would have no successor for 30 s and longer."""
    with inject(HeadAway.of(server.heads[0])):
        [waiting] = server.list("pods")
    assert [head["metadata"]["uid"] for head in server.heads] == [waiting["metadata"]["uid"]]


def test_a_head_that_the_operator_has_not_seen_is_not_deleted_before_it_has(server, inject):
    server.known = "nothing yet"
    HeadAway.of(server.heads[0]).apply(inject.reach)
    assert [head["spec"]["schedulingGates"] for head in server.heads] == [[GATE]]


def test_undo_frees_a_head_that_is_still_made_from_the_template_as_it_was(server, inject):
    HeadAway.of(server.heads[0]).apply(inject.reach)
    server.gates = []
    server.stale = 1
    server._look()
    server.delete("pods", "ns", "", uid=server.heads[0]["metadata"]["uid"])
    perform(server, UNDO)
    assert [head["spec"].get("nodeName") for head in server.heads] == ["node"]


def test_gates_of_others_stay(server, inject):
    theirs = {"name": "example.org/quota"}
    server.gates = [theirs]
    fault = HeadAway.of(server.heads[0])
    fault.apply(inject.reach)
    assert [head["spec"]["schedulingGates"] for head in server.heads] == [[theirs, GATE]]
    perform(server, UNDO)
    assert server.gates == [theirs]
    assert [head["spec"]["schedulingGates"] for head in server.heads] == [[theirs]]


def test_undo_spares_a_head_that_is_not_held_and_may_be_repeated(server):
    perform(server, UNDO)
    perform(server, UNDO)
    assert server.made == 1


def test_undo_is_content_when_the_cluster_is_gone(server):
    server.there, server.heads = False, []
    perform(server, UNDO)


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
        perform(server, UNDO)
