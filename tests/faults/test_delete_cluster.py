"""A RayCluster is deleted by its UID, and a namesake with another one is not."""

import pytest

from chaos.errors import NoEffect
from chaos.faults import delete_cluster
from chaos.faults.delete_cluster import DeleteCluster
from chaos.stack import ray
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
