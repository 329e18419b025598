"""OP-12: the operator makes another head where one was deleted, also in the cluster of a RayJob."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Finding, Outcome


@check
def head_recreated(history: History, *, namespace: str, cluster: str, within: float = 40.0) -> Finding:
    """A head pod of another UID appears within ``within`` seconds after the first fault.

    A deleted head's object goes within its grace period, 5 s here, and the operator sees that at once; 6 to 8 s were measured.
    That none came can be said only of pods watched for that long and without a gap.
    """
    fault = facts.applied(history)[0]
    since = facts.applied_at(fault)
    heads = facts.ray_pods(history, namespace, cluster, "head")
    if not facts.alive(heads, since):
        raise Unjudged(f"{cluster} had no head at the fault")
    made = [head for head in heads if since < head.born <= since + within]
    if made:
        took = made[0].born - since
        seen = (facts.fault_evidence(fault), facts.evidence(made[0].states[0], f"head {made[0].name} made"))
        return Finding(Outcome.HOLDS, f"another head was made {took:.1f} s after the fault", seen, {"new_head": took})
    if history.until < since + within:
        raise Unjudged(f"too early to tell: watched {history.until - since:.0f} s of {within:.0f} s")
    facts.no_gap(history, "pods", since, since + within)
    reason = f"no other head was made within {within:.0f} s after the fault"
    return Finding(Outcome.BROKEN, reason, (facts.fault_evidence(fault),))
