"""Redis for GCS fault tolerance: three members with a Sentinel each, of which any two do (``manifests/redis-ha.yaml``).

The password is generated here, once a cluster, and lives in Secrets only. Commands find it in the container's
environment (``REDISCLI_AUTH``), so it is on no command line, neither ours nor one in a pod.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from chaos import paths
from chaos.errors import NoSteadyState, StackError
from chaos.stack.cluster import ApiError, Cluster, Object
from chaos.stack.manifest import render
from chaos.waiting import until

NAMESPACE = "kuberay-chaos-redis"
SECRET = "redis-auth"  # noqa: S105 - the name of a Secret, not a password
SENTINEL_ADDRESS = f"sentinel.{NAMESPACE}.svc.cluster.local:26379"
CLIENT_LABEL = "kuberay-chaos/redis-client"  # of pods that the network policies let through
SERVICE_NAME = "ray"  # what the Sentinels call the one shard
MEMBERS = ("redis-0", "redis-1", "redis-2")
CONTAINER = "redis"  # the one of a member's pod in which the server runs
# Any pod with a shell serves to probe the network from: namespace, pod, container.
PROBE_POD = (NAMESPACE, MEMBERS[0], CONTAINER)

# Volumes are made by helper pods (~10 s), members join within 20 s and are ready a probe later; doubled for a
# busy machine.
_START_SECONDS = 120.0
# A Sentinel needs 2 s to call a primary dead, elections repeat after 4 s, and a member that joins waits up to 20 s.
_AGREE_SECONDS = 60.0

# Both servers of a pod are asked in one go, from the Sentinel's container: the pod's containers share an address.
_RULE = "-----"
_QUESTIONS = f"""
timeout 3 redis-cli info replication
echo {_RULE}
timeout 3 redis-cli -p 26379 sentinel master {SERVICE_NAME}
"""
_EXEC_SECONDS = 10.0


@dataclass(frozen=True)
class Member:
    """One pod of the Redis stack, as it answers for itself; None where it doesn't answer.

    ``in_sync`` counts the replicas that a primary sees online; for a replica it is None. ``names`` is the address that
    the pod's Sentinel takes for the primary's, ``epoch`` the election which that is from.
    """

    pod: str
    address: str | None
    role: str | None
    in_sync: int | None
    names: str | None
    epoch: int | None


@dataclass(frozen=True)
class RedisHealth:
    """What all members say at one moment."""

    members: tuple[Member, ...]

    @property
    def primary(self) -> Member | None:
        """The member that all Sentinels name, if they agree and it is a primary."""
        named = {member.names for member in self.members}
        if len(named) != 1 or None in named:
            return None
        return next((m for m in self.members if m.address in named and m.role == "master"), None)

    @property
    def disagreement(self) -> str:
        """What keeps the stack from being whole, in words; empty when nothing does."""
        views = ", ".join(f"{m.pod} says {m.names or 'nothing'}" for m in self.members)
        if self.primary is None:
            return f"no primary that all Sentinels name and that answers as one: {views}"
        if self.primary.in_sync != len(self.members) - 1:
            return f"{self.primary.pod} is the primary with {self.primary.in_sync} replicas in sync"
        return ""


def install(cluster: Cluster, image: str) -> None:
    """Writes what the Redis stack consists of, or brings it to the manifest's form, and waits for no pod."""
    namespace, *rest = render(paths.manifests() / "redis-ha.yaml", {"IMAGE": image})
    cluster.apply([namespace])
    try:
        cluster.create("secrets", NAMESPACE, _secret(NAMESPACE, new_password()))
    except ApiError as error:
        if error.status != 409:  # it exists: the members' data and all copies depend on it
            raise
    cluster.apply(rest)


def wait_whole(cluster: Cluster) -> None:
    """Waits until every member runs and all agree who leads. Raises `StackError`."""
    cluster.wait_rolled_out("statefulsets", NAMESPACE, "redis", _START_SECONDS)
    wait_agreed(cluster)


def ensure_single(cluster: Cluster, namespace: str, image: str) -> str:
    """Installs the single Redis without persistence into a namespace that is ours; its address for Ray."""
    return _ensure_small(cluster, namespace, "redis-single", image)


def ensure_sharded(cluster: Cluster, namespace: str, image: str) -> str:
    """Installs the Redis Cluster of two shards into a namespace that is ours; its address for Ray."""
    return _ensure_small(cluster, namespace, "redis-sharded", image)


