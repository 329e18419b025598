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
    Ready in a black hole.
    """
    since = max(facts.ended_at(fault) for fault in facts.applied(history))
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

    settled = facts.head_settled_at(history, namespace, cluster, since)
    failed = max((probe.t for probe in probes if not probe.ok), default=since)
    stretch = [probe for probe in probes if facts.began(probe) >= max(settled, failed)]
    if not stretch or facts.began(last) - stretch[0].t < apart:
        raise Unjudged(f"no two successes {apart:.0f} s apart on one head at the end of the record")
    first = stretch[0]
    facts.no_gap(history, "pods", first.t, last.t)
    delay = round(first.t - since, 3)
    return Finding(
        Outcome.HOLDS,
        f"functional {delay:.1f} s after the last fault was over and still {last.t - first.t:.0f} s later, same head",
        (facts.probe_evidence(first), facts.probe_evidence(last)),
        {"functional_after_fault_over": delay},
    )
