"""GCS fault tolerance is asked for, in a form that the operator takes, by versions that have it, on a Redis of one shard.

An operator, or a CRD, from before 1.3 knows no ``gcsFaultToleranceOptions``: the API server drops the field in silence,
and the cluster runs without fault tolerance although its manifest asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from chaos.audit.item import Answer, Inputs, Item, always, broken, holds, together, unknown
from chaos.estate import redis
from chaos.estate.raycluster import OPTIONS, Form, RayCluster

_KUBERAY = Version("1.3")
_KUBERAY_EMBEDDED = Version("1.7")
_RAY = Version("2.0")
_RAY_USERNAME = Version("2.41")


def judge(cluster: RayCluster, inputs: Inputs) -> Answer:
    """Versions, form and shards."""
    return together(_parts(cluster, inputs))


def _parts(cluster: RayCluster, inputs: Inputs) -> Iterator[Answer]:
    yield _asked_for(cluster)
    yield _kuberay(cluster, inputs)
    yield _ray(cluster)
    if cluster.form is not Form.NONE and not cluster.embedded:
        yield _one_shard(cluster, inputs)


def _asked_for(cluster: RayCluster) -> Answer:
    if cluster.pruned:
        return broken(
            f"{OPTIONS} was applied and pruned in silence: the cluster runs without fault tolerance",
            cluster.pruned,
            fix="upgrade the CRDs and then the operator to KubeRay 1.3 or newer, and apply the manifest again",
        )
    if cluster.form is Form.NONE:
        return broken(
            "GCS fault tolerance isn't asked for: a head loss costs every worker",
            cluster.form_place,
            fix=f"set {OPTIONS} with redisAddress and redisPassword",
        )
    if cluster.form is Form.ADDRESS_ONLY:
        return broken(
            "RAY_REDIS_ADDRESS alone: KubeRay 1.3 and newer refuse the cluster, older ones give workers no longer time-out",
            cluster.form_place,
            fix=f"set {OPTIONS} instead",
        )
    return holds(f"fault tolerance is asked for by {cluster.form}", cluster.form_place)


def _kuberay(cluster: RayCluster, inputs: Inputs) -> Answer:
    if cluster.form is Form.OPTIONS and (place := inputs.estate.crd_prunes_options):
        return broken(
            f"the RayCluster CRD is older than KubeRay 1.3, so {OPTIONS} is pruned in silence",
            place,
            fix="replace the CRDs by those of the operator's version (Helm doesn't upgrade them), and apply again",
        )
    known = inputs.estate.operator_version
    if known is None:
        return unknown(
            "KubeRay's version can't be seen",
            fix="include the operator's Deployment, or say it with --kuberay VERSION",
        )
    needed = _KUBERAY_EMBEDDED if cluster.embedded else _KUBERAY
    if known.version >= needed:
        return holds(f"KubeRay {known.version}", known.place)
    silent = f", so {OPTIONS} is pruned in silence and the cluster runs without fault tolerance"
    return broken(
        f"KubeRay {known.version} is older than {needed}" + (silent if cluster.form is Form.OPTIONS else ""),
        known.place,
        fix=f"upgrade the CRDs and then the operator to {needed} or newer",
    )


def _ray(cluster: RayCluster) -> Answer:
    known = cluster.ray_version
    if known is None:
        return unknown("Ray's version can't be seen", cluster.place("rayVersion"), fix="set rayVersion")
    needed = _RAY_USERNAME if cluster.get(OPTIONS, "redisUsername") else _RAY
    if known.version < needed:
        reason = "which a user name for Redis needs" if needed is _RAY_USERNAME else "which fault tolerance needs"
        return broken(
            f"Ray {known.version} is older than {needed}, {reason}", known.place, fix=f"use Ray {needed} or newer"
        )
    return holds(f"Ray {known.version}", known.place)


def _one_shard(cluster: RayCluster, inputs: Inputs) -> Answer:
    if inputs.redis is not None and (said := inputs.redis.get(str(cluster), {})).get("shards"):
        place = cluster.address.place if cluster.address else cluster.form_place
        if said["shards"] > 1:
            return broken(f"Redis has {said['shards']} shards; Ray refuses more than one", place, fix="use one shard")
        return holds("Redis has one shard", place)
    found = redis.find(cluster, inputs.estate)
    if found is None:
        return unknown("Redis' address can't be seen", cluster.form_place, fix="set the address as a plain value")
    if found.workload is None:
        return unknown(
            f"the Redis at {found.address.text} isn't among the objects, so its shards can't be counted",
            found.address.place,
            fix="include its manifests, or audit the live cluster with --redis",
        )
    if found.sharded:
        return broken(
            "Redis runs in cluster mode, whose data is spread over several shards; Ray refuses more than one",
            found.workload.place("spec", "template", "spec", shows="cluster-enabled yes"),
            fix="use one primary with replicas and Sentinel, or a cluster of exactly one shard",
        )
    return holds("Redis has one shard", found.address.place)


ITEM = Item("ft-requirements", "KubeRay, Ray and Redis meet what GCS fault tolerance needs", judge, always)