def _ensure_small(cluster: Cluster, namespace: str, name: str, image: str) -> str:
    copy_secret(cluster, namespace)
    cluster.apply(render(paths.manifests() / f"{name}.yaml", {"IMAGE": image, "NAMESPACE": namespace}))
    cluster.wait_rolled_out("statefulsets", namespace, name, _START_SECONDS)
    return f"{name}.{namespace}.svc.cluster.local:6379"


def copy_secret(cluster: Cluster, namespace: str) -> None:
    """Gives a namespace the password of the Redis stack. Raises `StackError` when there is none."""
    found = cluster.get("secrets", NAMESPACE, SECRET)
    if found is None:
        raise StackError(f"there is no Secret {NAMESPACE}/{SECRET}", fix="stand the stack up first")
    copy: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": namespace}}
    cluster.apply([copy | {"type": "Opaque", "data": found["data"]}])


def put_secret(cluster: Cluster, namespace: str, password: str) -> None:
    """Gives a namespace a password of its own; one that it has already stays."""
    if cluster.get("secrets", namespace, SECRET) is None:
        cluster.create("secrets", namespace, _secret(namespace, password))


def new_password() -> str:
    return secrets.token_urlsafe(32)


def passwords(cluster: Cluster) -> list[str]:
    """What must never reach a history, a log or a report; as it is and as Kubernetes encodes it."""
    found = cluster.get("secrets", NAMESPACE, SECRET)
    encoded = str(found["data"]["password"]) if found else ""
    return spellings(base64.b64decode(encoded).decode()) if encoded else []


def spellings(password: str) -> list[str]:
    """A password as it is and as Kubernetes encodes it."""
    return [password, base64.b64encode(password.encode()).decode()]


def pods(cluster: Cluster) -> list[Object]:
    """The members' pods."""
    return cluster.list("pods", NAMESPACE, "app.kubernetes.io/name=redis-ha")


def health(cluster: Cluster) -> RedisHealth:
    """Asks every member at once. A member that is down or stalled is part of the answer, never an error."""
    with ThreadPoolExecutor(len(MEMBERS)) as pool:
        return RedisHealth(tuple(pool.map(lambda pod: _member(cluster, pod), MEMBERS)))


def assert_agreed(cluster: Cluster) -> RedisHealth:
    """The stack's health, if all Sentinels name one primary that answers with both replicas in sync.

    Raises `NoSteadyState`: a fault in a stack that wasn't whole shows nothing.
    """
    seen = health(cluster)
    if seen.disagreement:
        raise NoSteadyState(f"Redis: {seen.disagreement}")
    return seen


def wait_agreed(cluster: Cluster, seconds: float = _AGREE_SECONDS) -> RedisHealth:
    """Waits until `assert_agreed` would pass. Raises `StackError`."""

    def agreed() -> RedisHealth:
        seen = health(cluster)
        if seen.disagreement:
            raise StackError(seen.disagreement)
        return seen

    return until(agreed, what="Redis and its Sentinels agree", deadline=seconds, error=StackError)


def _secret(namespace: str, password: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace},
        "type": "Opaque",
        "stringData": {"password": password},
    }


def _member(cluster: Cluster, pod: str) -> Member:
    found = cluster.get("pods", NAMESPACE, pod)
    executed = cluster.exec(NAMESPACE, pod, ["sh", "-c", _QUESTIONS], container="sentinel", timeout=_EXEC_SECONDS)
    replication, _, sentinel = executed.text.replace("\r", "").partition(f"{_RULE}\n")
    info = dict(line.split(":", 1) for line in replication.splitlines() if ":" in line)
    words = sentinel.splitlines()
    view = dict(zip(words[::2], words[1::2], strict=False))
    return Member(
        pod=pod,
        address=found["status"].get("podIP") if found else None,
        role=info.get("role"),
        in_sync=_in_sync(info) if info.get("role") == "master" else None,
        names=view.get("ip"),
        epoch=int(view["config-epoch"]) if "config-epoch" in view else None,
    )


def _in_sync(info: Mapping[str, str]) -> int:
    """How many replicas a primary's ``INFO replication`` lists as online."""
    return sum(key.startswith("slave") and "state=online" in value for key, value in info.items())
