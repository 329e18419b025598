"""The head can't get to Redis: wrong address, wrong password, a policy in the way, or more than one shard.

What Ray's client says tells the password, the shards and a name that doesn't exist. That a connection was not made is
said alike for a wrong port, a policy and a server that is down, so the objects decide: is there such a Service, with
that port, with ready pods, and do the network policies let the head's labels through?
"""

from __future__ import annotations

import re
from dataclasses import replace

from chaos.diagnose.case import Case, Cause, Line
from chaos.estate import policies
from chaos.estate.redis import Redis
from chaos.estate.resource import Place, Resource, at
from chaos.history.objects import is_ready

_PASSWORD = re.compile(
    r"WRONGPASS|NOAUTH|invalid username-password|ERR invalid password|without any password configured"
    # Without a password Ray's first question is refused, and it says no more than this.
    r"|Failed to get Redis cluster info"
)
_SHARDS = re.compile(
    r"doesn't support Redis Cluster with more than one shard|only one primary behind the Redis sentinel"
    # Sometimes Ray doesn't see it when it connects, and is sent elsewhere by the first command that is another shard's.
    r"|failed due to error MOVED \d+"
)
_NO_NAME = re.compile(r"Failed to resolve DNS for|Name or service not known|Temporary failure in name resolution")
_NO_CONNECTION = re.compile(
    r"Could not establish connection to Redis|attempts to connect have all failed|Failed to get Redis info"
    r"|Timed out waiting for Redis auth reply|Protocol error, got"
)
# What `ray start` says once it got through to Redis.
_GOT_THROUGH = re.compile(r"session key from storage|Ray runtime started")
_ANY = re.compile("|".join(p.pattern for p in (_PASSWORD, _SHARDS, _NO_NAME, _NO_CONNECTION)))


def redis_access(case: Case) -> Cause | None:
    """The cause, or None: it is looked for only while no head is ready, or when a clean-up Job failed."""
    heads = [] if case.head_ready else [head for head in case.heads if not _got_through(case, head)]
    failed = [*heads, *(pod for pod in case.cleaners if pod.get("status", "phase") != "Succeeded")]
    said = case.lines(failed, _ANY, most=3)
    if not said or case.redis is None:
        return None
    loops = [place for _, place in case.lost(case.heads)][:1]
    for decide in (_password, _shards, _address, _policy, _down):
        if (cause := decide(case, case.redis, said)) is not None:
            return replace(cause, evidence=(*cause.evidence, *loops))
    return Cause(
        "redis-unreachable",
        "Redis can't be reached",
        f"nothing answers at {case.redis.address.text}, and the objects don't tell why",
        (case.redis.address.place, said[-1].place, *loops),
        "try it from a pod with the head's labels; look at egress rules and firewalls outside of Kubernetes",
    )


def _got_through(case: Case, head: Resource) -> bool:
    """Whether the head's present run reached Redis, whatever it or an earlier one said before.

    Of more than one shard that shows nothing: what a head asks first may be the right one's.
    """
    if case.lines([head], _SHARDS):
        return False
    runs = case.snapshot.log(head).items()
    return any(_GOT_THROUGH.search(_ANY.split(text)[-1]) for of, text in runs if not of.previous)


def _last(said: list[Line], pattern: re.Pattern[str]) -> list[Place]:
    return [line.place for line in said if pattern.search(line.text)][-1:]


def _password(case: Case, found: Redis, said: list[Line]) -> Cause | None:
    lines = _last(said, _PASSWORD)
    if not lines:
        return None
    kind, place = case.cluster.password
    given = "Ray gives none" if kind == "none" else "what Ray gives is refused"
    return Cause(
        "redis-password",
        "The password for Redis is wrong",
        f"Redis at {found.address.text}: {given}",
        (*lines, place),
        "make redisPassword, or its Secret, the one that Redis and its Sentinels have (Ray knows one for both), "
        "without a line break at its end; then delete the head's pod",
    )


def _shards(case: Case, found: Redis, said: list[Line]) -> Cause | None:
    lines = _last(said, _SHARDS)
    if not lines:
        return None
    return Cause(
        "redis-shards",
        "Redis has more than one shard",
        f"Ray refuses the Redis at {found.address.text}",
        (*lines, found.address.place),
        "use one primary with replicas and Sentinel, or a Redis Cluster of exactly one shard",
    )


def _address(case: Case, found: Redis, said: list[Line]) -> Cause | None:
    """No such Service, no such port, or a name that nobody knows."""
    address = found.address
    lines = _last(said, _NO_NAME) or _last(said, _NO_CONNECTION)
    if address.service is None:
        # A host outside of the cluster: only that its name is unknown shows that the address is wrong.
        wrong = "its name can't be resolved" if _last(said, _NO_NAME) else ""
    elif found.service is None and case.estate.knows("Service"):
        wrong = f"there is no Service {address.namespace}/{address.service}"
    elif found.service is not None and not _has_port(found):
        wrong = f"nothing listens on port {address.port} of {found.service}"
    else:
        wrong = ""
    if not wrong:
        return None
    return Cause(
        "redis-address",
        "The address of Redis is wrong",
        f"{address.text}: {wrong}",
        (address.place, *lines),
        "correct redisAddress (HOST:PORT; a Sentinel's port is fine), and delete the head's pod",
    )


def _has_port(found: Redis) -> bool:
    assert found.service is not None
    ports = {port.get("port") for port in found.service.get("spec", "ports") or []}
    if found.service.get("spec", "clusterIP") == "None":
        # A headless Service leads to the pods, whatever ports it lists.
        template = found.workload.get("spec", "template", "spec", "containers") if found.workload else None
        listed = {port.get("containerPort") for c in template or [] for port in at(c, "ports") or []}
        return not listed or found.address.port in listed | ports
    return found.address.port in ports


def _policy(case: Case, found: Redis, said: list[Line]) -> Cause | None:
    lines = _last(said, _NO_CONNECTION)
    if not lines or found.end is None:
        return None
    target = replace(found.end, namespace_labels=case.estate.namespace_labels(found.end.namespace))
    every = list(case.estate.of("NetworkPolicy"))
    for pod in [*case.heads, *case.cleaners]:
        source = policies.End(pod.namespace, pod.labels, case.estate.namespace_labels(pod.namespace))
        if policies.admitted(every, source, target, found.pod_port) is not False:
            continue
        into = policies.selecting(every, target, "Ingress")
        out = policies.selecting(every, source, "Egress")
        return Cause(
            "redis-policy",
            "A network policy is in the way to Redis",
            f"the policies don't let {pod} through to {found.address.text}",
            (
                *lines,
                *(p.place("spec", shows=f"selects Redis' pods ({found.workload})") for p in into),
                *(p.place("spec", shows=f"selects {pod}") for p in out),
                pod.place("metadata", "labels"),
            ),
            "allow a label of the head's template on Redis' port, from its namespace",
        )
    return None


def _down(case: Case, found: Redis, said: list[Line]) -> Cause | None:
    if found.service is None or any(is_ready(pod.obj) for pod in case.redis_pods):
        return None
    places = [pod.place("status", "phase") for pod in case.redis_pods] or [
        found.service.place("spec", "selector", shows="selects no pod")
    ]
    return Cause(
        "redis-down",
        "Redis is down",
        f"no pod behind {found.address.text} is ready",
        (*_last(said, _ANY), *places),
        "bring Redis back; the head tries again by itself",
    )
