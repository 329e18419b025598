"""Every Ray cluster has a key namespace of its own in Redis.

By default it is the RayCluster's UID. One that was chosen by hand must be no other cluster's: two clusters would read
each other's metadata, and deleting one deletes the other's. A RayService runs two clusters during an upgrade.
"""

from __future__ import annotations

from chaos.audit.item import Answer, Inputs, Item, broken, holds, on_redis
from chaos.estate.raycluster import RayCluster

_FIX = "leave externalStorageNamespace out, so that it is the RayCluster's UID, or choose one for each cluster"


def judge(cluster: RayCluster, inputs: Inputs) -> Answer:
    """The namespace against those of the other clusters on the same Redis."""
    own = cluster.storage_namespace
    if own is None:
        return holds("the key namespace is the RayCluster's UID", cluster.form_place)
    name, place = own
    if cluster.resource.kind == "RayService":
        return broken("during an upgrade of the RayService two clusters share one key namespace", place, fix=_FIX)
    for other in inputs.clusters:
        theirs = other.storage_namespace
        if other is cluster or theirs is None or theirs[0] != name:
            continue
        if _host(other) == _host(cluster):
            return broken(f"{other} has the same key namespace {name!r} on the same Redis", place, theirs[1], fix=_FIX)
    return holds(f"the key namespace {name!r} is its own", place)


def _host(cluster: RayCluster) -> tuple[str, str, int] | None:
    address = cluster.address
    if address is None:
        return None
    return address.namespace or "", address.service or address.host, address.port


ITEM = Item("key-namespace", "The cluster has a key namespace of its own", judge, on_redis)
