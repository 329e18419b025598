"""The ``audit`` verb: read, judge, report."""

from __future__ import annotations

import argparse

from packaging.version import InvalidVersion, Version

from chaos import read_only
from chaos.audit import report
from chaos.audit.item import Inputs, on_redis
from chaos.audit.judge import exit_code, findings, measured_recovery
from chaos.audit.redis_look import look
from chaos.errors import UsageError
from chaos.estate import manifests
from chaos.estate.estate import Estate
from chaos.estate.raycluster import ray_clusters
from chaos.snapshot import take

_RENDER = {"text": report.text, "json": report.as_json, "sarif": report.sarif}


def audit(arguments: argparse.Namespace) -> tuple[str, int]:
    """The report and the exit code. Raises UsageError for what can't be read, and where there is nothing to judge."""
    live = read_only.given(arguments)
    if bool(arguments.paths) == live:
        raise UsageError("audit needs manifests or a cluster, one of them", fix="give PATH…, or --context NAME")
    if arguments.redis and not live:
        raise UsageError("--redis asks a live cluster", fix="give --context NAME")
    recovery = measured_recovery(arguments.measured) if arguments.measured else None
    kuberay = _version(arguments.kuberay)
    said = None
    if live:
        cluster = read_only.cluster(arguments)
        estate = take.objects(cluster).estate(kuberay=kuberay)
    else:
        estate = Estate(tuple(manifests.read(arguments.paths)), kuberay=kuberay)
    subjects = tuple(ray_clusters(estate))
    if not subjects:
        raise UsageError(
            "there is no RayCluster, RayJob or RayService to judge", fix="give the files, or the cluster, that have one"
        )
    inputs = Inputs(
        estate,
        subjects,
        recovery=recovery,
        state_outside={"yes": True, "no": False}.get(arguments.state_outside or ""),
    )
    if arguments.redis:
        said = {str(subject): look(cluster, subject, estate) for subject in subjects if on_redis(subject, inputs)}
        inputs = Inputs(estate, subjects, recovery, inputs.state_outside, said)
    found = findings(inputs)
    return _RENDER[arguments.format](found), exit_code(found)


def _version(text: str | None) -> str:
    try:
        return str(Version(text)) if text else ""
    except InvalidVersion as error:
        raise UsageError(f"--kuberay {text!r} is no version", fix="give three numbers, as in 1.6.2") from error
