"""The operator scaled or replaced, a RayJob deleted, a deletion held up: what is hit, what isn't, and what is left afterwards."""

import uuid
from dataclasses import replace

import pytest

from chaos.errors import NoEffect
from chaos.faults.delete_rayjob import DeleteRayJob
from chaos.faults.hold_deletion import HoldDeletion
from chaos.faults.replace_operator import ReplaceOperator
from chaos.faults.scale_deployment import ScaleDeployment
from chaos.faults.undo import UndoLog, heal, perform
from chaos.stack import kuberay, ray
from chaos.stack.images import catalogue
from chaos.waiting import until


@pytest.fixture
def rayjob(chaos_run, cluster, namespace):
    """A RayJob that is suspended before it has a cluster: it has the finalizer of a real one, and no pods."""
    versions, name = chaos_run.settings.versions, f"suspended-{uuid.uuid4().hex[:5]}"
    job = ray.create_rayjob(
        cluster, namespace, name, ft=False, image=catalogue.ray_image(versions.ray), ray_version=versions.ray,
        entrypoint="true", ledger="/ledger/none.jsonl", spec={"suspend": True},
    )  # fmt: skip

    def suspended():
        found = job.get(cluster)
        return found if found.get("status", {}).get("jobDeploymentStatus") == "Suspended" else None

    yield until(suspended, what="the RayJob Suspended", deadline=60)
    cluster.delete("rayjobs", namespace, name)


def test_delete_rayjob_removes_exactly_this_uid(cluster, inject, rayjob):
    metadata = rayjob["metadata"]
    stale = DeleteRayJob(metadata["namespace"], metadata["name"], "00000000-0000-0000-0000-000000000000")
    with pytest.raises(NoEffect), inject(stale):
        pass
    assert cluster.get("rayjobs", metadata["namespace"], metadata["name"])["metadata"]["uid"] == metadata["uid"]
    with inject(DeleteRayJob.of(rayjob)):
        assert cluster.get("rayjobs", metadata["namespace"], metadata["name"]) is None


@pytest.mark.parametrize("replicas", [0, pytest.param(2, marks=pytest.mark.level("core"))])
def test_the_operator_is_scaled_for_as_long_as_the_fault_lasts(cluster, inject, replicas):
    with inject(ScaleDeployment(kuberay.NAMESPACE, kuberay.DEPLOYMENT, replicas)):
        pods = cluster.list("pods", kuberay.NAMESPACE, "app.kubernetes.io/component=kuberay-operator")
        assert len(pods) == replicas
    assert kuberay.operator_pod(cluster)


@pytest.mark.level("core")
def test_a_later_process_brings_the_operator_back(cluster, chaos_run, tmp_path):
    fault, reach = ScaleDeployment(kuberay.NAMESPACE, kuberay.DEPLOYMENT, 0), chaos_run.lab.injector.reach
    log = UndoLog(tmp_path / "undo.jsonl")
    log.append("dead-1", fault.undo(reach))
    fault.apply(reach)
    fault.prove(reach, 0)
    healed, failed = heal(cluster, UndoLog(tmp_path / "undo.jsonl"))
    assert (len(healed), failed) == (1, [])
    fault.relieved(reach)
    assert kuberay.operator_pod(cluster)
    assert heal(cluster, log) == ([], [])


@pytest.fixture
def other(chaos_run):
    """The same operator by the name of another version: what is replaced is a pod all the same."""
    own = chaos_run.stack.operator
    return ReplaceOperator(replace(own, version="0.0.0"), own)


def version(cluster):
    return kuberay.leader_pod(cluster)["metadata"]["labels"].get(kuberay.VERSION_LABEL)


# The known-bad versions of KubeRay run under this fault.
@pytest.mark.level("core")
def test_another_operator_leads_for_as_long_as_the_fault_lasts(cluster, inject, other):
    with inject(other):
        assert version(cluster) == "0.0.0"
    assert version(cluster) == other.own.version
    own = kuberay.operator_pod(cluster)
    for _ in range(2):  # where nothing is to be undone, nothing is touched
        perform(cluster, other.undo(inject.reach)[0])
    assert kuberay.operator_pod(cluster)["metadata"]["uid"] == own["metadata"]["uid"]


@pytest.mark.level("core")
def test_a_later_process_brings_the_stacks_own_operator_back(cluster, chaos_run, other, tmp_path):
    reach, log = chaos_run.lab.injector.reach, UndoLog(tmp_path / "undo.jsonl")
    log.append("dead-1", other.undo(reach))
    other.apply(reach)  # and nobody waits for what comes of it
    healed, failed = heal(cluster, UndoLog(tmp_path / "undo.jsonl"))
    assert (len(healed), failed) == (1, [])
    assert other.relieved(reach)["version"] == other.own.version
    assert heal(cluster, log) == ([], [])


def test_a_deletion_is_held_up_for_as_long_as_the_fault_lasts(cluster, inject, namespace):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/own"]}}
    made = cluster.create("configmaps", namespace, body)

    def finalizers():
        found = cluster.get("configmaps", namespace, "held")
        return found["metadata"].get("finalizers", []) if found else None

    with inject(HoldDeletion.of("configmaps", made)):
        cluster.patch(
            "configmaps", namespace, "held", {"metadata": {"finalizers": [*finalizers(), "example.com/other"]}}
        )
        cluster.delete("configmaps", namespace, "held")
        assert finalizers() == ["example.com/own", "kuberay-chaos/held", "example.com/other"]
    assert finalizers() == ["example.com/own", "example.com/other"]
    cluster.patch("configmaps", namespace, "held", {"metadata": {"finalizers": []}})
    assert finalizers() is None
