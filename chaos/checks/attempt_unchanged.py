"""OP-4: a restart of the operator is no failure and opens no attempt."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Object, restart_count
from chaos.verdict import Finding, Outcome

# What identifies an attempt, and the count of failed ones (left out of the status while 0).
_FIELDS = ("failed", "rayClusterName", "jobId")


@check
def attempt_unchanged(history: History, *, namespace: str, rayjob: str, restarts: int = 3) -> Finding:
    """From the first kill of the operator to the end, over at least ``restarts`` restarts, the attempt is the same.

    A restart is a new operator pod whose container ran, or a restart count grown by one. Every state the RayJob was
    seen in counts, not only the last one.
    """
    kill = facts.operator_kill(history)
    since = facts.applied_at(kill)
    job = facts.rayjob_at(history, namespace, rayjob, since)
    at_kill = job.at(since)
    if at_kill is None or not all(facts.status(at_kill.object, name) for name in ("rayClusterName", "jobId")):
        raise Unjudged(f"{rayjob} had no attempt yet when the operator was first killed")
    before = _attempt(at_kill.object)
    seen = [facts.fault_evidence(kill), facts.evidence(at_kill, _told(before))]
    for state in job.states:
        if state.t <= since or state.change == "DELETED":
            continue
        now = _attempt(state.object)
        if now != before:
            changed = ", ".join(
                f"{k} {before[k] or '(empty)'}→{now[k] or '(empty)'}" for k in _FIELDS if before[k] != now[k]
            )
            reason = f"the attempt changed {state.t - since:.1f} s after the first kill: {changed}"
            return Finding(Outcome.BROKEN, reason, (*seen, facts.evidence(state, _told(now))))
    counted = _restarts(history, since)
    if counted < restarts:
        raise Unjudged(f"the operator was restarted {facts.plural(counted, 'time')}, {restarts} are needed")
    facts.no_gap(history, "rayjobs", since, history.until)
    reason = f"over {counted} operator restarts: {_told(before)}, unchanged"
    return Finding(Outcome.HOLDS, reason, (*seen, facts.evidence(job.latest, "its last state")))


def _attempt(rayjob: Object) -> dict[str, str]:
    return {name: facts.status(rayjob, name) or ("0" if name == "failed" else "") for name in _FIELDS}


def _told(attempt: dict[str, str]) -> str:
    return f"failed {attempt['failed']}, cluster {attempt['rayClusterName']}, submission {attempt['jobId']}"


def _restarts(history: History, since: float) -> int:
    """How often an operator's container began to run after ``since``."""
    total = 0
    for pod in facts.operator_pods(history):
        ran = [restart_count(s.object) for s in pod.states if s.t > since and facts.running(s.object)]
        if not ran:
            continue
        before = facts.existing(pod, since)
        total += max(ran) - restart_count(before.object) if before else max(ran) + 1
    return total
