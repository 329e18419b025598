"""Ray clusters and RayJobs on the stack, in namespaces of our own.

A namespace of ours is labelled ``kuberay-chaos/owned=true`` (which lets its Ray heads through to Redis) and holds what the
manifests refer to: the workload scripts and a copy of Redis' password.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from chaos import paths, workloads
from chaos.errors import NoSteadyState, NotReached, StackError
from chaos.own.edit import differences
from chaos.own.file import Kind, Own
from chaos.own.fit import Fitted, fit
from chaos.stack import leftovers, redis
from chaos.stack.cluster import Cluster, Object
from chaos.stack.leftovers import Leftover
from chaos.stack.manifest import render
from chaos.stack.ours import OWNED
from chaos.waiting import until

HEAD, WORKER = "head", "worker"
GCS_PORT = 6379  # where a head's gcs_server listens

# Variables by name; None: not set, whoever else would set it.
Env = Mapping[str, str | None]

# Measured 25 s with the image on the node; a head that pulls up slowly on a busy machine restarts its 10 s readiness delay.
READY_SECONDS = 180.0


@dataclass(frozen=True)
class RayClusterHandle:
    """One Ray cluster: where it is and what it was asked to be. ``arm`` names the arm of an experiment it belongs to."""

    namespace: str
    name: str
    ft: bool
    workers: int
    arm: str = ""

    def get(self, cluster: Cluster) -> Object | None:
        """The RayCluster object."""
        return cluster.get("rayclusters", self.namespace, self.name)

    def head_pod(self, cluster: Cluster) -> Object | None:
        """The head's pod that isn't being deleted, ready or not; None when there is none."""
        return next(iter(self._pods(cluster, HEAD)), None)

    def worker_pods(self, cluster: Cluster) -> list[Object]:
        """The workers' pods that aren't being deleted, by name."""
        return self._pods(cluster, WORKER)

    def wait_ready(self, cluster: Cluster, seconds: float = READY_SECONDS) -> None:
        """Waits until the head and all workers are Ready. Ready isn't functional: ask `chaos.workloads.probes`.

        Raises `NoSteadyState`.
        """

        def ready() -> bool:
            pods = [*self._pods(cluster, HEAD), *self._pods(cluster, WORKER)]
            count = sum(is_ready(pod) for pod in pods)
            if len(pods) != self.workers + 1 or count != len(pods):
                raise StackError(f"{len(pods)} pods, {count} of them ready, {self.workers + 1} expected")
            return True

        until(ready, what=f"Ray cluster {self.namespace}/{self.name}", deadline=seconds, error=NoSteadyState)

    def _pods(self, cluster: Cluster, kind: str) -> list[Object]:
        pods = cluster.list("pods", self.namespace, f"ray.io/cluster={self.name},ray.io/node-type={kind}")
        staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return sorted(staying, key=lambda pod: str(pod["metadata"]["name"]))


@dataclass(frozen=True)
class RayJobHandle:
    """One RayJob. Its Ray cluster's name is in its status, and another one in each attempt."""

    namespace: str
    name: str
    ft: bool
    ledger: str  # the ledger file, as the pods see it

    def get(self, cluster: Cluster) -> Object | None:
        """The RayJob object."""
        return cluster.get("rayjobs", self.namespace, self.name)

    def cluster_handle(self, cluster: Cluster) -> RayClusterHandle | None:
        """The Ray cluster of the attempt that the status names; None before there is one."""
        found = self.get(cluster)
        name = found.get("status", {}).get("rayClusterName") if found else None
        return RayClusterHandle(self.namespace, name, self.ft, workers=0) if name else None


def ray_container(pod: Object) -> str:
    """The name of the container that runs Ray, in the pod of a Ray cluster: the first, as KubeRay has it."""
    return str(pod["spec"]["containers"][0]["name"])


def is_ready(pod: Object) -> bool:
    """Whether the pod's Ready condition is true."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or [])


def is_known(raycluster: Object, head: Object) -> bool:
    """Whether the operator has seen this very head: it has told the cluster's status the pod's address.

    One that is deleted before that has no successor for 30 s, in which the operator waits for the pod that it made (its scale
    expectations, since 1.3), and then not until something else wakes it.
    """
    address = (head.get("status") or {}).get("podIP")
    told = (raycluster.get("status") or {}).get("head") or {}
    return bool(address) and told.get("podIP") == address


def ensure_namespace(
    cluster: Cluster, name: str, labels: Mapping[str, str] | None = None, *, password: str = ""
) -> None:
    """Creates a namespace of ours with what the manifests refer to; ``password`` in the place of the stack's, if given."""
    metadata = {"name": name, "labels": {**OWNED, **(labels or {})}}
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, workloads.configmap(name)])
    if password:
        redis.put_secret(cluster, name, password)
    else:
        redis.copy_secret(cluster, name)


