"""Redis holds no keys of clusters that are gone. Asked only with ``--redis``."""

from __future__ import annotations

from chaos.audit.item import Answer, Inputs, Item, broken, holds, on_redis, unknown
from chaos.estate.raycluster import RayCluster


def judge(cluster: RayCluster, inputs: Inputs) -> Answer:
    """The namespaces that have keys, less those of the clusters that live."""
    said = (inputs.redis or {}).get(str(cluster), {})
    place = cluster.address.place if cluster.address else cluster.form_place
    if "namespaces" not in said:
        return unknown(
            f"Redis could not be asked: {said.get('error', 'no answer')}",
            place,
            fix="see that the head runs, and try again",
        )
    living = set()
    for other in inputs.clusters:
        chosen = other.storage_namespace
        living.add(chosen[0] if chosen else str(other.resource.metadata.get("uid", "")))
    orphans = {name: count for name, count in said["namespaces"].items() if name not in living}
    if not orphans:
        return holds("every key belongs to a cluster that lives", place)
    listed = ", ".join(f"{name} ({count} keys)" for name, count in sorted(orphans.items()))
    return broken(
        f"keys of clusters that aren't here: {listed}",
        place,
        fix="see that no cluster elsewhere uses this Redis; then remove each with redis-cli --scan --pattern 'RAYNAME@*' "
        "| xargs redis-cli unlink, NAME being the namespace",
    )


def _asked(cluster: RayCluster, inputs: Inputs) -> bool:
    return inputs.redis is not None and on_redis(cluster, inputs)


ITEM = Item("leftover-keys", "Redis holds no keys of clusters that are gone", judge, _asked)
