"""Redis asks for a password, and Ray takes it from a Secret."""

from __future__ import annotations

from chaos.audit.item import Answer, Inputs, Item, broken, holds, on_redis, unknown
from chaos.estate import redis
from chaos.estate.raycluster import Password, RayCluster
from chaos.estate.resource import Place

_BY_REFERENCE = "take the password from a Secret (redisPassword.valueFrom.secretKeyRef)"


def judge(cluster: RayCluster, inputs: Inputs) -> Answer:
    """The client's side, then the server's."""
    kind, place = cluster.password
    if kind is Password.NONE:
        return broken("Ray presents no password to Redis", place, fix=f"set requirepass in Redis and {_BY_REFERENCE}")
    if kind is Password.PLAIN:
        return broken("the password is in clear text in the manifest", place, fix=f"{_BY_REFERENCE}, and change it")
    return _server(cluster, inputs, place)


def _server(cluster: RayCluster, inputs: Inputs, place: Place) -> Answer:
    said = (inputs.redis or {}).get(str(cluster), {})
    if "open" in said:
        if said["open"]:
            return broken("Redis answers without a password", place, fix="set requirepass in Redis")
        return holds("an unauthenticated client is refused", place)
    found = redis.find(cluster, inputs.estate)
    if found is None or found.workload is None:
        return unknown(
            "Ray presents a password, but whether Redis asks for one can't be seen",
            place,
            fix="include Redis' manifests, or audit the live cluster with --redis",
        )
    if not found.asks_password:
        return broken(
            "nothing in Redis' set-up makes it ask for a password",
            found.workload.place("spec", "template", "spec", "containers", 0, shows="no requirepass, ACL or password"),
            fix="set requirepass, or an ACL file, from the same Secret",
        )
    return holds("Redis asks for a password, and Ray takes it from a Secret", place)


ITEM = Item("redis-auth", "Redis needs authentication", judge, on_redis)
