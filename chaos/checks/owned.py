"""OP-11: what a RayJob owns goes with it, and with nothing else.

Owned is what the owner references say, at any depth, by UID: the Ray cluster, the submitter Job, their pods and services.
"""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Lifetime, State, is_terminating, owners
from chaos.verdict import Finding, Outcome

_RESOURCES = ("rayclusters", "jobs", "services", "pods")


@check
def owned_gone(history: History, *, namespace: str, rayjob: str, within: float = 30.0) -> Finding:
    """The RayJob and all that it owned at the first fault are gone ``within`` seconds after it.

    Pods have a grace period of 5 s here; 6.7 s were measured for all of it.
    """
    fault = facts.applied(history)[0]
    since = facts.applied_at(fault)
    job, owned = _owned(history, namespace, rayjob, since)
    everything = [job, *owned]
    gone = [each for each in everything if each.gone is not None and each.gone <= since + within]
    seen = (facts.fault_evidence(fault), *(facts.evidence(each.latest, f"{_told(each)} gone") for each in gone))
    left = [each for each in everything if each not in gone]
    if not left:
        took = round(max(each.latest.t for each in gone) - since, 3)
        reason = f"{rayjob} and all it owned ({_counted(owned)}) were gone {took:.1f} s after the fault"
        return Finding(Outcome.HOLDS, reason, seen, {"owned_gone": took})
    if history.until < since + within:
        raise Unjudged(f"too early to tell: watched {history.until - since:.0f} s of {within:.0f} s")
    for resource in ("rayjobs", *_RESOURCES):
        facts.no_gap(history, resource, since, since + within)
    reason = f"{within:.0f} s after the fault there still was {', '.join(map(_told, left))}"
    return Finding(Outcome.BROKEN, reason, seen)


@check
def owned_kept(history: History, *, namespace: str, rayjob: str, within: float = 40.0) -> Finding:
    """From the first kill of the operator to the end nothing of what the RayJob owned was deleted, nor it itself.

    A successor acts only when it leads, up to 17 s after it starts: so ``within`` seconds after it was seen to run are watched.
    """
    kill = facts.operator_kill(history)
    since = facts.applied_at(kill)
    job, owned = _owned(history, namespace, rayjob, since)
    for each in (job, *owned):
        if lost := _deletion(each, since):
            reason = f"{_told(each)} was deleted {lost.t - since:.1f} s after the operator was killed"
            return Finding(
                Outcome.BROKEN, reason, (facts.fault_evidence(kill), facts.evidence(lost, f"{_told(each)} deleted"))
            )
    new = facts.new_operator(history, kill)
    if (watched := history.until - new.t) < within:
        raise Unjudged(f"too early to tell: watched {watched:.0f} s of {within:.0f} s after the new operator ran")
    for resource in ("rayjobs", *_RESOURCES):
        facts.no_gap(history, resource, since, history.until)
    seen = tuple(facts.evidence(each.latest, f"{_told(each)} is there") for each in (job, *owned))
    reason = f"{rayjob} and all it owned ({_counted(owned)}) were there {watched:.0f} s after the new operator ran"
    return Finding(Outcome.HOLDS, reason, (facts.fault_evidence(kill), facts.evidence(new, "new operator runs"), *seen))


def _owned(history: History, namespace: str, rayjob: str, t: float) -> tuple[Lifetime, list[Lifetime]]:
    """The RayJob and what it owned at ``t``. Raises Unjudged unless that is something of each kind."""
    job = facts.rayjob_at(history, namespace, rayjob, t)
    there = [each for resource in _RESOURCES for each in history.objects(resource, namespace=namespace)]
    there = [each for each in there if facts.existing(each, t)]
    uids, owned = {job.uid}, list[Lifetime]()
    while found := [each for each in there if each.uid not in uids and uids & set(owners(each.latest.object))]:
        owned += found
        uids |= {each.uid for each in found}
    if missing := set(_RESOURCES) - {each.resource for each in owned}:
        raise Unjudged(f"{rayjob} owned no {', no '.join(sorted(missing))} at the fault")
    return job, owned


def _deletion(each: Lifetime, since: float) -> State | None:
    return next((s for s in each.states if s.t > since and (s.change == "DELETED" or is_terminating(s.object))), None)


def _told(each: Lifetime) -> str:
    return f"{each.resource}/{each.name}"


def _counted(owned: list[Lifetime]) -> str:
    return ", ".join(f"{sum(each.resource == resource for each in owned)} {resource}" for resource in _RESOURCES)
