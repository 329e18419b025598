"""Scaling a Deployment: what is undone is what was, and the effect is seen in pods."""

import pytest

from chaos.errors import NoEffect
from chaos.faults import scale_deployment
from chaos.faults.base import Reach
from chaos.faults.scale_deployment import ScaleDeployment
from chaos.faults.undo import perform

GONE = ScaleDeployment("ns", "operator", 0)


class FakeApi:
    """One Deployment whose controller makes the pods it is asked for at once, unless it is stuck."""

    def __init__(self, replicas=1, *, stuck=False, there=True):
        self.there = there
        self.stuck = stuck
        self.replicas = self.pods = replicas

    def get(self, resource, namespace, name):
        assert (resource, namespace, name) == ("deployments", "ns", "operator")
        spec = {"replicas": self.replicas, "selector": {"matchLabels": {"app": "operator"}}}
        return {"spec": spec} if self.there else None

    def patch(self, resource, namespace, name, body):
        self.replicas = body["spec"]["replicas"]
        if not self.stuck:
            self.pods = self.replicas

    def list(self, resource, namespace, labels):
        assert (resource, namespace, labels) == ("pods", "ns", "app=operator")
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        return [{"metadata": {"name": f"p{n}"}, "status": ready} for n in range(self.pods)]


def test_it_scales_and_is_undone_twice():
    api = FakeApi()
    reach = Reach(api, None)
    [undo] = GONE.undo(reach)
    GONE.apply(reach)
    assert GONE.prove(reach, 0) == {"pods": []}
    for _ in range(2):
        perform(api, undo)
        assert api.pods == 1


def test_pods_that_stay_are_no_effect(monkeypatch):
    monkeypatch.setattr(scale_deployment, "_READY_SECONDS", 0.1)
    reach = Reach(FakeApi(stuck=True), None)
    GONE.apply(reach)
    with pytest.raises(NoEffect):
        GONE.prove(reach, 0)


def test_a_deployment_that_is_not_there():
    api = FakeApi()
    [undo] = GONE.undo(Reach(api, None))
    api.there = False
    with pytest.raises(NoEffect):
        GONE.undo(Reach(api, None))
    perform(api, undo)
    assert GONE.relieved(Reach(api, None)) == {}
