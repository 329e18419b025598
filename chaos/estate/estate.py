"""All objects that were read, and the questions that several readers ask of them: operator, CRD, Services, workloads.

``complete`` says whether an object that isn't here doesn't exist. It is so of a cluster; of manifests it isn't, since
the rest may be kept elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from packaging.version import InvalidVersion, Version

from chaos.estate.policies import matches, same_namespace
from chaos.estate.resource import Place, Resource, Step, at

WORKLOADS = ("StatefulSet", "Deployment")
_VERSION = re.compile(r"v?(\d+\.\d+(?:\.\d+)?(?:[-.]?rc\.?\d+)?)")
_OPERATOR_IMAGE = re.compile(r"(kuberay|kuberay/|kuberay-)operator(@|:|$)|kuberay/operator")


@dataclass(frozen=True)
class Known:
    """A version and where it is written."""

    version: Version
    place: Place


@dataclass(frozen=True)
class Estate:
    """The objects. ``missing`` are kinds that could not be read, with the reason."""

    resources: tuple[Resource, ...]
    complete: bool = False
    missing: Mapping[str, str] = field(default_factory=dict)
    kuberay: str = ""  # the operator's version where somebody said it

    def of(self, *kinds: str) -> Iterator[Resource]:
        """The objects of these kinds, in order."""
        return (r for r in self.resources if r.kind in kinds)

    def knows(self, kind: str) -> bool:
        """Whether all objects of a kind are here."""
        return self.complete and kind not in self.missing

    def named(self, kind: str, namespace: str, name: str) -> Resource | None:
        """One object by its name."""
        found = (r for r in self.of(kind) if r.name == name and same_namespace(r.namespace, namespace))
        return next(found, None)

    # --- the operator ---------------------------------------------------------------------------------------------

    @cached_property
    def operators(self) -> tuple[Resource, ...]:
        """Deployments of the KubeRay operator."""
        return tuple(d for d in self.of("Deployment") if any(_OPERATOR_IMAGE.search(i) for i in images(d)))

    @cached_property
    def operator_version(self) -> Known | None:
        """The operator's version, by its image's tag or else its labels."""
        if self.kuberay:
            return Known(Version(self.kuberay), Place("command line", None, "KubeRay", "--kuberay", self.kuberay))
        for operator in self.operators:
            for number, image in enumerate(images(operator)):
                if _OPERATOR_IMAGE.search(image) and (version := tag_version(image)):
                    path: tuple[Step, ...] = ("spec", "template", "spec", "containers", number, "image")
                    return Known(version, operator.place(*path))
            for label in ("app.kubernetes.io/version", "helm.sh/chart"):
                if version := first_version(operator.labels.get(label, "")):
                    return Known(version, operator.place("metadata", "labels", label))
        return None

    @cached_property
    def crd_prunes_options(self) -> Place | None:
        """Where the RayCluster CRD is seen to have no gcsFaultToleranceOptions; None when it has, or isn't here."""
        for crd in self.of("CustomResourceDefinition"):
            if at(crd.obj, "spec", "names", "kind") != "RayCluster":
                continue
            for number, version in enumerate(crd.get("spec", "versions") or []):
                path: tuple[Step, ...] = ("schema", "openAPIV3Schema", "properties", "spec", "properties")
                fields = at(version, *path) or version.get("fields")  # a snapshot keeps the names alone
                if version.get("name") == "v1" and fields and "gcsFaultToleranceOptions" not in fields:
                    shows = "the CRD has no field gcsFaultToleranceOptions"
                    return crd.place("spec", "versions", number, *path, shows=shows)
        return None

    # --- services and what is behind them -------------------------------------------------------------------------

    def service(self, name: str, namespace: str) -> Resource | None:
        """A Service by name."""
        return self.named("Service", namespace, name)

    def behind(self, service: Resource) -> list[Resource]:
        """The workloads whose pods a Service selects."""
        selector = service.get("spec", "selector") or {}
        return [
            w
            for w in self.of(*WORKLOADS)
            if selector
            and same_namespace(w.namespace, service.namespace)
            and matches({"matchLabels": selector}, pod_labels(w))
        ]

    def pods_behind(self, service: Resource) -> list[Resource]:
        """The pods that a Service selects."""
        selector = service.get("spec", "selector") or {}
        return [
            p
            for p in self.of("Pod")
            if selector and p.namespace == service.namespace and matches({"matchLabels": selector}, p.labels)
        ]

    def namespace_labels(self, namespace: str) -> dict[str, str] | None:
        """A namespace's labels, None when it isn't here."""
        found = self.named("Namespace", "", namespace) if namespace else None
        return found.labels if found else None

    def text_of(self, workload: Resource) -> str:
        """All that configures a workload's containers: commands, environment, and the ConfigMaps that it mounts."""
        spec = workload.get("spec", "template", "spec") or {}
        parts = [str(spec)]
        for name in configmaps(spec):
            if config := self.named("ConfigMap", workload.namespace, name):
                parts += [str(value) for value in (config.get("data") or {}).values()]
        return "\n".join(parts)


def pod_labels(workload: Resource) -> dict[str, str]:
    """The labels of a workload's pods."""
    return dict(workload.get("spec", "template", "metadata", "labels") or {})


def images(workload: Resource) -> list[str]:
    """The images of a workload's containers."""
    return [str(at(c, "image") or "") for c in workload.get("spec", "template", "spec", "containers") or []]


def tag_version(image: str) -> Version | None:
    """The version in an image's tag, None when the tag tells none."""
    name = image.partition("@")[0]
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return first_version(tag, anchored=True) if colon else None


def first_version(text: str, *, anchored: bool = False) -> Version | None:
    """The first thing in a text that looks like a version; ``anchored``: at its beginning."""
    found = _VERSION.match(text) if anchored else _VERSION.search(text)
    try:
        return Version(found[1]) if found else None
    except InvalidVersion:
        return None


def env_of(container: Mapping[str, Any] | None, name: str) -> tuple[int, Mapping[str, Any]] | None:
    """A container's environment variable and its number; the last of that name, as the kubelet has it."""
    entries = (container or {}).get("env") or []
    found = [(n, e) for n, e in enumerate(entries) if isinstance(e, dict) and e.get("name") == name]
    return found[-1] if found else None


def configmaps(spec: Mapping[str, Any]) -> Iterable[str]:
    """The names of the ConfigMaps that a pod spec refers to."""
    for volume in spec.get("volumes") or []:
        if name := at(volume, "configMap", "name"):
            yield name
        for source in at(volume, "projected", "sources") or []:
            if name := at(source, "configMap", "name"):
                yield name
    for container in spec.get("containers") or []:
        for source in at(container, "envFrom") or []:
            if name := at(source, "configMapRef", "name"):
                yield name
        for entry in at(container, "env") or []:
            if name := at(entry, "valueFrom", "configMapKeyRef", "name"):
                yield name
