"""FT-6: a driver on the head is lost with it, and Ray's record of the job says so.

The job probe's value is Ray's record of one submission, ``status`` (``ABSENT`` when Ray has no record) and
``message``, and ``driver_pid``: the driver's process as it was found in the head's container, null when there was
none.
"""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Probe
from chaos.verdict import Evidence, Finding, Outcome


def _records(history: History, namespace: str, cluster: str, submission_id: str) -> tuple[Probe, list[Probe]]:
    """The last record before the first fault, which must say RUNNING, and all records asked for after it."""
    since = facts.applied_at(facts.applied(history)[0])
    probes = history.probes("job", namespace=namespace, cluster=cluster, submission_id=submission_id)
    records = [probe for probe in probes if probe.ok]
    before = [record for record in records if record.t <= since]
    after = [record for record in records if facts.began(record) >= since]
    if not before or before[-1].value["status"] != "RUNNING":
        found = before[-1].value["status"] if before else "not probed"
        raise Unjudged(f"job {submission_id} was not running at the fault: {found}")
    if not after:
        raise Unjudged(f"no record of job {submission_id} was read after the fault")
    return before[-1], after


def _evidence(record: Probe) -> Evidence:
    value = record.value
    message = f": {value['message']}" if value.get("message") else ""
    return facts.probe_evidence(record, f"job {value['status']}{message}")


@check
def job_failed(history: History, *, namespace: str, cluster: str, submission_id: str) -> Finding:
    """The job ran at the fault and ends FAILED, or Ray has lost its record; it never says SUCCEEDED."""
    before, after = _records(history, namespace, cluster, submission_id)
    for record in after:
        if record.value["status"] == "SUCCEEDED":
            return Finding(
                Outcome.BROKEN, f"job {submission_id} ended SUCCEEDED", (_evidence(before), _evidence(record))
            )
    last = after[-1]
    seen = (_evidence(before), _evidence(last))
    if last.value["status"] == "FAILED":
        return Finding(Outcome.HOLDS, f"job {submission_id} ended FAILED", seen)
    if last.value["status"] == "ABSENT":
        return Finding(Outcome.HOLDS, f"Ray has no record of job {submission_id} any more", seen)
    raise Unjudged(f"job {submission_id} had not ended when last asked: {last.value['status']}")


@check
def driver_gone(history: History, *, namespace: str, cluster: str, submission_id: str) -> Finding:
    """The driver that ran at the fault isn't a process any more.

    It is gone for certain when the head's container is a new run, since nothing outlives its container; in a new
    container the same number may be handed out again, so numbers are compared only within one run.
    """
    before, after = _records(history, namespace, cluster, submission_id)
    pid = before.value.get("driver_pid")
    if pid is None:
        raise Unjudged(f"no driver process of job {submission_id} was found before the fault")
    since = facts.applied_at(facts.applied(history)[0])
    last = after[-1]
    seen = (_evidence(before), _evidence(last))
    new = facts.head_runs_since(history, namespace, cluster, since)
    if new:
        reason = f"driver pid {pid} went with its head container"
        return Finding(
            Outcome.HOLDS, reason, (*seen, facts.evidence(new[0].seen, f"new run of head {new[0].pod.name}"))
        )
    if last.value.get("driver_pid") == pid:
        return Finding(Outcome.BROKEN, f"driver pid {pid} still runs in the same head container", seen)
    facts.no_gap(history, "pods", since, last.t)
    return Finding(Outcome.HOLDS, f"driver pid {pid} is gone, its head container is not", seen)
