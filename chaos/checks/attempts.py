"""OP-5: how many attempts a RayJob opened, and that each was cleared away before the next one began.

An attempt is known by what the RayJob's status names: the Ray cluster and the submission ID. Order is told within the watch
of one resource, never between two: their entries may overtake each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from chaos.checks import facts
from chaos.checks.base import check
from chaos.checks.executions import ledger_lines
from chaos.checks.submitter import submitter_jobs
from chaos.errors import Unjudged
from chaos.history.reader import History, Lifetime, State
from chaos.verdict import Evidence, Finding, Outcome

_ENDED = ("Complete", "Failed")


@dataclass(frozen=True)
class Attempt:
    """``seen`` is the first state of the RayJob that names it."""

    cluster: str
    submission: str
    seen: State


def named_by(job: Lifetime) -> list[Attempt]:
    """The RayJob's attempts, in order."""
    found: list[Attempt] = []
    for state in job.states:
        cluster, submission = (facts.status(state.object, key) for key in ("rayClusterName", "jobId"))
        if cluster and submission and (not found or (cluster, submission) != (found[-1].cluster, found[-1].submission)):
            found.append(Attempt(cluster, submission, state))
    return found


@check
def attempts_opened(
    history: History, *, namespace: str, rayjob: str, attempts: int, failed: int, submission_id: str = ""
) -> Finding:
    """The RayJob has come to its end after so many attempts, all of other names, each executed once by the ledger.

    ``failed`` is what ``status.failed`` must count at the end. With a ``submission_id`` all attempts must have that one.
    """
    job = _rayjob(history, namespace, rayjob)
    opened = named_by(job)
    told = [facts.evidence(each.seen, f"cluster {each.cluster}, submission {each.submission}") for each in opened]
    clusters, submissions = {each.cluster for each in opened}, {each.submission for each in opened}
    names = f"{len(clusters)} clusters, {len(submissions)} submission IDs"
    if len(opened) > attempts:
        return Finding(Outcome.BROKEN, f"{len(opened)} attempts, expected {attempts}", tuple(told))
    end = job.latest
    stage, count = facts.status(end.object, "jobDeploymentStatus"), facts.status(end.object, "failed") or "0"
    if stage not in _ENDED:
        raise Unjudged(f"{rayjob} has not come to its end: it is {stage or 'New'} in attempt {len(opened)}")
    seen = (*told, facts.evidence(end, f"{stage}, failed {count}"))
    if len(opened) != attempts:
        reason = f"{facts.plural(len(opened), 'attempt')}, then {stage}, expected {attempts}"
        return Finding(Outcome.BROKEN, reason, seen)
    if wrong := _wrong_names(clusters, submissions, attempts, submission_id):
        return Finding(Outcome.BROKEN, f"{wrong}: {names} in {attempts} attempts", seen)
    if count != str(failed):
        return Finding(Outcome.BROKEN, f"status.failed is {count} at the end, expected {failed}", seen)
    ledger, lines = ledger_lines(history, namespace, rayjob)
    seen = (*seen, facts.probe_evidence(ledger, f"ledger has {facts.plural(len(lines), 'execution')}"))
    executed = sorted((str(line["attempt"]), str(line["submission_id"])) for line in lines)
    if executed != sorted((each.cluster, each.submission) for each in opened):
        reason = f"{facts.plural(len(lines), 'execution')} in {attempts} attempts: {executed}"
        return Finding(Outcome.BROKEN, reason, seen)
    facts.no_gap(history, "rayjobs", job.born, history.until)
    reason = f"{facts.plural(attempts, 'attempt')} and executions, {names}, status.failed {count}, then {stage}"
    return Finding(Outcome.HOLDS, reason, seen)


