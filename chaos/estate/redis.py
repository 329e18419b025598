"""The Redis that a Ray cluster uses, as far as it can be seen among the objects: Service, workload, volumes, settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from chaos.estate.estate import Estate, pod_labels
from chaos.estate.policies import End
from chaos.estate.raycluster import Address, RayCluster
from chaos.estate.resource import Place, Resource, at

_REPLICATION = re.compile(r"replicaof|slaveof|sentinel|REDIS_REPLICATION_MODE|cluster-enabled\s+yes", re.IGNORECASE)
_SERVER_PASSWORD = re.compile(
    r"requirepass|aclfile|REDIS_PASSWORD|REDIS_ACL|--user\s|ACL SETUSER|masterauth", re.IGNORECASE
)
_EMPTY_PASSWORD = re.compile(
    r"ALLOW_EMPTY_PASSWORD['\"]?,\s*'value':\s*['\"]?(yes|true)|protected-mode\s+no", re.IGNORECASE
)
_SHARDED = re.compile(r"cluster-enabled['\"]?,?\s*['\"]?\s*yes", re.IGNORECASE)
_AOF = re.compile(r"appendonly['\"]?,?\s*['\"]?\s*(yes|no)", re.IGNORECASE)
_NO_SNAPSHOTS = re.compile(r"""save['"]?,?\s+["'\\]*["']{2}|save\s+\\?["']\\?["']""", re.IGNORECASE)


class Persistence(StrEnum):
    """Whether the data outlives the pod."""

    LOG = "append-only file on a volume"
    SNAPSHOTS = "a volume, and at most snapshots"
    OFF = "off"
    NO_VOLUME = "no volume"


@dataclass(frozen=True)
class Redis:
    """What was found. ``service`` and ``workload`` are None where they weren't."""

    address: Address
    service: Resource | None
    workload: Resource | None
    estate: Estate

    @property
    def replicas(self) -> int:
        """How many servers are wanted."""
        stated = self.workload.get("spec", "replicas") if self.workload else None
        return 1 if stated is None else int(stated)

    @property
    def text(self) -> str:
        """All that configures it."""
        return self.estate.text_of(self.workload) if self.workload else ""

    @property
    def replicated(self) -> bool:
        """Whether its settings speak of replicas, so that the servers aren't strangers to each other."""
        return bool(_REPLICATION.search(self.text))

    @property
    def sharded(self) -> bool:
        """Whether it runs in cluster mode."""
        return bool(_SHARDED.search(self.text))

    @property
    def asks_password(self) -> bool | None:
        """Whether the server wants a password; None when its settings don't tell."""
        if _EMPTY_PASSWORD.search(self.text) and not _SERVER_PASSWORD.search(self.text):
            return False
        return bool(_SERVER_PASSWORD.search(self.text))

    @property
    def persistence(self) -> Persistence:
        """Whether the data outlives the pod."""
        if self._on_volume is None:
            return Persistence.NO_VOLUME
        said = [word.lower() for word in _AOF.findall(self.text)]
        if "yes" in said:
            return Persistence.LOG
        return Persistence.OFF if _NO_SNAPSHOTS.search(self.text) else Persistence.SNAPSHOTS

    @property
    def _on_volume(self) -> Place | None:
        if self.workload is None:
            return None
        if self.workload.get("spec", "volumeClaimTemplates"):
            return self.workload.place("spec", "volumeClaimTemplates", 0, shows="a volume for each member")
        for number, volume in enumerate(self.workload.get("spec", "template", "spec", "volumes") or []):
            if at(volume, "persistentVolumeClaim") or at(volume, "ephemeral"):
                return self.workload.place("spec", "template", "spec", "volumes", number, shows="a volume")
        return None

    @property
    def end(self) -> End | None:
        """A server's pod, as network policies see it."""
        if self.workload is None:
            return None
        namespace = self.workload.namespace or (self.address.namespace or "")
        return End(namespace, pod_labels(self.workload))

    @property
    def pod_port(self) -> int:
        """The port of the pod that the address leads to."""
        for port in (self.service.get("spec", "ports") or []) if self.service else []:
            target = port.get("targetPort")
            if port.get("port") == self.address.port and isinstance(target, int):
                return target
        return self.address.port


def find(cluster: RayCluster, estate: Estate) -> Redis | None:
    """The Redis at the cluster's address; None when the cluster names no address."""
    address = cluster.address
    if address is None:
        return None
    service = workload = None
    if address.service is not None:
        service = estate.service(address.service, address.namespace or "")
        if service is not None:
            workload = next(iter(estate.behind(service)), None)
    return Redis(address, service, workload, estate)
