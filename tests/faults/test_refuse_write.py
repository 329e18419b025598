"""A refused write: only this one, only for this account, and the role is as before afterwards."""

import pytest

from chaos.faults.refuse_write import RefuseWrite
from chaos.faults.undo import UndoLog, heal
from chaos.stack.kuberay import ACCOUNT, CLUSTER_ROLE


def allowed(cluster, verb, resource, subresource=""):
    review = cluster.request(
        "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        body={
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": ACCOUNT, "groups": ["system:authenticated"],
                "resourceAttributes": {"group": "ray.io", "resource": resource, "subresource": subresource, "verb": verb},
            },
        },
    )  # fmt: skip
    return review["status"]["allowed"]


def rules(cluster):
    return cluster.get("clusterroles", None, CLUSTER_ROLE)["rules"]


def test_refuses_this_write_and_nothing_else(cluster, inject):
    before = rules(cluster)
    assert allowed(cluster, "update", "rayjobs", "status")
    with inject(RefuseWrite(CLUSTER_ROLE, ACCOUNT, "ray.io", "rayjobs/status")):
        assert not allowed(cluster, "update", "rayjobs", "status")
        assert allowed(cluster, "get", "rayjobs", "status")
        assert allowed(cluster, "update", "rayjobs")
        assert allowed(cluster, "update", "rayclusters", "status")
    assert rules(cluster) == before


@pytest.mark.level("core")
def test_a_later_process_heals_what_a_dead_one_left(cluster, chaos_run, tmp_path):
    before = rules(cluster)
    fault = RefuseWrite(CLUSTER_ROLE, ACCOUNT, "ray.io", "rayjobs/status")
    log = UndoLog(tmp_path / "undo.jsonl")
    log.append("dead-1", fault.undo(chaos_run.lab.injector.reach))
    fault.apply(chaos_run.lab.injector.reach)
    assert rules(cluster) != before
    healed, failed = heal(cluster, UndoLog(tmp_path / "undo.jsonl"))
    assert (len(healed), failed) == (1, [])
    assert rules(cluster) == before
    assert heal(cluster, log) == ([], [])
