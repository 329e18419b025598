"""Ray clusters among the objects: RayClusters, and the ones that RayJobs and RayServices describe.

How GCS fault tolerance is asked for is read as KubeRay reads it: by ``gcsFaultToleranceOptions`` (from 1.3), by the
annotation ``ray.io/ft-enabled`` with the address in the head's environment (any version), or by that address alone
(until 1.2; refused from 1.3).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from packaging.version import Version

from chaos.estate.estate import Estate, Known, env_of, tag_version
from chaos.estate.policies import End
from chaos.estate.resource import Place, Resource, Step, at

OPTIONS = "gcsFaultToleranceOptions"
FT_ANNOTATION = "ray.io/ft-enabled"
NAMESPACE_ANNOTATION = "ray.io/external-storage-namespace"
TIMEOUT_ENV = "RAY_gcs_rpc_server_reconnect_timeout_s"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SPEC: Mapping[str, tuple[Step, ...]] = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
}
INJECTED_TIMEOUT = 600.0  # what KubeRay gives workers when fault tolerance is on
REDIS_PORT = 6379


class Form(StrEnum):
    """How fault tolerance is asked for."""

    OPTIONS = "gcsFaultToleranceOptions"
    ANNOTATION = "annotation"
    ADDRESS_ONLY = "address only"
    NONE = "none"


class Password(StrEnum):
    """Where the client's password comes from."""

    SECRET = "Secret"  # noqa: S105  # the kind of object
    PLAIN = "clear text"
    NONE = "none"


@dataclass(frozen=True)
class Address:
    """Where Redis is asked for. ``service`` and ``namespace`` are None for a host outside of the cluster."""

    text: str
    host: str
    port: int
    service: str | None
    namespace: str | None
    place: Place


@dataclass(frozen=True)
class RayCluster:
    """One Ray cluster, as an object describes it."""

    resource: Resource
    base: tuple[Step, ...]

    @property
    def name(self) -> str:
        return self.resource.name

    @property
    def namespace(self) -> str:
        return self.resource.namespace

    def __str__(self) -> str:
        return str(self.resource)

    def get(self, *path: Step) -> Any:
        """A value in its spec."""
        return self.resource.get(*self.base, *path)

    def place(self, *path: Step, shows: str = "") -> Place:
        """Evidence in its spec."""
        return self.resource.place(*self.base, *path, shows=shows)

    # --- pods -----------------------------------------------------------------------------------------------------

    @property
    def head(self) -> Mapping[str, Any]:
        """The head's pod spec."""
        return self.get("headGroupSpec", "template", "spec") or {}

    @property
    def head_container(self) -> Mapping[str, Any]:
        """The Ray container of the head: the first."""
        return at(self.head, "containers", 0) or {}

    @property
    def worker_groups(self) -> list[Mapping[str, Any]]:
        return list(self.get("workerGroupSpecs") or [])

    @property
    def head_end(self) -> End:
        """The head's pod, as network policies see it."""
        own = dict(self.get("headGroupSpec", "template", "metadata", "labels") or {})
        return End(self.namespace, {**own, **self._labels("head")})

    @property
    def cleanup_end(self) -> End:
        """The pod of the Job that cleans Redis up: made from the head's template, of another node type."""
        own = dict(self.get("headGroupSpec", "template", "metadata", "labels") or {})
        return End(self.namespace, {**own, **self._labels("redis-cleanup")})

    def _labels(self, node_type: str) -> dict[str, str]:
        labels = {
            "ray.io/node-type": node_type,
            "ray.io/is-ray-node": "yes",
            "ray.io/group": "headgroup",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        }
        if self.resource.kind == "RayCluster":
            labels |= {"ray.io/cluster": self.name, "ray.io/identifier": f"{self.name}-head"}
        return labels

    def head_env(self, name: str) -> tuple[Place, str | None] | None:
        """A variable of the head's Ray container: where it is and its value, None when that is taken from elsewhere."""
        found = env_of(self.head_container, name)
        if found is None:
            return None
        number, entry = found
        path: tuple[Step, ...] = ("headGroupSpec", "template", "spec", "containers", 0, "env", number)
        shown = "(a password)" if "PASSWORD" in name and "value" in entry else ""
        return self.place(*path, shows=shown), None if "valueFrom" in entry else str(entry.get("value", ""))

    # --- versions -------------------------------------------------------------------------------------------------

    @cached_property
    def ray_version(self) -> Known | None:
        """Ray's version: that of the head's image, else what the spec says."""
        image = str(self.head_container.get("image") or "")
        if version := tag_version(image):
            path: tuple[Step, ...] = ("headGroupSpec", "template", "spec", "containers", 0, "image")
            return Known(version, self.place(*path))
        stated = self.get("rayVersion")
        try:
            return Known(Version(str(stated)), self.place("rayVersion")) if stated else None
        except ValueError:
            return None

    # --- fault tolerance ------------------------------------------------------------------------------------------

    @cached_property
    def form(self) -> Form:
        if isinstance(self.get(OPTIONS), dict):
            return Form.OPTIONS
        if str(self.resource.annotations.get(FT_ANNOTATION, "")).lower() == "true":
            return Form.ANNOTATION
        return Form.ADDRESS_ONLY if env_of(self.head_container, "RAY_REDIS_ADDRESS") else Form.NONE

    @property
    def embedded(self) -> bool:
        """Whether the metadata is kept in RocksDB on a volume instead of in Redis."""
        return bool(self.get(OPTIONS, "backend") == "rocksdb")

    @property
    def form_place(self) -> Place:
        """Where fault tolerance is asked for, or would be."""
        match self.form:
            case Form.ANNOTATION:
                return self.resource.place("metadata", "annotations", FT_ANNOTATION)
            case Form.ADDRESS_ONLY:
                found = self.head_env("RAY_REDIS_ADDRESS")
                return found[0] if found else self.place()
            case _:
                return self.place(OPTIONS, shows=OPTIONS if self.form is Form.OPTIONS else "not set")

    @cached_property
    def pruned(self) -> Place | None:
        """Evidence that the options were applied and the API server dropped them in silence."""
        try:
            applied = json.loads(self.resource.annotations.get(_LAST_APPLIED, ""))
        except ValueError:
            return None
        if self.form is Form.OPTIONS or not isinstance(at(applied, *self.base, OPTIONS), dict):
            return None
        return self.resource.place(
            "metadata", "annotations", _LAST_APPLIED, shows=f"{OPTIONS} was applied, and the object doesn't have it"
        )

    @cached_property
    def address(self) -> Address | None:
        """Redis' address: the first, which is the only one that Ray uses. None when there is none, or it isn't plain."""
        if self.form is Form.OPTIONS:
            text, place = str(self.get(OPTIONS, "redisAddress") or ""), self.place(OPTIONS, "redisAddress")
        else:
            found = self.head_env("RAY_REDIS_ADDRESS")
            text, place = ((found[1] or ""), found[0]) if found else ("", self.form_place)
        return parse_address(text, self.namespace, place) if text else None

    @cached_property
    def password(self) -> tuple[Password, Place]:
        """Where the password comes from."""
        if self.form is Form.OPTIONS:
            given = self.get(OPTIONS, "redisPassword")
            if not given:
                return Password.NONE, self.place(OPTIONS, "redisPassword")
            if at(given, "valueFrom"):
                return Password.SECRET, self.place(OPTIONS, "redisPassword", "valueFrom")
            return Password.PLAIN, self.place(OPTIONS, "redisPassword", "value", shows="(a password)")
        if found := self.head_env("REDIS_PASSWORD"):
            return Password.SECRET if found[1] is None else Password.PLAIN, found[0]
        parameter = self.get("headGroupSpec", "rayStartParams", "redis-password")
        if parameter:
            by_name = str(parameter).startswith("$")
            path = ("headGroupSpec", "rayStartParams", "redis-password")
            return Password.SECRET if by_name else Password.PLAIN, self.place(
                *path, shows="" if by_name else "(a password)"
            )
        return Password.NONE, self.place("headGroupSpec", "rayStartParams", "redis-password")

    @property
    def storage_namespace(self) -> tuple[str, Place] | None:
        """The key namespace in Redis where somebody chose it; otherwise it is the RayCluster's UID."""
        if chosen := self.get(OPTIONS, "externalStorageNamespace"):
            return str(chosen), self.place(OPTIONS, "externalStorageNamespace")
        if (found := self.head_env("RAY_external_storage_namespace")) and found[1]:
            return found[1], found[0]
        if chosen := self.resource.annotations.get(NAMESPACE_ANNOTATION):
            return str(chosen), self.resource.place("metadata", "annotations", NAMESPACE_ANNOTATION)
        return None

    def worker_timeout(self) -> tuple[float | None, list[Place]]:
        """The shortest time that any group of workers waits for the GCS; None when one can't be told."""
        shortest, places = INJECTED_TIMEOUT, []
        for number, group in enumerate(self.worker_groups):
            found = env_of(at(group, "template", "spec", "containers", 0), TIMEOUT_ENV)
            if found is None:
                continue
            position, entry = found
            path: tuple[Step, ...] = ("workerGroupSpecs", number, "template", "spec", "containers", 0, "env", position)
            places.append(self.place(*path))
            try:
                shortest = min(shortest, float(entry["value"]))
            except (KeyError, TypeError, ValueError):
                return None, places
        return shortest, places


