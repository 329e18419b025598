"""An image made cold on a node whose runtime keeps layers as the real one does: what is used, or stood upon, stays."""

import json

import pytest

from chaos.errors import NoEffect, StackError
from chaos.faults import image_cold
from chaos.faults.base import Reach
from chaos.faults.image_cold import ImageCold
from chaos.process import Executed

FAULT = ImageCold("n1", "some-image")


class Node:
    """Unpacked layers, each with what it stands on; ``top`` is the image's last one.

    ``containers`` gives state and pod of each by the name of its layer; ``pods`` are those the API server knows.
    """

    def __init__(self, layers, *, top="c", leaving=0, collected=(), containers=None, pods=()):
        self.containers = containers or {}
        self.pods = pods
        self.layers = dict(layers)
        self.top = top
        self.collected = collected  # layers that the runtime removes itself, between a look and the removal
        self.leaving = leaving  # looks until the container that uses the image is gone

    def node_exec(self, node, argv, *, stdin=None, timeout=30):
        if argv[:2] == ["crictl", "inspect"]:
            if argv[2] not in self.containers:
                return Executed(1, b"", b"not found")
            state, pod = self.containers[argv[2]]
            labels = {
                f"io.kubernetes.pod.{key}": value for key, value in zip(("uid", "namespace", "name"), pod, strict=True)
            }
            return Executed(0, json.dumps({"status": {"state": state, "labels": labels}}).encode(), b"")
        if argv[:2] == ["crictl", "rm"]:
            del self.layers[argv[2]]
            return Executed(0, b"", b"")
        if argv[-1] == "list":
            rows = [f"{layer} {below} Committed" for layer, below in self.layers.items()]
            return Executed(0, "\n".join(["KEY PARENT KIND", *rows, ""]).encode(), b"")
        if argv[0] == "crictl":
            if argv[-1] != FAULT.image:
                return Executed(1, b"", b"no such image")
            return Executed(0, json.dumps({"info": {"chainID": self.top}}).encode(), b"")
        what, layer = argv[-2:]
        if layer not in self.layers:
            return Executed(1, b"", f"ctr: snapshot {layer} does not exist: not found".encode())
        if what == "info":
            told = {"Name": layer, "Parent": self.layers[layer]} if self.layers[layer] else {"Name": layer}
            return Executed(0, json.dumps(told).encode(), b"")
        if layer in self.collected:
            del self.layers[layer]
            return Executed(1, b"", f"ctr: snapshot {layer} does not exist: not found".encode())
        if self.leaving and layer == self.top:
            self.leaving -= 1
            return Executed(1, b"", b"cannot remove snapshot with child: failed precondition")
        if layer in self.layers.values():
            return Executed(1, b"", b"cannot remove snapshot with child: failed precondition")
        del self.layers[layer]
        return Executed(0, b"", b"")

    def list(self, resource):
        assert resource == "pods"
        return [{"metadata": {"uid": uid}} for uid in self.pods]


def reach(node):
    return Reach(node, None)


def test_what_is_unpacked_of_the_image_alone_goes():
    node = Node({"a": "", "b": "a", "c": "b", "of another image": "a"})
    FAULT.apply(reach(node))
    assert node.layers == {"a": "", "of another image": "a"}
    assert FAULT.prove(reach(node), 0) == {"unpacked": False}


def test_nothing_is_left_of_an_image_that_shares_nothing():
    node = Node({"a": "", "b": "a", "c": "b"})
    FAULT.apply(reach(node))
    assert node.layers == {}


def test_layers_that_the_runtime_removes_itself_are_gone_all_the_same():
    node = Node({"a": "", "b": "a", "c": "b"}, collected=("b",))
    FAULT.apply(reach(node))
    assert node.layers == {}


def test_an_image_that_was_never_used_is_cold_as_it_is():
    node = Node({"a": ""})
    FAULT.apply(reach(node))
    assert node.layers == {"a": ""}
    FAULT.prove(reach(node), 0)


def test_a_container_that_is_just_leaving_is_waited_for():
    node = Node({"a": "", "c": "a"}, leaving=2)
    FAULT.apply(reach(node))
    assert node.layers == {}


def test_a_container_that_ended_with_its_pod_is_removed_as_the_kubelet_would():
    node = Node({"a": "", "c": "a", "ended": "c"}, containers={"ended": ("CONTAINER_EXITED", ("u1", "ns", "gone"))})
    FAULT.apply(reach(node))
    assert node.layers == {}


@pytest.mark.parametrize(
    ("state", "pods"),
    [("CONTAINER_RUNNING", ()), ("CONTAINER_EXITED", ("u1",))],
    ids=["runs", "of a pod that is there"],
)
def test_whose_containers_use_the_image_is_told_and_they_stay(monkeypatch, state, pods):
    monkeypatch.setattr(image_cold, "_UNUSED_SECONDS", 0.1)
    node = Node({"c": "", "one": "c"}, containers={"one": (state, ("u1", "ns", "p1"))}, pods=pods)
    with pytest.raises(StackError, match=r"used by ns/p1"):
        FAULT.apply(reach(node))
    assert node.layers == {"c": "", "one": "c"}


def test_an_image_in_use_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(image_cold, "_UNUSED_SECONDS", 0.1)
    node = Node({"a": "", "c": "a", "of a container": "c"})
    with pytest.raises(StackError, match="no container of some-image on n1"):
        FAULT.apply(reach(node))
    assert node.layers == {"a": "", "c": "a", "of a container": "c"}
    with pytest.raises(NoEffect, match="is unpacked on n1"):
        FAULT.prove(reach(node), 0)


def test_an_image_that_the_node_does_not_have_is_told():
    with pytest.raises(StackError, match="n1 has no image other"):
        ImageCold("n1", "other").apply(reach(Node({})))


def test_a_runtime_that_does_not_answer_is_no_cold_image():
    class Silent(Node):
        def node_exec(self, node, argv, *, stdin=None, timeout=30):
            return super().node_exec(node, argv) if argv[0] == "crictl" else Executed(1, b"", b"connection refused")

    with pytest.raises(StackError, match="does not answer"):
        FAULT.prove(reach(Silent({})), 0)