def create_ray_cluster(
    cluster: Cluster,
    namespace: str,
    name: str,
    *,
    ft: bool,
    image: str,
    ray_version: str,
    annotated: bool = False,
    redis_address: str = redis.SENTINEL_ADDRESS,
    workers: int = 2,
    most_workers: int = 0,
    head_env: Env | None = None,
    worker_env: Env | None = None,
    storage: str = "",
    spec: Mapping[str, object] | None = None,
    arm: str = "",
    ledger: bool = True,
    own: Own | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> RayClusterHandle:
    """Creates a Ray cluster in a namespace of ours, with GCS fault tolerance or without, and doesn't wait for it.

    ``annotated`` asks for fault tolerance as before KubeRay 1.3. ``ledger`` tells whether the nodes have the run's folder.
    With ``most_workers`` Ray's autoscaler may make so many. ``own`` is a RayCluster of the user's, which is then made, and what
    was set in it for this one is noted.
    ``storage`` is the external storage namespace; without one KubeRay takes the RayCluster's UID. ``spec`` is merged into
    the manifest's as a JSON merge patch (RFC 7386), but a mapping that meets a list is merged into each of its items:
    that is how a change gets into every group of workers.
    """
    name = own.name if own else name
    ours = raycluster(namespace, name, image, ray_version, workers=workers, redis_address=redis_address, ledger=ledger)
    document = _place(cluster, namespace, own, ours)
    given = deepcopy(document)
    if annotated:
        _ask_by_annotation(document)
    _shape(document["spec"], ft=ft and not annotated, head_env=head_env or {}, worker_env=worker_env or {})
    if most_workers:
        _autoscale(document["spec"], most_workers)
    if storage:
        document["spec"]["gcsFaultToleranceOptions"]["externalStorageNamespace"] = storage
    document["spec"] = _merged(document["spec"], spec or {})
    if own:
        note(_set_for(own, namespace, given, document))
    cluster.create("rayclusters", namespace, document)
    return RayClusterHandle(namespace, name, ft, workers, arm)


def raycluster(
    namespace: str,
    name: str,
    image: str,
    ray_version: str,
    *,
    workers: int = 2,
    redis_address: str = redis.SENTINEL_ADDRESS,
    ledger: bool = True,
) -> Object:
    """The RayCluster of the manifest, with fault tolerance."""
    document = _document(
        "raycluster.yaml",
        {
            "NAMESPACE": namespace,
            "NAME": name,
            "IMAGE": image,
            "RAY_VERSION": ray_version,
            "WORKERS": workers,
            "REDIS_ADDRESS": redis_address,
        },
    )
    if not ledger:
        _drop_ledger(document["spec"])
    return document


def create_rayjob(
    cluster: Cluster,
    namespace: str,
    name: str,
    *,
    ft: bool,
    image: str,
    ray_version: str,
    entrypoint: str,
    ledger: str,
    redis_address: str = redis.SENTINEL_ADDRESS,
    workers: int = 0,
    spec: Mapping[str, object] | None = None,
    own: Own | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> RayJobHandle:
    """Creates a RayJob in a namespace of ours; of the user's ``own`` if given, and what was set in it for this one is noted.

    Its head does the work itself unless there are ``workers``. ``spec`` is merged into its spec, as that of a Ray cluster.
    """
    name = own.name if own else name
    ours = rayjob(
        namespace, name, image, ray_version, entrypoint=entrypoint, ledger=ledger, redis_address=redis_address,
        workers=workers,
    )  # fmt: skip
    document = _place(cluster, namespace, own, ours)
    given = deepcopy(document)
    _shape(document["spec"]["rayClusterSpec"], ft=ft, head_env={}, worker_env={})
    document["spec"] = _merged(document["spec"], spec or {})
    if own:
        note(_set_for(own, namespace, given, document))
    cluster.create("rayjobs", namespace, document)
    return RayJobHandle(namespace, name, ft, ledger)


def rayjob(
    namespace: str,
    name: str,
    image: str,
    ray_version: str,
    *,
    entrypoint: str,
    ledger: str,
    redis_address: str = redis.SENTINEL_ADDRESS,
    workers: int = 0,
) -> Object:
    """The RayJob of the manifest, with fault tolerance."""
    document = _document(
        "rayjob.yaml",
        {
            "NAMESPACE": namespace,
            "NAME": name,
            "IMAGE": image,
            "RAY_VERSION": ray_version,
            "ENTRYPOINT": entrypoint,
            "LEDGER": ledger,
            "REDIS_ADDRESS": redis_address,
        },
    )
    if workers:
        _add_workers(document["spec"]["rayClusterSpec"], workers)
    return document


def fitted(own: Own, image: str, ray_version: str, *, ledger: bool = True) -> Fitted:
    """What the user's object becomes, before any arm asks for something of its own."""
    if own.kind is Kind.RAYCLUSTER:
        return fit(own, raycluster("", own.name, image, ray_version, ledger=ledger))
    return fit(own, rayjob("", own.name, image, ray_version, entrypoint="", ledger=""))


def _place(cluster: Cluster, namespace: str, own: Own | None, ours: Object) -> Object:
    """The user's object in the place of ours, if there is one, and in the namespace what its pods refer to."""
    if own is None:
        return ours
    made = fit(own, ours)
    if made.beside:
        cluster.apply([each | {"metadata": each["metadata"] | {"namespace": namespace}} for each in made.beside])
    return made.document


def _set_for(own: Own, namespace: str, given: Object, made: Object) -> str:
    """What an arm has another way than all that is made of the user's object."""
    changes = [
        f"{each.path}: {each.before or '(not set)'} -> {each.after or '(removed)'}" for each in differences(given, made)
    ]
    return f"{own} is made in {namespace}; set for it: {', '.join(changes) or 'nothing'}"


def delete_namespace(cluster: Cluster, name: str, seconds: float) -> list[Leftover]:
    """Deletes a namespace of ours within ``seconds``; what stays is returned, with what holds it.

    Ray's own objects go first: their clean-up needs a Job, and none can be created in a namespace that is being deleted.
    Nothing is forced. Raises `StackError` when the namespace isn't ours.
    """
    found = cluster.get("namespaces", None, name)
    if found is None:
        return []
    if found["metadata"].get("labels", {}).get("kuberay-chaos/owned") != "true":
        raise StackError(f"namespace {name} is not ours and is not deleted")

    def rest() -> list[tuple[str, Object]]:
        return [(kind, item) for kind in ("rayjobs", "rayclusters") for item in cluster.list(kind, name)]

    for kind, item in rest():
        cluster.delete(kind, name, item["metadata"]["name"], uid=item["metadata"]["uid"])
    try:
        until(lambda: not rest(), what=f"the end of Ray's objects in {name}", deadline=seconds / 2)
    except NotReached:
        return [leftovers.held_object(cluster, kind, item) for kind, item in rest()]
    cluster.delete("namespaces", None, name, uid=found["metadata"]["uid"])
    try:
        until(lambda: cluster.get("namespaces", None, name) is None, what=f"the end of {name}", deadline=seconds / 2)
    except NotReached:
        left = cluster.get("namespaces", None, name)
        return [leftovers.terminating(cluster, left)] if left else []
    return []


def _document(manifest: str, values: Mapping[str, str | int]) -> Object:
    """The one document of a manifest."""
    [document] = render(paths.manifests() / manifest, values)
    return document


def pods_on(node: Object) -> Object:
    """What is merged into a group of a RayCluster's spec so that its pods are on this node and no other."""
    return {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": node["metadata"]["name"]}}}}


def _shape(spec: Object, *, ft: bool, head_env: Env, worker_env: Env) -> None:
    """Makes a RayCluster's spec what was asked for."""
    if not ft:
        del spec["gcsFaultToleranceOptions"]
    _set_env(spec["headGroupSpec"], head_env)
    for group in spec.get("workerGroupSpecs") or []:
        _set_env(group, worker_env)


def _ask_by_annotation(document: Object) -> None:
    """Asks for fault tolerance by an annotation, and by the address and the password in the head's environment."""
    options = document["spec"]["gcsFaultToleranceOptions"]
    document["metadata"].setdefault("annotations", {})["ray.io/ft-enabled"] = "true"
    head = document["spec"]["headGroupSpec"]
    head["rayStartParams"]["redis-password"] = "$REDIS_PASSWORD"
    head["template"]["spec"]["containers"][0]["env"] += [
        {"name": "RAY_REDIS_ADDRESS", "value": options["redisAddress"]},
        {"name": "REDIS_PASSWORD", **options["redisPassword"]},
    ]


def _add_workers(spec: Object, count: int) -> None:
    """Workers that are made as the head is, which leaves the work to them."""
    head = spec["headGroupSpec"]
    head["rayStartParams"]["num-cpus"] = "0"
    pod = deepcopy(head["template"]["spec"])
    pod["containers"][0]["name"] = "ray-worker"
    del pod["containers"][0]["ports"]
    spec["workerGroupSpecs"] = [
        {
            "groupName": "workers",
            **dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), count),
            "rayStartParams": {},
            "template": {"spec": pod},
        }
    ]


def _autoscale(spec: Object, most_workers: int) -> None:
    """Adds the autoscaler, a container of the head's. What it made idles for longer than any experiment takes."""
    spec["enableInTreeAutoscaling"] = True
    spec["autoscalerOptions"] = {
        "version": "v2",
        "imagePullPolicy": "IfNotPresent",
        "idleTimeoutSeconds": 1800,
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
    }
    for group in spec["workerGroupSpecs"]:
        group["maxReplicas"] = most_workers


def _drop_ledger(spec: Object) -> None:
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        pod["volumes"] = [volume for volume in pod["volumes"] if volume["name"] != "ledger"]
        for container in pod["containers"]:
            container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] != "ledger"]


def _merged(old: object, patch: object) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    if isinstance(old, list):
        return [_merged(item, patch) for item in old]
    merged = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _set_env(group: Object, env: Env) -> None:
    container = group["template"]["spec"]["containers"][0]
    kept = [entry for entry in container["env"] if entry["name"] not in env]
    container["env"] = kept + [{"name": key, "value": value} for key, value in env.items() if value is not None]
