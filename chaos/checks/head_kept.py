"""FT-1, the other way round: losing workers never costs the head."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Finding, Outcome


@check
def head_kept(history: History, *, namespace: str, cluster: str, watched: float = 20.0) -> Finding:
    """The head alive at the first fault is, at the view's end, the same processes: same UID, same restart count.

    A head that falls with its workers would do so at once; it is watched for ``watched`` seconds at least.
    """
    fault = facts.applied(history)[0]
    since = facts.applied_at(fault)
    heads = facts.alive(facts.ray_pods(history, namespace, cluster, "head"), since)
    if not heads:
        raise Unjudged(f"no head of {cluster} was alive at the fault")
    head, state = heads[0]
    if lost := facts.loss(head, since):
        reason = f"head {head.name} {lost.how}, {lost.state.t - since:.1f} s after the fault"
        return Finding(
            Outcome.BROKEN, reason, (facts.fault_evidence(fault), facts.evidence(lost.state, f"head {lost.how}"))
        )
    facts.no_gap(history, "pods", since, history.until)
    if (seconds := history.until - since) < watched:
        raise Unjudged(f"too early to tell: watched {seconds:.0f} s of {watched:.0f} s")
    reason = f"head {head.name} kept UID and restarts for {seconds:.0f} s after the fault"
    return Finding(Outcome.HOLDS, reason, (facts.fault_evidence(fault), facts.evidence(state, f"head UID {head.uid}")))