@check
def attempts_cleared(history: History, *, namespace: str, rayjob: str) -> Finding:
    """Between two attempts the old RayCluster and submitter Job are gone, and the status names none.

    Their pods may still be ending when the new cluster begins: nothing promises otherwise, so how long they overlapped is
    told and doesn't decide.
    """
    job = _rayjob(history, namespace, rayjob)
    opened = named_by(job)
    if len(opened) < 2:
        raise Unjudged(f"{rayjob} had {facts.plural(len(opened), 'attempt')}: there is nothing between")
    clusters = _in_order(history, "rayclusters", namespace, [each.cluster for each in opened])
    jobs = submitter_jobs(history, namespace, rayjob)
    if len(jobs) < len(opened):
        raise Unjudged(f"{len(opened)} attempts and {facts.plural(len(jobs), 'submitter Job')} seen")
    seen: list[Evidence] = []
    for old, new in (*pairwise(clusters), *pairwise(jobs)):
        seen.append(facts.evidence(new.states[0], f"{new.resource} {new.name} made, UID {new.uid}"))
        if old.gone is None or old.latest.n > new.states[0].n:
            reason = f"{new.resource} {new.name} was made before {old.name} (UID {old.uid}) was gone"
            return Finding(Outcome.BROKEN, reason, tuple(seen))
    for old_attempt, new_attempt in pairwise(opened):
        between = [s for s in job.states if old_attempt.seen.n < s.n < new_attempt.seen.n]
        if not any(_nameless(state) for state in between):
            reason = f"the status went from {old_attempt.cluster} to {new_attempt.cluster} and was never empty between"
            return Finding(Outcome.BROKEN, reason, tuple(seen))
    for resource in ("rayjobs", "rayclusters", "jobs"):
        facts.no_gap(history, resource, job.born, history.until)
    overlaps = _overlaps(history, namespace, opened)
    longest = max(overlaps)
    told = ", ".join(f"{seconds:.1f} s" for seconds in overlaps)
    overlap = f"pods of two attempts overlapped for {told}" if longest > 0 else "pods of two attempts never overlapped"
    reason = f"each of {len(opened)} attempts began when RayCluster and submitter Job of the last were gone; {overlap}"
    return Finding(Outcome.HOLDS, reason, tuple(seen), {"attempts_overlap": round(longest, 3)})


def _wrong_names(clusters: set[str], submissions: set[str], attempts: int, given: str) -> str:
    """What is wrong with the attempts' names, if anything. A submission ID that was ``given`` is that of all attempts."""
    if given and submissions != {given}:
        return f"submitted as {', '.join(sorted(submissions))}, not as {given}"
    used_again = len(clusters) != attempts or (not given and len(submissions) != attempts)
    return "a name was used again" if used_again else ""


def _rayjob(history: History, namespace: str, rayjob: str) -> Lifetime:
    found = facts.seen_in(history, history.objects("rayjobs", namespace=namespace, name=rayjob))
    if not found:
        raise Unjudged(f"RayJob {rayjob} was never seen")
    return found[0]


def _in_order(history: History, resource: str, namespace: str, names: Sequence[str]) -> list[Lifetime]:
    found = [each for name in names for each in history.objects(resource, namespace=namespace, name=name)]
    if len(found) != len(names):
        raise Unjudged(f"{len(names)} {resource} were named and {len(found)} seen")
    return found


def _nameless(state: State) -> bool:
    return not any(facts.status(state.object, key) for key in ("rayClusterName", "jobId", "jobDeploymentStatus"))


def _overlaps(history: History, namespace: str, opened: Sequence[Attempt]) -> list[float]:
    """For how long pods of one attempt's cluster were still there when the next one's first pod was, attempt by attempt."""
    found = []
    for old, new in pairwise(opened):
        began = [
            pod.born for pod in history.objects("pods", namespace=namespace, labels={"ray.io/cluster": new.cluster})
        ]
        ends = [
            history.until if pod.gone is None else pod.gone
            for pod in history.objects("pods", namespace=namespace, labels={"ray.io/cluster": old.cluster})
        ]
        if not began or not ends:
            raise Unjudged(f"no pods of {old.cluster} or {new.cluster} were seen")
        found.append(max(0.0, max(ends) - min(began)))
    return found
