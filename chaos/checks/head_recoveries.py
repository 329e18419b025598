"""FT-10: the recovery of the head over many losses, as a spread and not as one number."""

from __future__ import annotations

from statistics import median

from chaos.checks import facts
from chaos.checks.base import check
from chaos.checks.head_recovery import head_recovery
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Finding, Outcome


@check
def head_recoveries(history: History, *, namespace: str, cluster: str, within: float, at_least: int = 5) -> Finding:
    """After each of ``at_least`` injections or more the head recovered as `head_recovery` says, within ``within`` seconds.

    ``recovery_seconds`` has the least, the median and the greatest of each step's times.
    """
    groups = dict.fromkeys(
        str(fault.steps["apply"]["group"])
        for fault in facts.applied(history)
        if (fault.steps["apply"].get("target") or {}).get("namespace") == namespace
    )
    if len(groups) < at_least:
        raise Unjudged(f"the head was lost {facts.plural(len(groups), 'time')}, {at_least} are needed")
    expected = head_recovery(namespace=namespace, cluster=cluster, within=within)
    findings = [expected.during(group).judge(history) for group in groups]
    seen = tuple(item for finding in findings for item in finding.evidence)
    for outcome in (Outcome.BROKEN, Outcome.UNKNOWN):
        bad = [f"loss {n}: {finding.reason}" for n, finding in enumerate(findings, 1) if finding.outcome is outcome]
        if bad:
            return Finding(outcome, "; ".join(bad), seen)
    steps = list(dict.fromkeys(step for finding in findings for step in finding.recovery_seconds))
    times = {step: [f.recovery_seconds[step] for f in findings if step in f.recovery_seconds] for step in steps}
    split = {
        f"{step}_{name}": round(of(values), 3)
        for step, values in times.items()
        for name, of in (("min", min), ("median", median), ("max", max))
    }
    told = ", ".join(
        f"{step} {min(times[step]):.1f} to {max(times[step]):.1f} s (median {median(times[step]):.1f} s)"
        for step in ("ready", "functional")
    )
    return Finding(Outcome.HOLDS, f"{len(groups)} recoveries: {told}", seen, split)
