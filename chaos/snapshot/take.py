"""Taking a snapshot of a live cluster: get and list, logs, and questions to Ray's dashboard. Nothing is written to it.

Pods come and go meanwhile: what was listed and is gone when its log is asked for becomes a note. Secrets are never
asked for. A log is read up to a limit, the end of it, which is where a container says why it died.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import urllib3

from chaos.errors import StackError
from chaos.estate import redis
from chaos.estate.estate import configmaps
from chaos.estate.raycluster import ray_clusters
from chaos.estate.resource import Object, at
from chaos.history.objects import is_ready, trim
from chaos.history.transport import Transport
from chaos.snapshot.snapshot import KINDS, LogOf, Snapshot
from chaos.stack.cluster import RESOURCES, ApiError, Cluster
from chaos.stack.forward import forwarded

LOG_LIMIT = 1_000_000  # bytes of one container's run
_LOG_LINES = 5000
_CHUNK = 1 << 18
_CONNECT, _READ = 5.0, 20.0
_DASHBOARD = 8265
_CRD = "rayclusters.ray.io"
# Asked of the whole cluster whatever namespaces are wanted: the operator and Redis usually live elsewhere.
_EVERYWHERE = {"deployments", "statefulsets", "services", "networkpolicies"}


def objects(cluster: Cluster, namespaces: Iterable[str] = ()) -> Snapshot:
    """The objects alone, of some namespaces or of all."""
    wanted = list(namespaces)
    found: dict[str, list[Object]] = {}
    missing: dict[str, str] = {}
    for resource in KINDS:
        try:
            found[resource] = [trimmed(resource, obj) for obj in _listed(cluster, resource, wanted)]
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            # 404: the cluster doesn't have this kind at all, so there is none of it.
            if error.status == 403:
                missing[resource] = "this account may not list them"
    source = f"cluster {cluster.context or cluster.name}"
    return Snapshot(source, datetime.now(UTC).isoformat(timespec="seconds"), found, missing=missing)


def whole(cluster: Cluster, namespaces: Iterable[str] = (), *, limit: int = LOG_LIMIT) -> Snapshot:
    """Objects, logs of the Ray, Redis and operator pods (of every pod, in namespaces that were named), and Ray's record."""
    wanted = list(namespaces)
    taken = objects(cluster, wanted)
    notes: list[str] = []
    logs: dict[LogOf, bytes] = {}
    transport = Transport(cluster.api)
    try:
        for pod in taken.objects.get("pods", []):
            if wanted or _matters(pod):
                _logs_of(transport, pod, limit, logs, notes)
    finally:
        transport.close()
    ray = {
        (at(c, "metadata", "namespace"), at(c, "metadata", "name")): _asked(cluster, c, taken.objects.get("pods", []))
        for c in taken.objects.get("rayclusters", [])
    }
    kept = {**taken.objects, "configmaps": _of_redis(taken)}
    return Snapshot(taken.source, taken.taken, kept, logs, ray, taken.missing, tuple(notes))


def _of_redis(taken: Snapshot) -> list[Object]:
    """The ConfigMaps that set up the Redis of some Ray cluster: nobody needs the others, and they may say a lot."""
    estate = taken.estate()
    wanted = {
        (found.workload.namespace, name)
        for cluster in ray_clusters(estate)
        if (found := redis.find(cluster, estate)) and found.workload
        for name in configmaps(found.workload.get("spec", "template", "spec") or {})
    }
    listed = taken.objects.get("configmaps", [])
    return [c for c in listed if (c["metadata"]["namespace"], c["metadata"]["name"]) in wanted]


