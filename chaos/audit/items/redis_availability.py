"""Redis is neither single nor non-persistent: otherwise it is the single point of failure that the head was before."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.audit.item import Answer, Inputs, Item, broken, holds, on_redis, together, unknown
from chaos.estate import redis
from chaos.estate.raycluster import RayCluster
from chaos.estate.redis import Persistence

_FIX_SINGLE = "run a primary with two replicas and Sentinel, on different nodes, or use a managed service with replicas"
_FIX_DATA = "give each member a volume and set appendonly yes"


def judge(cluster: RayCluster, inputs: Inputs) -> Answer:
    """Members and persistence: as Redis says where it was asked, else as it is set up."""
    found = redis.find(cluster, inputs.estate)
    if found is None:
        return unknown("Redis' address can't be seen", cluster.form_place, fix="set the address as a plain value")
    said = (inputs.redis or {}).get(str(cluster), {})
    if "replicas" in said:
        return together(_as_it_says(said, found))
    if found.workload is None:
        if found.address.service and inputs.estate.knows("Service") and found.service is None:
            return broken(
                f"there is no Service for {found.address.text}", found.address.place, fix="correct the address"
            )
        return unknown(
            f"the Redis at {found.address.text} isn't among the objects",
            found.address.place,
            fix="include its manifests, or audit the live cluster with --redis",
        )
    return together(_as_set_up(found))


def _as_it_says(said: dict[str, object] | object, found: redis.Redis) -> Iterator[Answer]:
    assert isinstance(said, dict)
    place = found.address.place
    if said["replicas"]:
        yield holds(f"the primary has {said['replicas']} replicas", place)
    else:
        yield broken("Redis says that it has no replica", place, fix=_FIX_SINGLE)
    if said.get("aof") or said.get("snapshots"):
        yield holds("Redis keeps its data", place)
    else:
        yield broken("Redis says that it neither appends to a file nor takes snapshots", place, fix=_FIX_DATA)
    if found.workload is not None and found.persistence is Persistence.NO_VOLUME:
        yield _data(found)


def _as_set_up(found: redis.Redis) -> Iterator[Answer]:
    assert found.workload is not None
    replicas = found.workload.place("spec", "replicas", shows=f"{found.replicas}")
    if found.replicas < 2:
        yield broken("Redis is a single server", replicas, fix=_FIX_SINGLE)
    elif found.replicated:
        yield holds(f"Redis has {found.replicas} members that replicate", replicas)
    else:
        yield unknown(
            f"Redis has {found.replicas} servers, and nothing tells that they replicate each other",
            replicas,
            fix="show its configuration too, or audit the live cluster with --redis",
        )
    yield _data(found)


def _data(found: redis.Redis) -> Answer:
    assert found.workload is not None
    place = found.workload.place("spec", "template", "spec", "volumes", shows=str(found.persistence))
    match found.persistence:
        case Persistence.LOG:
            return holds("its data is appended to a file on a volume", place)
        case Persistence.NO_VOLUME:
            return broken("its data is lost with the pod: there is no volume", place, fix=_FIX_DATA)
        case Persistence.OFF:
            return broken("its persistence is turned off", place, fix=_FIX_DATA)
        case _:
            return unknown(
                "no append-only file is seen: snapshots, the default, lose what came after the last one",
                place,
                fix="set appendonly yes, or audit the live cluster with --redis",
            )


ITEM = Item("redis-availability", "Redis is neither single nor non-persistent", judge, on_redis)
