"""One Ray cluster in a snapshot, with what every cause looks at: its pods, their logs, its events, its Redis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chaos.estate import redis
from chaos.estate.estate import Estate, env_of
from chaos.estate.raycluster import INJECTED_TIMEOUT, TIMEOUT_ENV, Form, RayCluster
from chaos.estate.redis import Redis
from chaos.estate.resource import Object, Place, Resource, at
from chaos.history.objects import is_ready, restart_count
from chaos.snapshot.snapshot import Snapshot

_SHOWN = 300  # characters of a log line


@dataclass(frozen=True)
class Cause:
    """What is wrong, the evidence that it is so, and what to do. ``id`` is a name to match on."""

    id: str
    title: str
    reason: str
    evidence: tuple[Place, ...]
    fix: str

    def as_json(self) -> Object:
        """A dict of JSON types."""
        return {
            "cause": self.id,
            "title": self.title,
            "reason": self.reason,
            "evidence": [place.as_json() for place in self.evidence],
            "fix": self.fix,
        }


@dataclass(frozen=True)
class Line:
    """A line of a log that says something."""

    place: Place
    text: str


@dataclass(frozen=True)
class Case:
    """One Ray cluster."""

    cluster: RayCluster
    estate: Estate
    snapshot: Snapshot

    def _pods(self, node_type: str) -> list[Resource]:
        wanted = {"ray.io/cluster": self.cluster.name, "ray.io/node-type": node_type}.items()
        return [
            p for p in self.estate.of("Pod") if p.namespace == self.cluster.namespace and wanted <= p.labels.items()
        ]

    @cached_property
    def heads(self) -> list[Resource]:
        return self._pods("head")

    @cached_property
    def workers(self) -> list[Resource]:
        return self._pods("worker")

    @cached_property
    def cleaners(self) -> list[Resource]:
        """Pods of the Job that cleans Redis up when the cluster is deleted."""
        return self._pods("redis-cleanup")

    @property
    def head_ready(self) -> bool:
        return any(is_ready(head.obj) for head in self.heads)

    @property
    def ft_effective(self) -> bool:
        """Whether the head that runs was made with fault tolerance: its own annotation and environment say so."""
        return any(
            head.annotations.get("ray.io/ft-enabled") == "true"
            and env_of(head.get("spec", "containers", 0), "RAY_REDIS_ADDRESS")
            for head in self.heads
        ) or (not self.heads and self.cluster.form in (Form.OPTIONS, Form.ANNOTATION))

    @cached_property
    def redis(self) -> Redis | None:
        """The Redis at its address."""
        return redis.find(self.cluster, self.estate)

    @cached_property
    def redis_pods(self) -> list[Resource]:
        """The pods behind that address."""
        service = self.redis.service if self.redis else None
        return self.estate.pods_behind(service) if service else []

    def events(self, *reasons: str) -> Iterator[tuple[Resource, Place]]:
        """Events about the RayCluster, or what made it, with these reasons."""
        about = {
            self.cluster.name,
            *(o.get("name") for o in self.cluster.resource.metadata.get("ownerReferences") or []),
        }
        for event in self.estate.of("Event"):
            involved = at(event.obj, "involvedObject") or at(event.obj, "regarding") or {}
            if (
                event.get("reason") in reasons
                and involved.get("name") in about
                and (involved.get("namespace", event.namespace) == self.cluster.namespace)
            ):
                message = str(event.get("message") or event.get("note") or "")
                yield event, event.place("message", shows=f"{event.get('reason')}: {message}"[:_SHOWN])

    def lines(self, pods: list[Resource], pattern: re.Pattern[str], *, most: int = 2) -> list[Line]:
        """The last lines of pods' logs that match: ``most`` of each log."""
        found: list[Line] = []
        for pod in pods:
            for of, text in self.snapshot.log(pod).items():
                which = f"log of {of.container}" + (" before its restart" if of.previous else "")
                matching = [line.strip() for line in text.splitlines() if pattern.search(line)][-most:]
                found += [
                    Line(Place(self.snapshot.source, None, str(pod), which, line[-_SHOWN:]), line) for line in matching
                ]
        return found

    def lost(self, pods: list[Resource]) -> list[tuple[Resource, Place]]:
        """Pods whose container ended by itself and was started again, with the place that says how."""
        found = []
        for pod in pods:
            for number, status in enumerate(pod.get("status", "containerStatuses") or []):
                ended = at(status, "lastState", "terminated")
                if restart_count(pod.obj, status.get("name")) and ended:
                    shows = f"exit code {ended.get('exitCode')} at {ended.get('finishedAt')}, restarted in place"
                    found.append(
                        (pod, pod.place("status", "containerStatuses", number, "lastState", "terminated", shows=shows))
                    )
        return found

    def worker_timeout(self, worker: Resource) -> tuple[float, Place]:
        """How long a worker's pod waits for the GCS."""
        found = env_of(worker.get("spec", "containers", 0), TIMEOUT_ENV)
        if found is None:
            # Ray's own default; KubeRay sets its value in the pod where fault tolerance is on.
            return 60.0, worker.place(
                "spec", "containers", 0, "env", shows=f"{TIMEOUT_ENV} isn't set: Ray's default, 60"
            )
        number, entry = found
        try:
            return float(entry["value"]), worker.place("spec", "containers", 0, "env", number)
        except (KeyError, ValueError):
            return INJECTED_TIMEOUT, worker.place("spec", "containers", 0, "env", number)

    @property
    def record(self) -> Mapping[str, Any]:
        """Ray's own record."""
        return self.snapshot.record(self.cluster.namespace, self.cluster.name)
