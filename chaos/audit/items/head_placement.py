"""The head is on no spot node, is not the first to be evicted, and shares its node and memory with no crowd.

Spot: what selects or tolerates spot nodes; on a live cluster also the node that it runs on. Evictable: Kubernetes frees
memory by killing pods that use more than they requested, lowest priority first, so the head should be Guaranteed and
have a priority class. Crowded: Ray schedules tasks on a head that offers CPUs, and a node may be under pressure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chaos.audit.item import Answer, Inputs, Item, always, broken, holds, together, unknown
from chaos.estate.estate import Estate
from chaos.estate.policies import matches
from chaos.estate.raycluster import RayCluster
from chaos.estate.resource import Resource, Step, at

# Labels, and taints of the same key, by which providers and autoscalers mark capacity that may be taken away.
_SPOT = {
    "cloud.google.com/gke-spot": {"true"},
    "cloud.google.com/gke-preemptible": {"true"},
    "eks.amazonaws.com/capacityType": {"SPOT"},
    "karpenter.sh/capacity-type": {"spot"},
    "kubernetes.azure.com/scalesetpriority": {"spot"},
    "node.kubernetes.io/lifecycle": {"spot", "preemptible"},
    "lifecycle": {"spot", "Ec2Spot"},
}
_TEMPLATE: tuple[Step, ...] = ("headGroupSpec", "template", "spec")
_REQUIRED: tuple[Step, ...] = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_PRESSURE = ("MemoryPressure", "DiskPressure", "PIDPressure")
_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_FIX_NODES = "keep the head on nodes of a pool that isn't spot, by nodeSelector or required node affinity"


def judge(cluster: RayCluster, inputs: Inputs) -> Answer:
    """Nodes, priority, quality of service, crowd."""
    return together(_parts(cluster, inputs.estate))


def _parts(cluster: RayCluster, estate: Estate) -> Iterator[Answer]:
    yield _nodes(cluster, estate)
    yield _priority(cluster)
    yield _quality(cluster)
    yield _crowd(cluster)
    if node := _node(cluster, estate):
        yield _pressure(node)


# --- spot -----------------------------------------------------------------------------------------------------------


def _nodes(cluster: RayCluster, estate: Estate) -> Answer:
    selector = cluster.place(*_TEMPLATE, "nodeSelector")
    spot = next(_on_spot(cluster, estate), None)
    if spot is not None:
        return spot
    if _restricted(cluster):
        return holds("the head is kept on chosen nodes", selector)
    if estate.knows("Node") and not any(_is_spot(node) for node in estate.of("Node")):
        return holds("the cluster has no spot nodes", selector)
    return unknown("nothing says which nodes the head may go to", selector, fix=_FIX_NODES)


def _on_spot(cluster: RayCluster, estate: Estate) -> Iterator[Answer]:
    selected = cluster.head.get("nodeSelector") or {}
    if any(value in _SPOT.get(key, ()) for key, value in selected.items()):
        yield broken("the head asks for spot nodes", cluster.place(*_TEMPLATE, "nodeSelector"), fix=_FIX_NODES)
    if any(_wants_spot(e) for term in _terms(cluster) for e in term.get("matchExpressions") or []):
        yield broken("the head may go to spot nodes", cluster.place(*_TEMPLATE, *_REQUIRED), fix=_FIX_NODES)
    for number, toleration in enumerate(cluster.head.get("tolerations") or []):
        if _tolerates_spot(toleration) and not _restricted(cluster):
            yield broken(
                "the head tolerates spot nodes, and nothing keeps it off them",
                cluster.place(*_TEMPLATE, "tolerations", number),
                fix="take that toleration away, or " + _FIX_NODES,
            )
    node = _node(cluster, estate)
    if node and (label := _is_spot(node)):
        yield broken("the head runs on a spot node", node.place("metadata", "labels", label), fix=_FIX_NODES)


def _terms(cluster: RayCluster) -> list[Mapping[str, Any]]:
    return at(cluster.head, *_REQUIRED, "nodeSelectorTerms") or []


def _restricted(cluster: RayCluster) -> bool:
    return bool(cluster.head.get("nodeSelector") or _terms(cluster))


def _is_spot(node: Resource) -> str | None:
    """The label that marks a node as spot."""
    return next((key for key, value in node.labels.items() if value in _SPOT.get(key, ())), None)


def _wants_spot(expression: Mapping[str, Any]) -> bool:
    values = _SPOT.get(expression.get("key", ""))
    if values is None:
        return False
    match expression.get("operator"):
        case "In":
            return bool(values & set(expression.get("values") or []))
        case "Exists":
            return True
        case _:
            return False


def _tolerates_spot(toleration: Mapping[str, Any]) -> bool:
    if toleration.get("operator") == "Exists" and not toleration.get("key"):
        return True
    return toleration.get("key") in _SPOT


# --- evictable ------------------------------------------------------------------------------------------------------


def _priority(cluster: RayCluster) -> Answer:
    annotations: tuple[Step, ...] = ("headGroupSpec", "template", "metadata", "annotations")
    if str((cluster.get(*annotations) or {}).get(_EVICT, "")).lower() == "true":
        return broken(
            "the head is marked as safe to evict", cluster.place(*annotations, _EVICT), fix=f'set {_EVICT}: "false"'
        )
    if not cluster.head.get("priorityClassName"):
        return broken(
            "the head has no priority class: any pod with one may push it off its node",
            cluster.place(*_TEMPLATE, "priorityClassName"),
            fix="give the head a priorityClassName above that of the work beside it",
        )
    return holds("the head has a priority class", cluster.place(*_TEMPLATE, "priorityClassName"))


def _quality(cluster: RayCluster) -> Answer:
    """Guaranteed: every container's limits equal its requests, which default to the limits."""
    fix = "set requests equal to limits, of CPU and memory, for every container of the head"
    for number, container in enumerate(cluster.head.get("containers") or []):
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        requests = {**limits, **(resources.get("requests") or {})}
        path: tuple[Step, ...] = (*_TEMPLATE, "containers", number, "resources")
        for kind in ("cpu", "memory"):
            if kind not in limits or _quantity(requests[kind]) != _quantity(limits[kind]):
                worst = "BestEffort" if not requests else "Burstable"
                return broken(
                    f"the head is {worst}: under memory pressure it is evicted before Guaranteed pods ({kind})",
                    cluster.place(*path),
                    fix=fix,
                )
    return holds("the head is Guaranteed", cluster.place(*_TEMPLATE, "containers", 0, "resources"))


