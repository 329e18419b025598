"""A cluster has one head: two would be two truths about the same cluster."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Finding, Outcome


@check
def one_head(history: History, *, namespace: str, cluster: str) -> Finding:
    """At no moment of the view were two head pods there of which neither was terminating or ended.

    The number can only grow when a state was received, so looking at those moments is looking at all of them.
    """
    heads = facts.seen_in(history, facts.ray_pods(history, namespace, cluster, "head"))
    if not heads:
        raise Unjudged(f"no head of {cluster} was ever seen")
    moments = sorted({state.t for head in heads for state in head.states if history.since <= state.t <= history.until})
    for moment in [history.since, *moments]:
        there = facts.alive(heads, moment)
        if len(there) > 1:
            names = " and ".join(f"{pod.name} ({pod.uid})" for pod, _ in there)
            seen = tuple(facts.evidence(state, f"head {pod.name} there") for pod, state in there)
            return Finding(Outcome.BROKEN, f"{len(there)} heads at the same time: {names}", seen)
    facts.no_gap(history, "pods", history.since, history.until)
    seen = tuple(facts.evidence(head.states[0], f"head {head.name} first seen") for head in heads)
    return Finding(Outcome.HOLDS, f"never two heads at a time, {facts.plural(len(heads), 'head pod')} in all", seen)
