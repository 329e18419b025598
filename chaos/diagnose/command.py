"""The ``diagnose`` verb: of a live cluster or a bundle, the Ray clusters' causes, or where one RayJob stands."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from chaos import read_only
from chaos.diagnose.case import Case, Cause
from chaos.diagnose.causes import named
from chaos.diagnose.rayjob import standing
from chaos.errors import UsageError
from chaos.estate.estate import Estate
from chaos.estate.raycluster import RayCluster, ray_clusters
from chaos.estate.resource import Resource
from chaos.snapshot import bundle, take
from chaos.snapshot.snapshot import Snapshot

_RAYJOB = "rayjob"


def diagnose(arguments: argparse.Namespace) -> tuple[str, int]:
    """The report, and 0 when nothing is wrong, 1 when something is, 2 when something could not be looked at."""
    words = list(arguments.words)
    file = Path(words.pop(0)) if words and _is_bundle(words[0], arguments) else None
    as_json = arguments.format == "json"
    wants_job = words[:1] == [_RAYJOB]
    if len(words) > (2 if wants_job else 1) or words == [_RAYJOB]:
        raise UsageError(
            f"{' '.join(words)!r} names more, or less, than one thing",
            fix="diagnose [BUNDLE] [RAYCLUSTER], or diagnose [BUNDLE] rayjob NAME",
        )
    snapshot = bundle.read(file) if file else take.whole(read_only.cluster(arguments))
    estate = snapshot.estate()
    if wants_job:
        return _of_rayjob(_one(estate, "RayJob", words[1]), estate, snapshot, as_json=as_json)
    return _of_clusters(_chosen(estate, words), estate, snapshot, as_json=as_json)


def _is_bundle(word: str, arguments: argparse.Namespace) -> bool:
    if read_only.given(arguments):
        return False
    looks = Path(word).exists() or word.endswith((".tar", ".gz", ".tgz"))
    if looks and not Path(word).exists():
        raise UsageError(f"there is no bundle {word}", fix="make one with `kuberay-chaos bundle -o FILE`")
    return looks


def _of_rayjob(rayjob: Resource, estate: Estate, snapshot: Snapshot, *, as_json: bool) -> tuple[str, int]:
    found = standing(rayjob, estate, snapshot)
    report = json.dumps(found.as_json(), indent=2) if as_json else str(found)
    return report, 1 if found.disagrees else 0


def _of_clusters(clusters: list[RayCluster], estate: Estate, snapshot: Snapshot, *, as_json: bool) -> tuple[str, int]:
    causes = {str(cluster): named(Case(cluster, estate, snapshot)) for cluster in clusters}
    if as_json:
        listed = [{"subject": subject, **c.as_json()} for subject, found in causes.items() for c in found]
        report = json.dumps(listed, indent=2)
    else:
        report = "\n".join(_told(subject, found) for subject, found in causes.items())
        report += "".join(f"\nnot looked at: {kind}: {why}" for kind, why in snapshot.missing.items())
    if any(causes.values()):
        return report, 1
    return report, 2 if snapshot.missing else 0


def _told(subject: str, causes: list[Cause]) -> str:
    lines = [subject] if causes else [f"{subject}: nothing wrong was found"]
    for cause in causes:
        lines.append(f"  {cause.title} ({cause.id}): {cause.reason}")
        lines += [f"    at {place}" for place in cause.evidence]
        lines.append(f"    fix: {cause.fix}")
    return "\n".join(lines)


def _chosen(estate: Estate, words: list[str]) -> list[RayCluster]:
    found = [cluster for cluster in ray_clusters(estate) if cluster.resource.kind == "RayCluster"]
    if words:
        wanted = _one(estate, "RayCluster", words[0])
        return [cluster for cluster in found if cluster.resource is wanted]
    if not found:
        raise UsageError("there is no RayCluster", fix="see that this is the right cluster, or the right bundle")
    return found


def _one(estate: Estate, kind: str, text: str) -> Resource:
    """The object of that name, with its namespace where the name alone doesn't tell. Raises UsageError."""
    namespace, _, name = text.rpartition("/")
    found = [r for r in estate.of(kind) if r.name == name and (not namespace or r.namespace == namespace)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"there are {len(found)} {kind}s of the name {name}",
            fix="say " + " or ".join(f"{r.namespace}/{r.name}" for r in found),
        )
    there = ", ".join(f"{r.namespace}/{r.name}" for r in estate.of(kind)) or "none"
    raise UsageError(f"there is no {kind} {text}", fix=f"these are there: {there}")
