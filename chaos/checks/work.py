"""OP-12: work that is lost is done again, from where a checkpoint of the user's says, else from the start.

A steps probe's value is ``{"runs": [{"execution", "first", "last", "began", "ended", "steps"}]}``: each run of the work, in
order, with the execution of the entrypoint that asked for it, its first and its last step, and when these were done, by the
clock of this machine, whose nodes are containers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chaos.checks import facts
from chaos.checks.base import check
from chaos.checks.executions import ledger_lines
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Evidence, Finding, Outcome

# So few steps can't tell whether a later run went on from them.
_ENOUGH = 3
# A pod's grace period is 5 s here.
_LOST_SECONDS = 15.0


@check
def work_resumed(history: History, *, namespace: str, rayjob: str) -> Finding:
    """The work that the faults interrupted went on behind its last step, and the RayJob came to be Complete.

    The last step itself may be done again: its checkpoint is written after it.
    """
    lost, found, seen = _interrupted(history, namespace, rayjob)
    if found is None:
        return Finding(Outcome.BROKEN, f"the work of {rayjob} was not begun again after step {lost['last']}", seen)
    if found["first"] < lost["last"]:
        reason = f"the work of {rayjob} had done step {lost['last']} and began again at step {found['first']}"
        return Finding(Outcome.BROKEN, reason, seen)
    took = round(found["began"] - lost["ended"], 3)
    reason = (
        f"the work of {rayjob} had done step {lost['last']} and went on with step {found['first']}, {took:.1f} s later"
    )
    return _unless_failed(history, namespace, rayjob, Finding(Outcome.HOLDS, reason, seen, {"work_resumed": took}))


@check
def task_retried(history: History, *, namespace: str, rayjob: str) -> Finding:
    """The work that the faults interrupted was run again by the same execution of the entrypoint, which was the only one."""
    lost, found, seen = _interrupted(history, namespace, rayjob)
    ledger, lines = ledger_lines(history, namespace, rayjob)
    seen = (*seen, facts.probe_evidence(ledger, f"ledger has {facts.plural(len(lines), 'execution')}"))
    if found is None:
        return Finding(Outcome.BROKEN, f"the work of {rayjob} was not begun again after step {lost['last']}", seen)
    if found["execution"] != lost["execution"] or len(lines) != 1:
        reason = f"the work of {rayjob} was begun again by another execution, one of {len(lines)}"
        return Finding(Outcome.BROKEN, reason, seen)
    took = round(found["began"] - lost["ended"], 3)
    reason = f"the work of {rayjob} was run again {took:.1f} s later, by the one execution of its entrypoint"
    return _unless_failed(history, namespace, rayjob, Finding(Outcome.HOLDS, reason, seen, {"task_retried": took}))


def _interrupted(
    history: History, namespace: str, rayjob: str
) -> tuple[dict[str, Any], dict[str, Any] | None, tuple[Evidence, ...]]:
    """The run of the work that was under way at the first fault, and the one after it, if any."""
    read = [each for each in history.probes("steps", namespace=namespace, rayjob=rayjob) if each.ok]
    if not read:
        raise Unjudged(f"the steps of {rayjob} are not known")
    fault = facts.applied(history)[0]
    at = fault.steps["apply"]["wall"]
    runs: list[dict[str, Any]] = read[-1].value["runs"]
    before = [each for each in runs if each["began"] <= at]
    if not before or before[-1]["last"] < _ENOUGH:
        raise Unjudged(f"the work of {rayjob} was not under way at the fault")
    lost, later = before[-1], runs[len(before) :]
    if (went_on := lost["ended"] - at) > _LOST_SECONDS:
        raise Unjudged(f"the work of {rayjob} went on for {went_on:.0f} s after the fault: it was not interrupted")
    told = ", ".join(f"{each['first']} to {each['last']}" for each in runs)
    return lost, later[0] if later else None, (
        facts.fault_evidence(fault), facts.probe_evidence(read[-1], f"steps of {rayjob}, run by run: {told}"),
    )  # fmt: skip


def _unless_failed(history: History, namespace: str, rayjob: str, finding: Finding) -> Finding:
    """The finding, provided that the RayJob came to be Complete."""
    found = facts.seen_in(history, history.objects("rayjobs", namespace=namespace, name=rayjob))
    stage = facts.status(found[0].latest.object, "jobDeploymentStatus") if found else ""
    if stage not in ("Complete", "Failed"):
        raise Unjudged(f"{rayjob} has not come to its end: it is {stage or 'New'}")
    outcome = Outcome.HOLDS if stage == "Complete" else Outcome.BROKEN
    end = facts.evidence(found[0].latest, stage)
    return replace(
        finding, outcome=outcome, reason=f"{finding.reason}; then {stage}", evidence=(*finding.evidence, end)
    )
