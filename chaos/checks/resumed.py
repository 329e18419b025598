"""OP-1: an operator that is killed while a RayJob rests in a state is followed by one that makes nothing a second time."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.attempts import named_by
from chaos.checks.base import check
from chaos.checks.submitter import submitter_jobs
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Finding, Outcome


@check
def resumed(history: History, *, namespace: str, rayjob: str, stage: str) -> Finding:
    """The RayJob was ``stage`` ("" is New) from the kill until a new operator ran; the attempt it had then is kept.

    And of each attempt's Ray cluster, head and submitter Job there was one ever: no orphan, and nothing made again.
    """
    kill = facts.operator_kill(history)
    at, new = facts.applied_at(kill), facts.new_operator(history, kill)
    job = facts.rayjob_at(history, namespace, rayjob, at)
    for state in job.states:
        here = facts.status(state.object, "jobDeploymentStatus")
        if (state is job.at(at) or at < state.t < new.t) and here != stage:
            raise Unjudged(
                f"missed the state: {rayjob} was {here or 'New'} before the new operator ran, not {stage or 'New'}"
            )
    seen = (facts.fault_evidence(kill), facts.evidence(new, "new operator runs"))
    before = job.at(at)
    assert before is not None
    attempts = named_by(job)
    had = [each for each in attempts if each.seen.t <= at]
    after = [state for state in job.states if state.t > at and state.change != "DELETED"]
    if had and facts.status(before.object, "rayClusterName") and after:
        names = facts.status(after[0].object, "rayClusterName"), facts.status(after[0].object, "jobId")
        cleared = stage in ("Suspending", "Retrying") and names == ("", "")
        if names != (had[-1].cluster, had[-1].submission) and not cleared:
            reason = f"the attempt {had[-1].cluster}, {had[-1].submission} became {names[0]}, {names[1]}"
            return Finding(Outcome.BROKEN, reason, (*seen, facts.evidence(after[0], "another attempt")))
    clusters = facts.seen_in(history, history.objects("rayclusters", namespace=namespace))
    jobs = submitter_jobs(history, namespace, rayjob)
    heads = facts.seen_in(history, history.objects("pods", namespace=namespace, labels={"ray.io/node-type": "head"}))
    made = {"RayCluster": len(clusters), "submitter Job": len(jobs), "head": len(heads)}
    told = ", ".join(facts.plural(count, what) for what, count in made.items())
    twice = [what for what, count in made.items() if count > len(attempts)]
    lots = tuple(
        facts.evidence(each.states[0], f"{each.resource}/{each.name} made") for each in (*clusters, *jobs, *heads)
    )
    if twice or {each.name for each in clusters} - {each.cluster for each in attempts}:
        reason = f"{facts.plural(len(attempts), 'attempt')} and {told}: {', '.join(twice) or 'an orphan'} too many"
        return Finding(Outcome.BROKEN, reason, (*seen, *lots))
    for resource in ("rayjobs", "rayclusters", "jobs", "pods"):
        facts.no_gap(history, resource, at, history.until)
    reason = f"killed in {stage or 'New'} and resumed; {facts.plural(len(attempts), 'attempt')} and {told} ever"
    return Finding(Outcome.HOLDS, reason, (*seen, *lots))


@check
def shut_down_after(history: History, *, namespace: str, rayjob: str, ttl: float, within: float = 30.0) -> Finding:
    """The Ray cluster of a RayJob that has ended is deleted ``ttl`` seconds after its end, and not before.

    ``within`` is what an operator that comes back may take on top. A second is what the status' time stamps are exact to.
    """
    found = facts.seen_in(history, history.objects("rayjobs", namespace=namespace, name=rayjob))
    ended = [job for job in found if facts.status(job.latest.object, "endTime")]
    if not ended:
        raise Unjudged(f"{rayjob} has no end yet")
    job = ended[0]
    end = job.first(lambda obj: bool(facts.status(obj, "endTime")))
    name = facts.status(job.latest.object, "rayClusterName")
    clusters = history.objects("rayclusters", namespace=namespace, name=name)
    if end is None or not clusters:
        raise Unjudged(f"the Ray cluster of {rayjob} was never seen")
    seen = (facts.evidence(end, "ended"), facts.evidence(clusters[0].latest, f"RayCluster {name}, last state"))
    gone = clusters[0].gone
    if gone is None:
        if history.until < end.t + ttl + within:
            raise Unjudged(
                f"too early to tell: watched {history.until - end.t:.0f} s of {ttl + within:.0f} s after the end"
            )
        facts.no_gap(history, "rayclusters", end.t, history.until)
        return Finding(Outcome.BROKEN, f"{name} is still there {history.until - end.t:.0f} s after the end", seen)
    took = gone - end.t
    if not ttl - 1 <= took <= ttl + within:
        return Finding(Outcome.BROKEN, f"{name} was deleted {took:.1f} s after the end, expected {ttl:.0f} s", seen)
    return Finding(Outcome.HOLDS, f"{name} was deleted {took:.1f} s after the end, to be kept for {ttl:.0f} s", seen)
