"""Replacing the operator: definitions first or not at all, and what undoes it brings the stack's own back."""

import json
from pathlib import Path

import pytest

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Reach
from chaos.faults.replace_operator import ReplaceOperator
from chaos.faults.undo import Undo, perform
from chaos.stack import kuberay
from chaos.stack.kuberay import Release

OWN, OTHER = (Release(version, f"operator:{version}", Path(f"/modules/{version}")) for version in ("2.0", "1.0"))


class FakeApi:
    """What was applied, in order; the operator's pod follows the Deployment at once and leads, unless it is stuck."""

    def __init__(self, *, stuck=False):
        self.applied = []  # the kinds of each call
        self.stuck = stuck
        self.version = self.image = None

    def apply(self, documents):
        self.applied.append([document["kind"] for document in documents])
        for document in documents:
            if document["kind"] == "Deployment" and not self.stuck:
                template = document["spec"]["template"]
                self.version = template["metadata"]["labels"][kuberay.VERSION_LABEL]
                self.image = template["spec"]["containers"][0]["image"]

    def wait_rolled_out(self, resource, namespace, name, seconds):
        pass

    def get(self, resource, namespace, name):
        match resource:
            case "customresourcedefinitions":
                return {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
            case "deployments":
                return {"spec": {"selector": {"matchLabels": {"app": "operator"}}}}
            case "leases":
                return {"spec": {"holderIdentity": "operator-1_abc"}}
            case "pods":
                return self._pod()
        raise AssertionError(resource)

    def list(self, resource, namespace, labels):
        return [self._pod()]

    def _pod(self):
        return {"metadata": {"name": "operator-1", "labels": {kuberay.VERSION_LABEL: self.version}}}


@pytest.fixture(autouse=True)
def rendered(monkeypatch):
    """KubeRay's manifests without kubectl."""

    def render(cluster, config):
        template = {"metadata": {"labels": {"app": "operator"}}, "spec": {"containers": [{"image": "upstream"}]}}
        return [
            {"kind": "Deployment", "metadata": {"name": "kuberay-operator"}, "spec": {"template": template}},
            {"kind": "CustomResourceDefinition", "metadata": {"name": f"of-{config.name}"}},
        ]

    monkeypatch.setattr(kuberay, "_rendered", render)


def test_definitions_go_first_and_the_undo_brings_the_own_version_twice():
    api = FakeApi()
    reach, fault = Reach(api, None), ReplaceOperator(OTHER, OWN)
    [undo] = fault.undo(reach)
    undo = Undo(undo.kind, json.loads(json.dumps(undo.what)))
    fault.apply(reach)
    assert api.applied == [["CustomResourceDefinition"], ["Namespace", "Deployment"]]
    assert fault.prove(reach, 0) == {"leader": "operator-1", "version": "1.0"}
    assert api.image == "operator:1.0"
    with pytest.raises(StackError):
        fault.relieved(reach)
    for _ in range(2):
        perform(api, undo)
        assert fault.relieved(reach) == {"leader": "operator-1", "version": "2.0"}
    assert api.applied.count(["CustomResourceDefinition"]) == 3


def test_definitions_that_are_left_behind():
    api = FakeApi()
    fault = ReplaceOperator(OTHER, OWN, definitions=False)
    fault.apply(Reach(api, None))
    assert api.applied == [["Namespace", "Deployment"]]
    assert "definitions" in fault.target
    perform(api, fault.undo(Reach(api, None))[0])
    assert ["CustomResourceDefinition"] in api.applied


def test_an_operator_that_stays_is_no_effect():
    api = FakeApi()
    perform(api, ReplaceOperator(OTHER, OWN).undo(Reach(api, None))[0])
    api.stuck = True
    fault = ReplaceOperator(OTHER, OWN)
    fault.apply(Reach(api, None))
    with pytest.raises(NoEffect, match=r"of version 2\.0, not 1\.0"):
        fault.prove(Reach(api, None), 0)
