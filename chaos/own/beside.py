"""What else is in the user's file: what the pods refer to goes with them into each namespace, everything else is left out.

ConfigMaps and Secrets are referred to by name, Services in what a container is told: its environment, command and arguments.
None of them does anything by itself; whatever does (a Deployment, a policy, another Ray cluster) is left out and named.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.estate.resource import Object, Resource, at

# Where a name stands that refers to one. A volume names its Secret by secretName, everything else by name.
_REFERENCES = (
    ("configMap", "ConfigMap", "name"),
    ("configMapRef", "ConfigMap", "name"),
    ("configMapKeyRef", "ConfigMap", "name"),
    ("secret", "Secret", "secretName"),
    ("secret", "Secret", "name"),
    ("secretRef", "Secret", "name"),
    ("secretKeyRef", "Secret", "name"),
)
_KINDS = ("ConfigMap", "Secret", "Service")
# Of a Service only what works in any cluster: addresses are given out, and nothing comes from outside.
_OF_SERVICE = ("selector", "ports", "publishNotReadyAddresses", "sessionAffinity")


@dataclass(frozen=True, order=True)
class Reference:
    """One object that a pod refers to; without an ``optional`` one it starts all the same."""

    kind: str
    name: str
    optional: bool = False


def references(node: object) -> Iterator[Reference]:
    """The ConfigMaps and Secrets that a part of a pod's spec refers to."""
    for each in _mappings(node):
        for key, kind, named in _REFERENCES:
            name = at(each, key, named)
            if isinstance(name, str):
                yield Reference(kind, name, bool(at(each, key, "optional")))


def lacking(node: object, there: Collection[tuple[str, str]]) -> list[Reference]:
    """What a part of a pod's spec can't do without and the file hasn't got."""
    return sorted({each for each in references(node) if not each.optional and (each.kind, each.name) not in there})


def sort_out(others: Iterable[Resource], pods: Iterable[object]) -> tuple[list[Object], list[str]]:
    """The objects that go with these pod specs, without what belongs to the cluster they came from; the names of the rest."""
    specs = list(pods)
    referred = {(each.kind, each.name) for spec in specs for each in references(spec)}
    told = "\n".join(text for spec in specs for text in _told(spec))
    taken, left_out = [], []
    for each in others:
        is_named = each.kind == "Service" and re.search(rf"(?<![\w-]){re.escape(each.name or '?')}(?![\w-])", told)
        if each.kind in _KINDS and ((each.kind, each.name) in referred or is_named):
            taken.append(_bare(each))
        else:
            left_out.append(str(each))
    return taken, left_out


def _bare(resource: Resource) -> Object:
    kept: Object = {key: item for key, item in resource.obj.items() if key not in ("metadata", "status")}
    if resource.kind == "Service":
        spec = at(kept, "spec")
        wanted: Object = {key: spec[key] for key in _OF_SERVICE if key in spec} if isinstance(spec, Mapping) else {}
        if isinstance(wanted.get("ports"), list):
            wanted["ports"] = [_without(port, "nodePort") for port in wanted["ports"]]
        if at(spec, "clusterIP") == "None":
            wanted["clusterIP"] = "None"
        kept["spec"] = wanted
    metadata: Object = {"name": resource.name}
    if isinstance(resource.metadata.get("labels"), dict):
        metadata["labels"] = resource.metadata["labels"]
    return {**kept, "metadata": metadata}


def _without(value: Any, key: str) -> Any:
    return {k: item for k, item in value.items() if k != key} if isinstance(value, dict) else value


def _told(spec: object) -> Iterator[str]:
    """What the containers of a pod are told in clear text."""
    for each in _mappings(spec):
        for key in ("command", "args"):
            if isinstance(each.get(key), list):
                yield from map(str, each[key])
        for entry in each["env"] if isinstance(each.get("env"), list) else []:
            yield str(at(entry, "value"))


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """Every mapping in a JSON value."""
    if isinstance(value, Mapping):
        yield value
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _mappings(item)
