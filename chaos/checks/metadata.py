"""FT-3: what the GCS knew of the cluster before the head was lost, its successor knows as well.

A metadata probe's value is ``{"actors": [NAME], "value": TEXT or null, "groups": {NAME: {"state", "nodes": [ID]}},
"nodes": {ID: "head" or "worker"}}``: named actors, one key of the internal store, placement groups, living nodes. The job probe
is Ray's record of one submission, with status ``ABSENT`` when there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Probe
from chaos.verdict import Finding, Outcome


def _around(history: History, name: str, **target: str) -> tuple[Probe, Probe]:
    """The last answer before the first fault, and the last of all, after it."""
    since = facts.applied_at(facts.applied(history)[0])
    answers = [probe for probe in history.probes(name, **target) if probe.ok]
    before = [answer for answer in answers if answer.t <= since]
    after = [answer for answer in answers if facts.began(answer) > since]
    if not before:
        raise Unjudged(f"{name} was not read before the fault")
    if not after:
        raise Unjudged(f"{name} was not read after the fault")
    return before[-1], after[-1]


@check
def metadata_kept(history: History, *, namespace: str, cluster: str) -> Finding:
    """Actor names, the stored value, placed groups and worker nodes are as before, and one new head is listed."""
    before, after = _around(history, "metadata", namespace=namespace, cluster=cluster)
    if not (before.value["actors"] and before.value["value"] and before.value["groups"]):
        raise Unjudged("there was nothing to remember before the fault")
    seen = (facts.probe_evidence(before, _told(before.value)), facts.probe_evidence(after, _told(after.value)))
    if wrong := list(_differences(before.value, after.value)):
        return Finding(Outcome.BROKEN, "; ".join(wrong), seen)
    return Finding(Outcome.HOLDS, f"remembered: {_told(after.value)}", seen)


def _differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    if lost := sorted(set(before["actors"]) - set(after["actors"])):
        yield f"actor names lost: {', '.join(lost)}"
    if before["value"] != after["value"]:
        yield f"stored value {before['value']}→{after['value'] or '(none)'}"
    for name, group in before["groups"].items():
        now = after["groups"].get(name)
        if now != group:
            yield f"placement group {name}: {_group(group)}→{_group(now) if now else 'gone'}"
    if _nodes(before, "worker") != _nodes(after, "worker"):
        yield f"worker nodes {_short(_nodes(before, 'worker'))}→{_short(_nodes(after, 'worker')) or '(none)'}"
    heads = _nodes(after, "head")
    if len(heads) != 1 or heads == _nodes(before, "head"):
        yield f"head nodes {_short(_nodes(before, 'head'))}→{_short(heads) or '(none)'}, one new one expected"


def _nodes(value: dict[str, Any], kind: str) -> set[str]:
    return {node for node, is_ in value["nodes"].items() if is_ == kind}


def _short(nodes: set[str]) -> str:
    return ", ".join(sorted(node[:8] for node in nodes))


def _group(group: dict[str, Any]) -> str:
    return f"{group['state']} on {_short(set(group['nodes']))}"


def _told(value: dict[str, Any]) -> str:
    groups = ", ".join(f"{name} {_group(group)}" for name, group in value["groups"].items()) or "none"
    workers = facts.plural(len(_nodes(value, "worker")), "worker")
    return f"actors {', '.join(value['actors']) or 'none'}, value {value['value']}, groups {groups}, {workers}"


@check
def job_remembered(history: History, *, namespace: str, cluster: str, submission_id: str) -> Finding:
    """Ray had a record of the job before the fault and has one when last asked, whatever it says of the job's end."""
    before, after = _around(history, "job", namespace=namespace, cluster=cluster, submission_id=submission_id)
    was, is_ = before.value["status"], after.value["status"]
    if was == "ABSENT":
        raise Unjudged(f"Ray had no record of job {submission_id} before the fault")
    seen = (facts.probe_evidence(before, f"job {was}"), facts.probe_evidence(after, f"job {is_}"))
    if is_ == "ABSENT":
        return Finding(Outcome.BROKEN, f"Ray has no record of job {submission_id} any more", seen)
    return Finding(Outcome.HOLDS, f"Ray's record of job {submission_id}: {was}→{is_}", seen)
