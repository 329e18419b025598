"""OP-7: jobDeploymentStatus says where KubeRay is, jobStatus what Ray last told it; they may disagree, and then agree."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, State
from chaos.verdict import Finding, Outcome

# Ray is asked every 3 s: a disagreement that is due to that alone is shorter.
_LONGER_THAN_A_POLL = 5.0


@check
def statuses_differ(history: History, *, namespace: str, rayjob: str, deployment: str, job: list[str]) -> Finding:
    """The RayJob was seen with this jobDeploymentStatus and one of these values of jobStatus, "" being none."""
    found = facts.seen_in(history, history.objects("rayjobs", namespace=namespace, name=rayjob))
    states = [s for each in found for s in each.states if facts.status(s.object, "jobDeploymentStatus") == deployment]
    if not states:
        raise Unjudged(f"{rayjob} was never seen {deployment}")
    for state in states:
        said = facts.status(state.object, "jobStatus")
        if said in job:
            reason = f"{rayjob} was {deployment} with jobStatus {said or '(empty)'}"
            return Finding(Outcome.HOLDS, reason, (facts.evidence(state, reason),))
    facts.no_gap(history, "rayjobs", history.since, history.until)
    said = ", ".join(dict.fromkeys(facts.status(s.object, "jobStatus") or "(empty)" for s in states))
    reason = f"{rayjob} was {deployment} only with jobStatus {said}"
    return Finding(Outcome.BROKEN, reason, (facts.evidence(states[0], reason),))


@check
def success_converged(history: History, *, namespace: str, rayjob: str, submission_id: str) -> Finding:
    """Ray's record said SUCCEEDED while the RayJob said RUNNING, for longer than a poll, and in the end it says Complete."""
    records = [each for each in history.probes("job", namespace=namespace, submission_id=submission_id) if each.ok]
    ended = next((each for each in records if each.value["status"] not in ("PENDING", "RUNNING")), None)
    if ended is None:
        raise Unjudged(f"Ray's record of {submission_id} was never seen ended")
    record = ended.value["status"]
    job = facts.rayjob_at(history, namespace, rayjob, ended.t)
    before = job.at(ended.t)
    if before is None or _statuses(before) != ("Running", "RUNNING"):
        raise Unjudged(f"{rayjob} was not Running and RUNNING any more when Ray's record was seen to say {record}")
    after = next(
        (state for state in job.states if state.t > ended.t and _statuses(state) != ("Running", "RUNNING")), None
    )
    known = (facts.evidence(before, "jobStatus RUNNING"), facts.probe_evidence(ended, f"Ray's record says {record}"))
    if after is None:
        raise Unjudged(f"{rayjob} still says RUNNING")
    apart = round(after.t - ended.t, 3)
    if apart < _LONGER_THAN_A_POLL:
        raise Unjudged(f"the statuses disagreed for {apart:.1f} s, which is no longer than the operator's poll takes")
    end = next((state for state in job.states if _statuses(state)[0] in ("Complete", "Failed", "Retrying")), None)
    if end is None:
        raise Unjudged(f"{rayjob} has not come to its end")
    stage, said = _statuses(end)
    told = " ".join(text for key in ("reason", "message") if (text := facts.status(end.object, key)))
    seen = (*known, facts.evidence(end, f"{stage}, jobStatus {said}"))
    if (record, stage, said) != ("SUCCEEDED", "Complete", "SUCCEEDED"):
        reason = (
            f"Ray's record said {record}, and {apart:.1f} s later {rayjob} came to be {stage} with jobStatus {said}"
        )
        return Finding(Outcome.BROKEN, f"{reason}: {told}" if told else reason, seen)
    reason = f"Ray's record said SUCCEEDED and {rayjob} RUNNING for {apart:.1f} s, then Complete and SUCCEEDED"
    return Finding(Outcome.HOLDS, reason, seen, {"statuses_agree": apart})


def _statuses(state: State) -> tuple[str, str]:
    return facts.status(state.object, "jobDeploymentStatus"), facts.status(state.object, "jobStatus")