_UNITS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def _quantity(text: object) -> float | str:
    """A quantity as a number, or as it is written when it is none."""
    word = str(text).strip()
    for unit, factor in (*_BINARY.items(), *sorted(_UNITS.items(), reverse=True)):
        if word.endswith(unit):
            try:
                return float(word.removesuffix(unit)) * factor
            except ValueError:
                continue
    return word


# --- crowded --------------------------------------------------------------------------------------------------------


def _crowd(cluster: RayCluster) -> Answer:
    offered = cluster.get("headGroupSpec", "rayStartParams", "num-cpus")
    place = cluster.place("headGroupSpec", "rayStartParams", "num-cpus")
    if cluster.worker_groups and str(offered) != "0":
        return broken(
            "Ray schedules tasks and actors on the head, beside the GCS", place, fix='set rayStartParams num-cpus: "0"'
        )
    return holds("Ray keeps work that needs CPUs off the head", place)


def _pressure(node: Resource) -> Answer:
    for number, condition in enumerate(node.get("status", "conditions") or []):
        if condition.get("type") in _PRESSURE and condition.get("status") == "True":
            return broken(
                f"the head's node is under {condition['type']}",
                node.place("status", "conditions", number, shows=f"{condition['type']} True"),
                fix="move the head to a node with room, and keep one for it",
            )
    return holds("the head's node is under no pressure", node.place("status", "conditions", shows="no pressure"))


def _node(cluster: RayCluster, estate: Estate) -> Resource | None:
    """The node that the head runs on, on a live cluster."""
    wanted = {"ray.io/cluster": cluster.name, "ray.io/node-type": "head"}
    for pod in estate.of("Pod"):
        if pod.namespace == cluster.namespace and matches({"matchLabels": wanted}, pod.labels):
            return estate.named("Node", "", str(pod.get("spec", "nodeName") or ""))
    return None


ITEM = Item("head-placement", "The head is not on spot, evictable or crowded nodes", judge, always)
