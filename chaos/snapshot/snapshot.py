"""A snapshot: plain dicts and bytes, so that whatever reads it needs no cluster.

What could not be read is a note, by resource: a reader must know that something is missing from something that isn't there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.estate.estate import Estate
from chaos.estate.resource import Object, Resource

KINDS = {
    "pods": "Pod",
    "services": "Service",
    "events": "Event",
    "jobs": "Job",
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "rayclusters": "RayCluster",
    "rayjobs": "RayJob",
    "rayservices": "RayService",
    "networkpolicies": "NetworkPolicy",
    "namespaces": "Namespace",
    "nodes": "Node",
    "configmaps": "ConfigMap",
    "customresourcedefinitions": "CustomResourceDefinition",
}


@dataclass(frozen=True, order=True)
class LogOf:
    """Whose log: a container's run, ``previous`` being the one before the present."""

    namespace: str
    pod: str
    container: str
    previous: bool = False


@dataclass(frozen=True)
class Snapshot:
    """``ray`` is Ray's record by (namespace, cluster): ``{"jobs": [...], "actors": [...]}`` or ``{"error": "..."}``."""

    source: str
    taken: str  # RFC 3339
    objects: Mapping[str, list[Object]]
    logs: Mapping[LogOf, bytes] = field(default_factory=dict)
    ray: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)  # resource to the reason why it could not be listed
    notes: tuple[str, ...] = ()

    def estate(self, *, kuberay: str = "") -> Estate:
        """The objects, as the checklist and the diagnosis read them."""
        resources = tuple(
            Resource({"kind": kind, **obj}, self.source)
            for resource, kind in KINDS.items()
            for obj in self.objects.get(resource, [])
        )
        missing = {kind: self.missing[resource] for resource, kind in KINDS.items() if resource in self.missing}
        return Estate(resources, complete=True, missing=missing, kuberay=kuberay)

    def log(self, pod: Resource) -> Mapping[LogOf, str]:
        """A pod's logs, the previous runs first; bytes that are no UTF-8 are shown as such."""
        own = [of for of in self.logs if of.namespace == pod.namespace and of.pod == pod.name]
        ordered = sorted(own, key=lambda of: (not of.previous, of.container))
        return {of: self.logs[of].decode(errors="backslashreplace") for of in ordered}

    def record(self, namespace: str, cluster: str) -> Mapping[str, Any]:
        """Ray's record of a cluster."""
        return self.ray.get((namespace, cluster), {"error": "Ray was not asked"})
