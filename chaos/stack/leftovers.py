"""What a tear-down could not remove, each with the command that does.

A Ray cluster with GCS fault tolerance keeps its tables in Redis, in hashes named ``RAY<uid of the RayCluster>@<table>``.
KubeRay's clean-up deletes them before it lets the object go; where Redis does not answer it fails, the object goes all the
same, and the keys stay.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from chaos.stack import redis
from chaos.stack.cluster import Cluster, Object

# The replicas refuse to delete, so the first line tells whether this is the primary. The password is in the environment.
_SCAN = "timeout 10 redis-cli role | head -n 1; timeout 10 redis-cli --scan --pattern 'RAY*@*'"
_UNLINK = 'redis-cli --scan --pattern "RAY$0@*" | xargs -r redis-cli unlink'
_STORAGE = re.compile(r"RAY([0-9a-f-]{36})@")
_EXEC_SECONDS = 25.0


@dataclass(frozen=True)
class Leftover:
    """Something that stays; ``remove`` is the command line that removes it."""

    what: str
    remove: str

    def __str__(self) -> str:
        return f"still there: {self.what}; it is removed by: {self.remove}"


def held_object(cluster: Cluster, resource: str, item: Object) -> Leftover:
    """An object that is being deleted and doesn't go."""
    metadata = item["metadata"]
    holders = metadata.get("finalizers") or []
    what = f"{resource}/{metadata['name']} in {metadata['namespace']} (held by {', '.join(holders) or 'nothing'})"
    where = [f"--namespace={metadata['namespace']}", resource, metadata["name"]]
    if holders:
        # What the finalizers stand for is then not done: a Ray cluster's keys stay in Redis.
        patch = ["patch", *where, "--type=merge", '--patch={"metadata":{"finalizers":null}}']
        return Leftover(what, _kubectl(cluster, patch))
    return Leftover(what, _kubectl(cluster, ["delete", *where]))


def namespace(cluster: Cluster, name: str, why: str = "") -> Leftover:
    """A namespace that doesn't go; ``why`` is what is known of the reason."""
    found = f"namespaces/{name}" + (f" ({why})" if why else "")
    return Leftover(found, _kubectl(cluster, ["delete", "namespace", name]))


def terminating(cluster: Cluster, item: Object) -> Leftover:
    """A namespace that is being deleted and doesn't go, with what Kubernetes says of it."""
    name = item["metadata"]["name"]
    conditions = item.get("status", {}).get("conditions") or []
    why = "; ".join(c["message"] for c in conditions if c["status"] == "True")
    force = ["delete", "pods", "--all", f"--namespace={name}", "--force", "--grace-period=0"]
    return Leftover(f"namespaces/{name} ({why or 'being deleted'})", _kubectl(cluster, force))


def keys(cluster: Cluster) -> list[Leftover]:
    """The tables in Redis of Ray clusters that are no more; also when Redis doesn't tell."""
    alive = _uids(cluster)
    for member in redis.MEMBERS:
        asked = cluster.exec(
            redis.NAMESPACE, member, ["sh", "-c", _SCAN], container=redis.CONTAINER, timeout=_EXEC_SECONDS
        )
        role, _, found = asked.text.partition("\n")
        if asked.ok and role.strip() == "master":
            break
    else:
        command = cluster.exec_command(
            redis.NAMESPACE, redis.MEMBERS[0], ["redis-cli", "--scan", "--pattern", "RAY*@*"], container=redis.CONTAINER
        )
        return [Leftover("perhaps keys in Redis, which has no primary that answers (this lists them)", _line(command))]
    # One that went meanwhile had its keys when they were listed, and one that came had none when clusters were.
    dead = sorted(set(_STORAGE.findall(found)) - alive - _uids(cluster))
    return [
        Leftover(
            f"keys in Redis of the Ray cluster {uid}, which is no more",
            _line(cluster.exec_command(redis.NAMESPACE, member, ["sh", "-c", _UNLINK, uid], container=redis.CONTAINER)),
        )
        for uid in dead
    ]


def _uids(cluster: Cluster) -> set[str]:
    return {item["metadata"]["uid"] for item in cluster.list("rayclusters")}


def _kubectl(cluster: Cluster, argv: list[str]) -> str:
    return _line(cluster.kubectl_command(argv))


def _line(command: list[str]) -> str:
    return shlex.join(command)
