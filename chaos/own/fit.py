"""What is changed in a user's RayCluster or RayJob so that it runs on the stack and an experiment can be done with it.

Nothing here touches a cluster: `fit` makes one object of two, the user's and the one of ours that would be made in its place
(``manifests/``). From ours comes only what the stack or an experiment can't do without:

- the image and the version of Ray, sizes that three nodes on one machine carry, and short grace periods, which deadlines of
  experiments are derived from;
- the address of Redis, or none; how many workers there are; the scripts that are run, where they are mounted, and a head that
  takes no work unless it is alone;
- of a RayJob the entrypoint, which keeps a ledger, and what belongs to an entrypoint.

What can't exist here is taken out: devices, choices among nodes, volumes of elsewhere, objects that aren't in the file, images
that the stack hasn't got. Everything else stays: that is what is tested. Each change is listed with its reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from chaos.estate.estate import tag_version
from chaos.estate.raycluster import FT_ANNOTATION, NAMESPACE_ANNOTATION, OPTIONS
from chaos.estate.resource import Object, at
from chaos.own.beside import lacking, sort_out
from chaos.own.edit import Change, Edit
from chaos.own.file import API_VERSION, Kind, Own

AS_ASKED = "as each arm asks"

_IMAGE = "no other image is here"
_SIZE = "what the machine carries"
_GRACE = "the experiments' deadlines count on it"
_NO_DEVICE = "the nodes have no devices"
_NODES = "the nodes are not those it speaks of"
_ELSEWHERE = "not in the file, and nowhere else here"
_SERVER = "the API server's, not the manifest's"
_REDIS = "an arm's fault tolerance is by gcsFaultToleranceOptions, with the Redis there is"
_PROBES = "for the scripts that are run in the pods"
_SETTINGS = "set in all that is made here"
_OUTSIDE = "nothing outside reaches the stack"
_ENTRYPOINT = "it belongs to the entrypoint, which is replaced"
_ALL_RUN = "all that is made is meant to run"

_METADATA = ("name", "labels", "annotations")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Fields of a pod's spec that only mean something in the cluster they were written for.
_OF_A_POD = {
    **dict.fromkeys(
        ("nodeSelector", "nodeName", "affinity", "tolerations", "topologySpreadConstraints", "schedulerName",
         "priorityClassName", "priority", "preemptionPolicy", "schedulingGates"),
        _NODES,
    ),
    **dict.fromkeys(("runtimeClassName", "overhead", "resourceClaims", "resources"), _NO_DEVICE),
    **dict.fromkeys(("serviceAccountName", "serviceAccount"), "each namespace has its default account only"),
    "imagePullSecrets": "no image is pulled",
    **dict.fromkeys(("dnsPolicy", "dnsConfig"), "names are resolved inside the cluster only"),
    **dict.fromkeys(("hostNetwork", "hostPID", "hostIPC"), "the nodes are shared by several Ray clusters"),
}  # fmt: skip
# Volumes that need nothing but a node and what is in the file.
_VOLUMES = ("emptyDir", "configMap", "secret", "projected", "downwardAPI")
_REDIS_ENV = ("RAY_REDIS_ADDRESS", "REDIS_USERNAME", "REDIS_PASSWORD", "RAY_external_storage_namespace")
_REDIS_PARAMETERS = ("redis-username", "redis-password")
# Of the memory of a container Ray takes three tenths for its object store by itself.
_STORE_SHARE = Decimal("0.3")
# For containers that only accompany Ray's, as much as a submitter has.
_BESIDE = {"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
# KubeRay's own when a manifest says nothing.
_AUTOSCALER = {"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}}
_GRACE_BY_DEFAULT = 30

Names = Collection[tuple[str, str]]


@dataclass(frozen=True)
class Fitted:
    """What is made in the place of ours: the object, the objects that its pods refer to, and what was done to get there."""

    document: Object
    beside: list[Object]
    changes: list[Change]
    left_out: list[str]


def fit(own: Own, ours: Object) -> Fitted:
    """The user's object, with from ours what it can't do without."""
    there = {(each.kind, each.name) for each in own.others}
    edit = Edit.of(own.document)
    _metadata(edit, ours, own.name)
    spec = edit.child("spec")
    if own.kind is Kind.RAYCLUSTER:
        _cluster(spec, ours["spec"], there)
        pods = _pods(spec)
    else:
        _job(spec, ours["spec"], there)
        pods = [*_pods(spec.child("rayClusterSpec")), spec.child("submitterPodTemplate").node]
    beside, left_out = sort_out(own.others, pods)
    return Fitted(edit.node, beside, edit.changes, left_out)


def _pods(cluster: Edit) -> list[Object]:
    """The pod templates of a Ray cluster, and the autoscaler's options, which are like a container."""
    groups = [cluster.child("headGroupSpec"), *cluster.items("workerGroupSpecs")]
    return [
        *(group.child("template").node for group in groups),
        {"containers": [cluster.child("autoscalerOptions").node]},
    ]


