"""Functional, and still functional later: the first success after a fault may be a dying system's last."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Finding, Outcome


@check
def functional_twice(history: History, *, namespace: str, cluster: str, apart: float = 20.0) -> Finding:
    """After the last fault was over the cluster was functional, and again ``apart`` seconds later on the same head.

    Counted on the stretch at the view's end with no failed probe and no new head in it. Why twice: with a stopped
    Redis primary that Sentinel had replaced, calls were answered 2 s after it went on, and the GCS exited 12 s later,
    when the old primary was demoted and closed its clients. 20 s cover that. Ready pods are no evidence: they stay
    Ready in a black hole. ``recovery_seconds`` counts as `head_recovery` does, from the first fault to ``functional``, as
    long as all faults were kills at one moment and the first success stood; else the name says what is different.
    """
    faults = facts.applied(history)
    last_fault = max(faults, key=facts.ended_at)
    since = facts.ended_at(last_fault)
    probes = [probe for probe in facts.functional_probes(history, namespace, cluster) if facts.began(probe) >= since]
    if not probes:
        raise Unjudged(f"no functional probe of {cluster} after the last fault was over")
    last = probes[-1]
    if not last.ok:
        waited = last.t - since
        if waited < apart:
            raise Unjudged(f"too early to tell: last probed {waited:.0f} s after the last fault was over")
        reason = f"{cluster} not functional {waited:.0f} s after the last fault was over: {last.error or 'no error'}"
        return Finding(Outcome.BROKEN, reason, (facts.probe_evidence(last),))

    stretch = facts.functional_stretch(history, namespace, cluster, since)
    if not stretch or facts.began(last) - stretch[0].t < apart:
        raise Unjudged(f"no two successes {apart:.0f} s apart on one head at the end of the record")
    first = stretch[0]
    facts.no_gap(history, "pods", first.t, last.t)
    if last_fault.undone_at is not None:
        zero, event, name = since, "the fault was undone", "functional_after_undo"
    elif facts.together(faults):
        zero, event, name = facts.applied_at(faults[0]), "the fault", "functional"
    else:
        zero, event, name = since, "the last fault", "functional_after_last_fault"
    again = facts.functional_again(history, namespace, cluster, zero)
    if name == "functional" and again is not None and again.n != first.n:
        name = "functional_for_good"  # there were failures after the first success
    delay = round(first.t - zero, 3)
    still = f"and still {last.t - first.t:.0f} s later, same head"
    return Finding(
        Outcome.HOLDS,
        f"functional {delay:.1f} s after {event} {still}",
        (facts.probe_evidence(first), facts.probe_evidence(last, f"probe {last.name} succeeded again, same head")),
        {name: delay},
    )
