"""OP-1 and OP-2: where the RayJob's status stood when the operator was killed, and that it moved on."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.checks.submitter import submitter_jobs
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Finding, Outcome

# The way of a job that goes well. Anything else (Failed, Retrying, Suspended …) is off it.
_WAY = ("", "Initializing", "Waiting", "Running", "Complete")


@check
def status_moved_on(history: History, *, namespace: str, rayjob: str, to: str, within: float = 60.0) -> Finding:
    """After the operator was killed, jobDeploymentStatus reached ``to``, or a later stage of a job that goes well.

    Never is said only ``within`` seconds after the kill: the lease of the dead leader runs 15 s, the new one retries
    every 2 s, its container needs some seconds to start and a reconcile comes every 3 s; the rest is slack for a small
    machine.
    """
    if to not in _WAY:
        raise Unjudged(f"{to} is no stage of a job that goes well")
    kill = facts.operator_kill(history)
    at = facts.applied_at(kill)
    job = facts.rayjob_at(history, namespace, rayjob, at)
    at_kill = job.at(at)
    stage = facts.status(at_kill.object, "jobDeploymentStatus") if at_kill else ""
    if stage in _WAY and _WAY.index(stage) >= _WAY.index(to):
        raise Unjudged(f"{rayjob} was already {stage} when the operator was killed")
    for state in job.states:
        now = facts.status(state.object, "jobDeploymentStatus")
        if state.t > at and now in _WAY and _WAY.index(now) >= _WAY.index(to):
            took = round(state.t - at, 3)
            return Finding(
                Outcome.HOLDS,
                f"{rayjob} went from {stage or 'New'} to {now} {took:.1f} s after the kill",
                (facts.fault_evidence(kill), facts.evidence(state, f"jobDeploymentStatus {now}")),
                {"status_moved_on": took},
            )
    facts.no_gap(history, "rayjobs", at, history.until)
    if (watched := history.until - at) < within:
        raise Unjudged(f"too early to tell: watched {watched:.0f} s of {within:.0f} s after the kill")
    last = facts.status(job.latest.object, "jobDeploymentStatus") or "New"
    return Finding(
        Outcome.BROKEN,
        f"{rayjob} never reached {to}: it is {last} {watched:.0f} s after the kill",
        (facts.fault_evidence(kill), facts.evidence(job.latest, f"jobDeploymentStatus {last}")),
    )


@check
def operator_killed_in_window(history: History, *, namespace: str, rayjob: str) -> Finding:
    """The kill fell where OP-2 wants it: the submitter Job existed and the status still said Initializing.

    It must have said so until a new operator's container ran. A kill that missed shows nothing about the claim, so
    this check says holds or unknown, never broken. The Job counts as there when it was seen before a new operator ran:
    nobody else can have made it.
    """
    kill = facts.operator_kill(history)
    at, new = facts.applied_at(kill), facts.new_operator(history, kill)
    job = next((job for job in submitter_jobs(history, namespace, rayjob) if job.born < new.t), None)
    if job is None:
        raise Unjudged("missed the window: the submitter Job did not exist when the operator was killed")
    lifetime = facts.rayjob_at(history, namespace, rayjob, at)
    at_kill = lifetime.at(at)
    between = [state for state in lifetime.states if at < state.t < new.t]
    for state in ([at_kill] if at_kill else []) + between:
        stage = facts.status(state.object, "jobDeploymentStatus") or "New"
        if stage != "Initializing":
            raise Unjudged(f"missed the window: {rayjob} was {stage} before the new operator ran")
    facts.no_gap(history, "rayjobs", at, new.t)
    return Finding(
        Outcome.HOLDS,
        "the submitter Job existed and the status said Initializing from the kill until the new operator ran",
        (
            facts.fault_evidence(kill),
            facts.evidence(job.states[0], f"submitter Job UID {job.uid}"),
            facts.evidence(new, "new operator runs"),
        ),
    )
