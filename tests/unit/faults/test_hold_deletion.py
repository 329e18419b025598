"""A finalizer of ours: it comes and goes, and nobody else's does."""

import pytest

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Reach
from chaos.faults.hold_deletion import FINALIZER, HoldDeletion
from chaos.faults.undo import perform


class FakeApi:
    """One RayCluster with a finalizer of its own; the first ``conflicts`` writes meet another one."""

    def __init__(self, conflicts=0):
        self.metadata = {"namespace": "ns", "name": "c", "uid": "u", "resourceVersion": "1", "finalizers": ["its/own"]}
        self.conflicts = conflicts

    def get(self, resource, namespace, name):
        assert (resource, namespace, name) == ("rayclusters", "ns", "c")
        return {"metadata": dict(self.metadata)} if self.metadata else None

    def patch(self, resource, namespace, name, body):
        assert body["metadata"]["resourceVersion"] == self.metadata["resourceVersion"]
        if self.conflicts:
            self.conflicts -= 1
            raise StackError("409 Conflict")
        self.metadata["finalizers"] = body["metadata"]["finalizers"]


@pytest.mark.parametrize("conflicts", [0, 1])
def test_it_comes_and_goes(conflicts):
    api = FakeApi(conflicts)
    reach = Reach(api, None)
    fault = HoldDeletion.of("rayclusters", api.get("rayclusters", "ns", "c"))
    [undo] = fault.undo(reach)
    fault.apply(reach)
    assert fault.prove(reach, 0) == {"held": "rayclusters/c"}
    assert api.metadata["finalizers"] == ["its/own", FINALIZER]
    with pytest.raises(StackError):
        fault.relieved(reach)
    for _ in range(2):
        perform(api, undo)
        assert api.metadata["finalizers"] == ["its/own"]
    assert fault.relieved(reach)


def test_another_object_of_the_name_is_left_alone():
    api = FakeApi()
    reach = Reach(api, None)
    fault = HoldDeletion("rayclusters", "ns", "c", "another")
    fault.apply(reach)
    assert api.metadata["finalizers"] == ["its/own"]
    with pytest.raises(NoEffect):
        fault.prove(reach, 0)


def test_what_is_gone_needs_no_undo():
    api = FakeApi()
    reach = Reach(api, None)
    fault = HoldDeletion("rayclusters", "ns", "c", "u")
    [undo] = fault.undo(reach)
    api.metadata = None
    perform(api, undo)
    assert fault.relieved(reach)