def _metadata(edit: Edit, ours: Object, name: str) -> None:
    edit.put("apiVersion", API_VERSION, "the version that is served for longer")
    edit.drop("status", _SERVER)
    metadata = edit.child("metadata")
    for key in list(metadata.node):
        if key not in (*_METADATA, "namespace"):
            metadata.drop(key, _SERVER if key != "generateName" else "it is looked for by its name")
    metadata.put("name", name, "it is looked for by its name")
    metadata.put(
        "namespace", ours["metadata"]["namespace"], "each arm has one of its own", after="one of each arm's own"
    )
    annotations = metadata.child("annotations")
    annotations.drop(_LAST_APPLIED, _SERVER)
    for key in (FT_ANNOTATION, NAMESPACE_ANNOTATION):
        annotations.drop(key, _REDIS)


# --- a Ray cluster --------------------------------------------------------------------------------------------------


def _cluster(spec: Edit, ours: Object, there: Names) -> None:
    head = spec.child("headGroupSpec")
    _version(spec, at(head.node, "template", "spec", "containers", 0, "image"), str(ours["rayVersion"]))
    spec.put(OPTIONS, ours[OPTIONS], _REDIS, after=AS_ASKED)
    for key in ("suspend", "managedBy"):
        spec.drop(key, _ALL_RUN)
    spec.drop("authOptions", "Ray is asked without a token")

    _group(head, ours["headGroupSpec"], there)
    for key in _REDIS_PARAMETERS:
        head.child("rayStartParams").drop(key, _REDIS)
    _cpus(head, str(ours["headGroupSpec"]["rayStartParams"]["num-cpus"]))
    for service in (head, head.child("headService").child("spec")):
        for key in ("serviceType", "type"):
            if service.node.get(key) not in (None, "ClusterIP"):
                service.put(key, "ClusterIP", _OUTSIDE)

    groups = spec.items("workerGroupSpecs")
    wanted = ours.get("workerGroupSpecs") or []
    if wanted and not groups:
        spec.put("workerGroupSpecs", wanted, "experiments need workers", after="one group of ours")
        return
    shares = _shares(sum(int(group["replicas"]) for group in wanted), len(groups))
    for group, replicas in zip(groups, shares, strict=True):
        _workers(group, replicas)
        # Where ours has no workers, as in a RayJob's cluster, the sizes are those of its head.
        _group(group, wanted[0] if wanted else ours["headGroupSpec"], there, is_worker=True)
    if spec.node.get("enableInTreeAutoscaling"):
        _autoscaler(spec.child("autoscalerOptions"), ours["headGroupSpec"], there)


def _version(spec: Edit, image: object, ours: str) -> None:
    """Ray's version: by the image, if its tag tells, else as it is said."""
    tagged = tag_version(str(image or ""))
    theirs = str(tagged or spec.node.get("rayVersion") or ours)
    spec.put("rayVersion", ours, "the stack's Ray" + ("" if theirs == ours else f"; --ray {theirs} makes it yours"))