def trimmed(resource: str, obj: Object) -> Object:
    """An object without what nobody reads. Of the CRD, the names of the RayCluster's fields are left."""
    if resource == "customresourcedefinitions":
        spec = obj["spec"]
        path = ("schema", "openAPIV3Schema", "properties", "spec", "properties")
        versions = [{"name": v["name"], "fields": sorted(at(v, *path) or {})} for v in spec["versions"]]
        return {"metadata": {"name": obj["metadata"]["name"]}, "spec": {"names": spec["names"], "versions": versions}}
    last = at(obj, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
    kept = trim(resource, obj)
    if last is not None and resource in {"rayclusters", "rayjobs", "rayservices"}:
        # What was applied and isn't in the object was pruned: the one trace that this leaves.
        kept["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = last
    return kept


def _listed(cluster: Cluster, resource: str, namespaces: list[str]) -> list[Object]:
    if resource == "customresourcedefinitions":
        crd = cluster.get(resource, None, _CRD)
        return [crd] if crd else []
    if not namespaces or resource in _EVERYWHERE or not RESOURCES[resource].namespaced:
        return cluster.list(resource)
    return [obj for namespace in namespaces for obj in cluster.list(resource, namespace)]


def _matters(pod: Object) -> bool:
    labels = at(pod, "metadata", "labels") or {}
    names = [str(c.get("image", "")) for c in at(pod, "spec", "containers") or []]
    return (
        any(key.startswith("ray.io/") for key in labels)
        or labels.get("app.kubernetes.io/created-by") == "kuberay-operator"
        or any(word in name for name in names for word in ("redis", "valkey", "kuberay"))
    )


# --- logs -----------------------------------------------------------------------------------------------------------


def _logs_of(transport: Transport, pod: Object, limit: int, logs: dict[LogOf, bytes], notes: list[str]) -> None:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    statuses = [*(at(pod, "status", "initContainerStatuses") or []), *(at(pod, "status", "containerStatuses") or [])]
    for status in statuses:
        for previous in (True, False):
            if previous and not status.get("restartCount"):
                continue
            of = LogOf(namespace, name, status["name"], previous)
            try:
                logs[of] = _log(transport, of, limit)
            except (StackError, urllib3.exceptions.HTTPError, OSError) as error:
                notes.append(f"no log of {namespace}/{name} {status['name']}{' before' if previous else ''}: {error}")


def _log(transport: Transport, of: LogOf, limit: int) -> bytes:
    path = RESOURCES["pods"].path("pods", of.namespace, of.pod) + "/log"
    query = {"container": of.container, "tailLines": str(_LOG_LINES), "timestamps": "true"}
    query |= {"previous": "true"} if of.previous else {}
    response = transport.get(path, query, connect=_CONNECT, read=_READ)
    try:
        if response.status != 200:
            raise StackError(f"{response.status} {response.read(300).decode(errors='replace')}")
        # The end counts. The server has no "last N bytes", only lines, which may be long: they are cut here.
        data, total = b"", 0
        while chunk := response.read(_CHUNK):
            total += len(chunk)
            data = (data + chunk)[-limit:]
    finally:
        response.close()
    if total <= limit:
        return data
    return f"[kuberay-chaos] cut here: only the last {limit} of {total} bytes are kept\n".encode() + data


# --- Ray ------------------------------------------------------------------------------------------------------------


def _asked(cluster: Cluster, raycluster: Object, pods: list[Object]) -> Object:
    """What Ray's dashboard says of jobs and actors, or why it says nothing."""
    namespace, name = raycluster["metadata"]["namespace"], raycluster["metadata"]["name"]
    wanted = {"ray.io/cluster": name, "ray.io/node-type": "head"}
    heads = [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == namespace
        and wanted.items() <= (pod["metadata"].get("labels") or {}).items()
        and is_ready(pod)
    ]
    if not heads:
        return {"error": "no head is Ready"}
    pool = urllib3.PoolManager()
    try:
        with forwarded(cluster, namespace, heads[0]["metadata"]["name"], _DASHBOARD) as port:
            jobs = _json(pool, f"http://127.0.0.1:{port}/api/jobs/")
            actors = _json(pool, f"http://127.0.0.1:{port}/api/v0/actors?detail=1&limit=1000")
    except (StackError, urllib3.exceptions.HTTPError, ValueError) as error:
        return {"error": f"the dashboard of {quote(name)} did not answer: {error}"}
    listed = at(actors, "data", "result", "result")
    return {"jobs": jobs if isinstance(jobs, list) else [], "actors": listed if isinstance(listed, list) else []}


def _json(pool: urllib3.PoolManager, url: str) -> Mapping[str, Any] | list[Any]:
    answer = pool.request("GET", url, timeout=urllib3.Timeout(connect=2.0, read=10.0), retries=False)
    if answer.status != 200:
        raise StackError(f"{answer.status}")
    said: Mapping[str, Any] | list[Any] = json.loads(answer.data)
    return said
