"""Reading the user's file: the one RayCluster or RayJob in it, and what lies beside it.

A file is read as people have them (`chaos.estate.manifests`). What is wrong with it is one `UsageError`; whether KubeRay takes
the object is for the API server to say, which is asked before anything is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from chaos import workloads
from chaos.errors import UsageError
from chaos.estate import manifests
from chaos.estate.resource import Object, Resource, at

API_VERSION = "ray.io/v1"
# The older one is served as well, and has the same fields.
_API_VERSIONS = (API_VERSION, "ray.io/v1alpha1")
# In each namespace of ours.
_TAKEN = {("ConfigMap", workloads.CONFIG_MAP), ("Secret", "redis-auth")}


class Kind(StrEnum):
    """What can be of one's own."""

    RAYCLUSTER = "RayCluster"
    RAYJOB = "RayJob"


@dataclass(frozen=True)
class Own:
    """The user's object, as it was given, and the other objects of its file."""

    file: Path
    kind: Kind
    document: Object
    others: tuple[Resource, ...] = ()

    @property
    def name(self) -> str:
        """The object's name, which its pods and Services may speak of; one with a generated name gets another."""
        return str(at(self.document, "metadata", "name") or {Kind.RAYCLUSTER: "ray", Kind.RAYJOB: "job"}[self.kind])

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.file}"


def read(path: Path, kind: Kind) -> Own:
    """The one object of this kind in the file. Raises UsageError."""
    resources = [_plain(each) for each in manifests.read([str(path)])]
    found = [each for each in resources if each.kind == kind]
    if not found:
        kinds = ", ".join(dict.fromkeys(each.kind for each in resources))
        raise UsageError(
            f"there is no {kind} in {path}, only {kinds}" if kinds else f"there is no {kind} in {path}",
            fix=f"give a file with one {kind}",
        )
    if len(found) > 1:
        places = ", ".join(f"{each.name or '(no name)'} in line {each.place().line}" for each in found)
        raise UsageError(f"there are {len(found)} {kind}s in {path}: {places}", fix="give a file with one of them")
    [one] = found
    version = one.obj["apiVersion"]
    if version not in _API_VERSIONS:
        raise UsageError(f"{_where(one)} is of {version!r}, which is not known here", fix=f"make it {API_VERSION}")
    if kind is Kind.RAYJOB and one.get("spec", "clusterSelector"):
        raise UsageError(
            f"{_where(one)} runs on a Ray cluster that is already there (clusterSelector)",
            fix="give it a rayClusterSpec: experiments make a cluster for each RayJob",
        )
    head = ("spec", *(("rayClusterSpec",) if kind is Kind.RAYJOB else ()), "headGroupSpec", "template", "spec")
    if not isinstance(one.get(*head, "containers", 0), dict):
        raise UsageError(f"{_where(one)} has no {'.'.join(head)}.containers", fix="describe a head with a container")
    others = tuple(each for each in resources if each is not one)
    for each in others:
        if (each.kind, each.name) in _TAKEN:
            raise UsageError(f"{_where(each)} has a name that is needed for ours", fix="give it another name")
    return Own(path, kind, one.obj, others)


def _plain(resource: Resource) -> Resource:
    """The object as kubectl would send it: names and dates are text, and what YAML repeats by name is written out."""
    return replace(resource, obj=_written_out(resource.obj))


def _written_out(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _written_out(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_written_out(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _where(resource: Resource) -> str:
    place = resource.place()
    return f"{place.source}:{place.line}: {resource}"