def ray_clusters(estate: Estate) -> list[RayCluster]:
    """All of them. Where the RayCluster of a RayJob or RayService is here, it stands for what made it."""
    clusters = [RayCluster(r, _SPEC["RayCluster"]) for r in estate.of("RayCluster")]
    made = {owner.get("uid") for c in clusters for owner in c.resource.metadata.get("ownerReferences") or []}
    templates = [
        RayCluster(r, _SPEC[r.kind])
        for r in estate.of("RayJob", "RayService")
        if at(r.obj, *_SPEC[r.kind]) and (not r.metadata.get("uid") or r.metadata["uid"] not in made)
    ]
    return clusters + templates


def parse_address(text: str, home: str, place: Place) -> Address:
    """An address as Ray reads it: HOST:PORT, with or without a scheme, the first of a list."""
    first = text.split(",", maxsplit=1)[0].strip()
    parts = urlsplit(first if "://" in first else f"redis://{first}")
    try:
        port = parts.port or REDIS_PORT
    except ValueError:
        port = REDIS_PORT
    host = parts.hostname or ""
    words = host.rstrip(".").split(".")
    inside = len(words) <= 2 or (len(words) > 2 and words[2] == "svc")
    if len(words) == 4 and all(word.isdigit() for word in words):
        inside = False
    if len(words) == 2 and words[1] in {"com", "net", "org", "io", "dev", "local", "internal"}:
        inside = False
    # A member of a StatefulSet by its own name: POD.SERVICE.NAMESPACE.svc
    if len(words) > 3 and words[3] == "svc":
        words, inside = words[1:], True
    service, namespace = (words[0], words[1] if len(words) > 1 else home) if inside and host else (None, None)
    return Address(text, host, port, service, namespace, place)
