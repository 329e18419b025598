"""The loss of a single or non-persistent Redis took the Ray cluster with it.

Named when such a Redis was lost (its pod is away, was restarted, or is younger than the Ray cluster) and the Ray
cluster shows it: the head's GCS gave up on Redis, or the workers met a GCS that had forgotten them.
"""

from __future__ import annotations

import re

from chaos.diagnose.case import Case, Cause
from chaos.estate.redis import Persistence, Redis
from chaos.estate.resource import Place
from chaos.history.objects import epoch, is_ready, restart_count

_GAVE_UP = re.compile(
    r"Failed to run redis cmds|Redis is disconnected|Redis connection unavailable|Could not establish connection to Redis"
    r"|Failed to resolve DNS for"
)
_FORGOTTEN = re.compile(r"GCS returned an authentication error|WrongClusterID|data loss in the DB", re.IGNORECASE)


def redis_single_point(case: Case) -> Cause | None:
    """The cause, or None."""
    found = case.redis
    if found is None or found.workload is None or not case.ft_effective:
        return None
    weak = _weakness(found)
    lost = _lost(case)
    if not weak or not lost:
        return None
    suffered = [line.place for line in case.lines(case.heads, _GAVE_UP, most=1)]
    suffered += [line.place for line in case.lines(case.workers, _FORGOTTEN, most=1)]
    if not suffered:
        return None
    return Cause(
        "redis-single-point",
        "Redis is the single point of failure",
        f"{found.workload} {weak}, and was lost",
        (*lost[:2], *suffered[:3], found.workload.place("spec", "replicas", shows=f"{found.replicas}")),
        "run a primary with replicas and Sentinel on different nodes, each with a volume and appendonly yes",
    )


def _weakness(found: Redis) -> str:
    if found.replicas < 2:
        return "is a single server" + ("" if found.persistence is Persistence.LOG else " that doesn't keep its data")
    if found.persistence in (Persistence.NO_VOLUME, Persistence.OFF) and not found.replicated:
        return "doesn't keep its data"
    return ""


def _lost(case: Case) -> list[Place]:
    """Signs that Redis itself was away."""
    assert case.redis is not None
    if not case.redis_pods and case.redis.service is not None:
        return [case.redis.service.place("spec", "selector", shows="selects no pod")]
    places: list[Place] = []
    born = epoch(str(case.cluster.resource.metadata["creationTimestamp"]))
    for pod in case.redis_pods:
        made = pod.metadata.get("creationTimestamp")
        if not is_ready(pod.obj):
            places.append(pod.place("status", "phase", shows=f"{pod.get('status', 'phase')}, not ready"))
        elif restart_count(pod.obj):
            places.append(pod.place("status", "containerStatuses", shows=f"restarted {restart_count(pod.obj)} times"))
        elif made and epoch(str(made)) > born:
            places.append(pod.place("metadata", "creationTimestamp", shows=f"made at {made}, after the Ray cluster"))
    return places
