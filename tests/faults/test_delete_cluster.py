"""Faults on a RayCluster's object: it is deleted by its UID, and its next pods are kept from Redis."""

import pytest

from chaos.errors import NoEffect
from chaos.faults import delete_cluster
from chaos.faults.delete_cluster import DeleteCluster
from chaos.faults.shut_out import ShutOut
from chaos.stack import ray, redis
from chaos.stack.images import catalogue
from chaos.waiting import until


def test_exactly_this_cluster_is_deleted(chaos_run, cluster, inject, namespace, monkeypatch):
    handle = ray.create_ray_cluster(
        cluster, namespace, "deleted", ft=False, workers=0, ray_version=chaos_run.settings.versions.ray,
        image=catalogue.ray_image(chaos_run.settings.versions.ray),
    )  # fmt: skip
    monkeypatch.setattr(delete_cluster, "_SEEN_SECONDS", 3.0)
    with pytest.raises(NoEffect), inject(DeleteCluster(namespace, "deleted", "00000000-0000-0000-0000-000000000000")):
        pass
    assert "deletionTimestamp" not in handle.get(cluster)["metadata"]
    with inject(DeleteCluster.of(handle.get(cluster))):
        until(lambda: handle.get(cluster) is None, what="the end of the RayCluster", deadline=30)


def test_the_next_head_is_kept_from_redis(chaos_run, cluster, inject, namespace):
    handle = ray.create_ray_cluster(
        cluster, namespace, "shut-out", ft=False, workers=0, ray_version=chaos_run.settings.versions.ray,
        image=catalogue.ray_image(chaos_run.settings.versions.ray),
    )  # fmt: skip

    def another_than(uid):
        pod = handle.head_pod(cluster)
        return pod if pod and pod["metadata"]["uid"] != uid else None

    def known():
        pod = handle.head_pod(cluster)
        return pod if pod and ray.is_known(handle.get(cluster), pod) else None

    def replaced():
        old = until(known, what="a head that the operator has seen", deadline=60)["metadata"]
        cluster.delete("pods", namespace, old["name"], uid=old["uid"], grace=0)
        return until(lambda: another_than(old["uid"]), what="another head", deadline=30)["metadata"]["labels"]

    assert redis.CLIENT_LABEL in replaced()
    # It may make one more from the template as it was.
    with inject(ShutOut.of(handle.get(cluster))):
        until(lambda: redis.CLIENT_LABEL not in replaced(), what="a head without the label", deadline=60)
    until(lambda: redis.CLIENT_LABEL in replaced(), what="a head with the label", deadline=60)
    cluster.delete("rayclusters", namespace, "shut-out")