def _cpus(head: Edit, number: str) -> None:
    """Processors that Ray takes the head to have; KubeRay has two places for it, and takes one of them."""
    why = "actors are put on workers" if number == "0" else "the job runs on its head"
    if isinstance(head.node.get("resources"), dict):
        head.child("resources").put("CPU", number, why)
        head.child("rayStartParams").drop("num-cpus", why)
    else:
        head.child("rayStartParams").put("num-cpus", number, why)


def _workers(group: Edit, replicas: int) -> None:
    for key in ("replicas", "minReplicas", "maxReplicas"):
        group.put(key, replicas, "workers are shared out among the groups", after=AS_ASKED)
    if group.node.get("numOfHosts", 1) != 1:
        group.put("numOfHosts", 1, _SIZE)
    for key in ("suspend", "scaleStrategy"):
        group.drop(key, _ALL_RUN)


def _shares(asked: int, groups: int) -> list[int]:
    return [asked // groups + (number < asked % groups) for number in range(groups)]


def _autoscaler(options: Edit, ours: Object, there: Names) -> None:
    container = at(ours, "template", "spec", "containers", 0)
    if "image" in options.node:
        options.put("image", container["image"], _IMAGE)
    options.put("imagePullPolicy", container["imagePullPolicy"], _IMAGE)
    _sizes(options, _AUTOSCALER, always=True)
    _environment(options, there)


# --- groups and pods ------------------------------------------------------------------------------------------------


def _group(group: Edit, ours: Object, there: Names, *, is_worker: bool = False) -> None:
    template = group.child("template")
    labels = {} if is_worker else at(ours, "template", "metadata", "labels") or {}
    for key, value in labels.items():
        template.child("metadata").child("labels").put(key, value, "lets the head through to Redis")
    _pod(template, ours["template"], there)
    container = at(template.node, "spec", "containers", 0)
    parameters = group.child("rayStartParams")
    parameters.drop("num-gpus", _NO_DEVICE)
    group.child("resources").drop("GPU", _NO_DEVICE)
    memory = _quantity(at(container, "resources", "limits", "memory"))
    for key, share in (("memory", Decimal(1)), ("object-store-memory", _STORE_SHARE)):
        asked = _quantity(parameters.node.get(key))
        if asked is not None and memory is not None and asked > memory * share:
            parameters.drop(key, _SIZE)


def _pod(template: Edit, ours: Object, there: Names) -> None:
    """A pod's template, whose first container is Ray's, made to run beside others on a node of the stack."""
    spec = template.child("spec")
    for key, why in _OF_A_POD.items():
        spec.drop(key, why)
    grace = ours["spec"]["terminationGracePeriodSeconds"]
    theirs = spec.node.get("terminationGracePeriodSeconds", _GRACE_BY_DEFAULT)
    if isinstance(theirs, int) and theirs > grace:
        spec.put("terminationGracePeriodSeconds", grace, _GRACE)
    for volume in spec.items("volumes"):
        _volume(volume, there)
    containers = spec.items("containers")
    image = containers[0].node.get("image") if containers else None
    for key in ("initContainers", "containers"):
        for container in spec.items(key):
            is_ray = key == "containers" and container.node is containers[0].node
            if not is_ray and container.node.get("image", image) != image:
                spec.discard(key, container, _IMAGE)
                continue
            _container(container, at(ours, "spec", "containers", 0), there, is_ray=is_ray)
    for volume in at(ours, "spec", "volumes") or []:
        spec.place("volumes", _renamed(volume), _PROBES)


def _volume(volume: Edit, there: Names) -> None:
    """One that can't be had becomes an empty folder, so that whatever mounts it finds one."""
    kinds = [key for key in volume.node if key != "name"]
    elsewhere = [key for key in kinds if key not in _VOLUMES]
    if elsewhere or lacking(volume.node, there):
        for key in kinds:
            volume.drop(key, _ELSEWHERE)
        volume.put("emptyDir", {}, "what mounts it finds an empty folder")


def _container(container: Edit, ours: Object, there: Names, *, is_ray: bool) -> None:
    container.put("image", ours["image"], _IMAGE)
    if is_ray or "imagePullPolicy" in container.node:
        container.put("imagePullPolicy", ours["imagePullPolicy"], _IMAGE)
    _sizes(container, ours["resources"] if is_ray else _BESIDE, always=is_ray)
    container.drop("volumeDevices", _ELSEWHERE)
    for port in container.items("ports"):
        port.drop("hostPort", "the nodes are shared by several Ray clusters")
    _environment(container, there)
    if is_ray:
        for entry in container.items("env"):
            if entry.node.get("name") in _REDIS_ENV:
                container.discard("env", entry, _REDIS)
        for entry in ours.get("env") or []:
            container.place("env", entry, _SETTINGS)
        for mount in ours.get("volumeMounts") or []:
            container.place("volumeMounts", _renamed(mount), _PROBES)


def _renamed(of_volume: Object) -> Object:
    """A volume of ours, or a mount of it, by a name that the user's hardly have."""
    return {**of_volume, "name": f"chaos-{of_volume['name']}"}


def _environment(container: Edit, there: Names) -> None:
    for key in ("env", "envFrom"):
        for entry in container.items(key):
            if lacking(entry.node, there):
                container.discard(key, entry, _ELSEWHERE)


def _sizes(container: Edit, most: Mapping[str, Mapping[str, str]], *, always: bool) -> None:
    """Requests and limits at most as large; with ``always`` memory has both. Only processor and memory stay."""
    given = container.node.get("resources")
    if not always and not given:
        return
    resources = container.child("resources")
    resources.drop("claims", _NO_DEVICE)
    limits, requests = resources.child("limits"), resources.child("requests")
    for each in (limits, requests):
        for key in [key for key in each.node if key not in ("cpu", "memory")]:
            each.drop(key, _SIZE if key == "ephemeral-storage" else _NO_DEVICE)
    for key in ("cpu", "memory"):
        # Kubernetes takes a limit for a request where there is none.
        asked = requests.node.get(key, limits.node.get(key))
        for each, theirs, what in ((limits, limits.node.get(key), "limits"), (requests, asked, "requests")):
            ours = most[what][key]
            if theirs is None and not (always and key == "memory"):
                continue
            if theirs is None or _is_more(theirs, ours):
                each.put(key, ours, _SIZE)


def _is_more(theirs: object, ours: str) -> bool:
    quantity, limit = _quantity(theirs), _quantity(ours)
    return quantity is not None and limit is not None and quantity > limit


def _quantity(text: Any) -> Decimal | None:
    """A quantity as Kubernetes writes it; None for what is none, which the API server refuses."""
    try:
        number = Decimal(parse_quantity(str(text)))
    except (ValueError, ArithmeticError):
        return None
    return number if number.is_finite() else None


# --- a RayJob -------------------------------------------------------------------------------------------------------


def _job(spec: Edit, ours: Object, there: Names) -> None:
    spec.put(
        "entrypoint", ours["entrypoint"], "executions are counted by what it writes", after="a job that keeps a ledger"
    )
    for key in (
        "entrypointNumCpus", "entrypointNumGpus", "entrypointResources", "runtimeEnvYAML", "activeDeadlineSeconds",
    ):  # fmt: skip
        spec.drop(key, _ENTRYPOINT)
    spec.drop("jobId", "attempts are told apart by the IDs that KubeRay makes")
    for key in ("suspend", "managedBy"):
        spec.drop(key, _ALL_RUN)
    if spec.node.get("submissionMode") == "InteractiveMode":
        spec.put("submissionMode", ours["submissionMode"], "nobody is there to submit")
    _cluster(spec.child("rayClusterSpec"), ours["rayClusterSpec"], there)
    if spec.node.get("submissionMode") == "SidecarMode":  # which has no pod of its own
        return
    if not isinstance(spec.node.get("submitterPodTemplate"), dict):
        spec.put("submitterPodTemplate", ours["submitterPodTemplate"], _GRACE, after="ours, which ends at once")
        return
    submitter = spec.child("submitterPodTemplate")
    _pod(submitter, ours["submitterPodTemplate"], there)
    for container in submitter.child("spec").items("containers")[:1]:
        for key in ("command", "args"):
            container.drop(key, _ENTRYPOINT)
