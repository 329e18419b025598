"""OP-6: a submitter pod that is lost is replaced, and the Ray job goes on under its name to its end."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Injection, State
from chaos.verdict import Finding, Outcome

_NAMES = ("rayClusterName", "jobId")


@check
def submitter_retried(history: History, *, namespace: str, rayjob: str, within: float = 40.0) -> Finding:
    """After the first fault in its namespace another submitter pod runs, no name changes, and the RayJob gets Complete.

    A Job makes the replacement 10 s after the loss, at the first one. That none came is said of pods watched ``within``
    seconds without a gap.
    """
    fault = _fault(history, namespace)
    at = facts.applied_at(fault)
    job = facts.rayjob_at(history, namespace, rayjob, at)
    before = job.at(at)
    if before is None or facts.status(before.object, "jobStatus") != "RUNNING":
        raise Unjudged(f"the Ray job of {rayjob} was not RUNNING at the fault")
    names = [facts.status(before.object, key) for key in _NAMES]
    seen = (facts.fault_evidence(fault), facts.evidence(before, f"RUNNING as submission {names[1]}"))
    for state in job.states:
        if state.t <= at or state.change == "DELETED":
            continue
        stage = facts.status(state.object, "jobDeploymentStatus")
        if stage not in ("Running", "Complete"):
            told = " ".join(facts.status(state.object, key) for key in ("reason", "message"))
            reason = (
                f"{rayjob} is {stage or 'New'} {state.t - at:.1f} s after the fault: {told.strip() or 'no reason given'}; "
                f"jobStatus {facts.status(state.object, 'jobStatus') or '(empty)'}"
            )
            return Finding(Outcome.BROKEN, reason, (*seen, facts.evidence(state, f"jobDeploymentStatus {stage}")))
        now = [facts.status(state.object, key) for key in _NAMES]
        if now != names:
            reason = f"submission {names[1]} in {names[0]} became {now[1] or '(empty)'} in {now[0] or '(empty)'}"
            return Finding(Outcome.BROKEN, reason, (*seen, facts.evidence(state, "other names")))
    replacement = _replacement(history, namespace, rayjob, at)
    if replacement is None:
        if history.until < at + within:
            raise Unjudged(f"too early to tell: watched {history.until - at:.0f} s of {within:.0f} s after the fault")
        facts.no_gap(history, "pods", at, at + within)
        return Finding(Outcome.BROKEN, f"no other submitter pod ran within {within:.0f} s after the fault", seen)
    end = job.latest
    if facts.status(end.object, "jobDeploymentStatus") != "Complete":
        raise Unjudged(f"{rayjob} has not come to its end")
    facts.no_gap(history, "rayjobs", at, history.until)
    took = round(replacement.t - at, 3)
    name = replacement.object["metadata"]["name"]
    return Finding(
        Outcome.HOLDS,
        f"submitter pod {name} runs {took:.1f} s after the fault; submission {names[1]} went on and is Complete",
        (*seen, facts.evidence(replacement, f"submitter pod {name} runs"), facts.evidence(end, "Complete")),
        {"submitter_replaced": took},
    )


def _fault(history: History, namespace: str) -> Injection:
    for fault in facts.applied(history):
        if (fault.steps["apply"].get("target") or {}).get("namespace") == namespace:
            return fault
    raise Unjudged(f"no fault was applied in {namespace}")


def _replacement(history: History, namespace: str, rayjob: str, at: float) -> State | None:
    """The first state in which a submitter pod that was made after the fault ran, or had run."""
    pods = history.objects("pods", namespace=namespace, labels={"job-name": rayjob})
    ran = [pod.first(lambda pod: facts.running(pod) or facts.ended(pod)) for pod in pods if pod.born > at]
    return next((state for state in ran if state is not None), None)
