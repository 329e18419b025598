"""OP-2 and OP-3: a RayJob has one submitter Job, whatever happened to the operator."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Lifetime
from chaos.verdict import Evidence, Finding, Outcome


def submitter_jobs(history: History, namespace: str, rayjob: str) -> list[Lifetime]:
    """Every batch Job that was seen to submit for the RayJob: named like it, or labelled as made for it."""
    named = history.objects("jobs", namespace=namespace, name=rayjob)
    labelled = history.objects("jobs", namespace=namespace, labels={"ray.io/originated-from-cr-name": rayjob})
    return facts.seen_in(history, {job.uid: job for job in (*named, *labelled)}.values())


def _first_seen(job: Lifetime) -> Evidence:
    return facts.evidence(job.states[0], f"submitter Job {job.name}, UID {job.uid}")


@check
def one_submitter_job(history: History, *, namespace: str, rayjob: str) -> Finding:
    """One UID was ever seen, and the API server's audit log, if there is one, has no second create that succeeded."""
    jobs = submitter_jobs(history, namespace, rayjob)
    seen = tuple(_first_seen(job) for job in jobs)
    if len(jobs) > 1:
        return Finding(Outcome.BROKEN, f"{len(jobs)} submitter Jobs: UIDs {', '.join(job.uid for job in jobs)}", seen)
    creates = [
        request
        for request in history.audits(verb="create", resource="jobs", namespace=namespace, name=rayjob)
        if request.t >= history.since and 200 <= request.code < 300
    ]
    audited = tuple(Evidence(each.n, each.t, f"create jobs/{rayjob} answered {each.code}") for each in creates)
    if len(creates) > 1:
        reason = f"the API server created the submitter Job {rayjob} {len(creates)} times"
        return Finding(Outcome.BROKEN, reason, seen + audited)
    if not jobs:
        raise Unjudged(f"no submitter Job of {rayjob} was ever seen")
    facts.no_gap(history, "jobs", history.since, history.until)
    by = "watch and audit log" if creates else "watch"
    return Finding(Outcome.HOLDS, f"one submitter Job ever, UID {jobs[0].uid} ({by})", seen + audited)


@check
def same_job_reused(history: History, *, namespace: str, rayjob: str) -> Finding:
    """The submitter Job that existed when the operator was killed is the one at the end.

    What was seen before a new operator ran counts as existing: nobody else can have made it.
    """
    kill = facts.operator_kill(history)
    at = facts.applied_at(kill)
    jobs = submitter_jobs(history, namespace, rayjob)
    restarted = facts.new_operator(history, kill).t
    before = [job for job in jobs if job.born < restarted and (job.gone is None or job.gone > at)]
    if not before:
        raise Unjudged(f"no submitter Job of {rayjob} existed when the operator was killed")
    job = before[0]
    known = (facts.fault_evidence(kill), _first_seen(job))
    others = [other for other in jobs if other.uid != job.uid]
    if others:
        reason = f"another submitter Job was made: UID {job.uid} before, {others[-1].uid} after the kill"
        return Finding(Outcome.BROKEN, reason, (*known, _first_seen(others[-1])))
    if job.gone is not None:
        reason = f"submitter Job {job.uid} was deleted {job.gone - at:.1f} s after the kill"
        return Finding(Outcome.BROKEN, reason, (*known, facts.evidence(job.latest, "submitter Job deleted")))
    facts.no_gap(history, "jobs", at, history.until)
    return Finding(
        Outcome.HOLDS,
        f"submitter Job {job.uid} existed at the kill and is the one at the end",
        (*known, facts.evidence(job.latest, "its last state")),
    )
