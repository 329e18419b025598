"""A Ray head that is kept away, by the operator's own doing: it needs no more than the head's pod, which need not be Ready."""

import uuid

import pytest

from chaos.faults.head_away import HeadAway
from chaos.faults.undo import Undo, perform
from chaos.stack import ray
from chaos.stack.images import catalogue
from chaos.waiting import until


@pytest.fixture
def away():
    """A name of the test's own: the pods of a cluster that was deleted outlive it for a moment."""
    return f"away-{uuid.uuid4().hex[:5]}"


@pytest.fixture
def head(chaos_run, cluster, namespace, away):
    handle = ray.create_ray_cluster(
        cluster, namespace, away, ft=False, workers=0, ray_version=chaos_run.settings.versions.ray,
        image=catalogue.ray_image(chaos_run.settings.versions.ray),
    )  # fmt: skip
    yield lambda: until(lambda: placed(handle.head_pod(cluster)), what="a head with a node", deadline=60)
    cluster.delete("rayclusters", namespace, away)


def placed(pod):
    return pod if pod and pod["spec"].get("nodeName") else None


def test_a_head_stays_away_until_it_is_let_come(cluster, inject, namespace, away, head):
    before = head()
    with inject(HeadAway.of(before)):
        [pending] = cluster.list("pods", namespace, f"ray.io/cluster={away},ray.io/node-type=head")
        assert "nodeName" not in pending["spec"]
        assert pending["metadata"]["uid"] != before["metadata"]["uid"]
    assert head()["metadata"]["uid"] == pending["metadata"]["uid"]
    template = cluster.get("rayclusters", namespace, away)["spec"]["headGroupSpec"]["template"]["spec"]
    assert not template.get("schedulingGates")


def test_undoing_where_nothing_was_done_leaves_the_head_alone(cluster, namespace, away, head):
    before = head()
    for _ in range(2):
        perform(cluster, Undo("head-gate", {"namespace": namespace, "cluster": away}))
    assert head()["metadata"]["uid"] == before["metadata"]["uid"]
