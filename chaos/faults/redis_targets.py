"""Faults on the stack's Redis by role: which pod has it, and whom that pod talks to.

Roles move, so each function asks the Sentinels first and raises NoSteadyState when they don't agree.
"""

from __future__ import annotations

from chaos.faults.kill_process import KillProcess
from chaos.faults.partition import Mode, Partition
from chaos.faults.redis_member import CONTAINER
from chaos.faults.stop_process import StopProcess
from chaos.stack import redis
from chaos.stack.cluster import Cluster, Object

_CLIENTS = "kuberay-chaos/redis-client=true"


def primary_and_replicas(cluster: Cluster) -> tuple[Object, list[Object]]:
    """The members' pods by role."""
    primary = redis.assert_agreed(cluster).primary
    assert primary is not None
    pods = redis.pods(cluster)
    is_primary = [pod["metadata"]["name"] == primary.pod for pod in pods]
    [found] = [pod for pod, yes in zip(pods, is_primary, strict=True) if yes]
    return found, [pod for pod, yes in zip(pods, is_primary, strict=True) if not yes]


def kill_primary(cluster: Cluster) -> KillProcess:
    """Kill the primary's server, the main process of its container; its Sentinel lives on in the same pod."""
    primary, _ = primary_and_replicas(cluster)
    return KillProcess.of(primary, CONTAINER)


def stop_primary(cluster: Cluster) -> StopProcess:
    """Stop the primary's server in its tracks; its Sentinel runs on, and connections to it hang."""
    primary, _ = primary_and_replicas(cluster)
    return StopProcess.of(primary, CONTAINER)


def isolate_primary(cluster: Cluster, *, mode: Mode = Mode.DROP) -> Partition:
    """Cut the primary off, with its Sentinel, from the other members and from all clients."""
    primary, replicas = primary_and_replicas(cluster)
    return Partition.between(primary, replicas + _clients(cluster), mode=mode)


def isolate_replica(cluster: Cluster, *, mode: Mode = Mode.DROP) -> Partition:
    """Cut one replica off, with its Sentinel, from the other members and from all clients."""
    primary, [replica, other] = primary_and_replicas(cluster)
    return Partition.between(replica, [primary, other, *_clients(cluster)], mode=mode)


def _clients(cluster: Cluster) -> list[Object]:
    """Pods of any namespace that run and may reach Redis; the address of one that ended may be another pod's by now."""
    return [pod for pod in cluster.list("pods", labels=_CLIENTS) if pod["status"]["phase"] == "Running"]
