"""FT-14: a head that can't use its Redis ends again and again, and never gets Ready."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, is_ready, restart_count
from chaos.verdict import Finding, Outcome


@check
def head_crash_loops(history: History, *, namespace: str, cluster: str, at_least: int = 2) -> Finding:
    """The head's container was restarted ``at_least`` times after an error, and the head was never Ready."""
    heads = facts.seen_in(history, facts.ray_pods(history, namespace, cluster, "head"))
    if not heads:
        raise Unjudged(f"no head of {cluster} was ever seen")
    for head in heads:
        if ready := head.first(is_ready):
            return Finding(Outcome.BROKEN, f"head {head.name} got Ready", (facts.evidence(ready, "head Ready"),))
    head = max(heads, key=lambda pod: restart_count(pod.latest.object))
    count, code = restart_count(head.latest.object), facts.exit_code(head.latest.object)
    seen = (
        facts.evidence(head.states[0], f"head {head.name} made"),
        facts.evidence(head.latest, f"restarted {count} times"),
    )
    if count < at_least:
        raise Unjudged(f"head {head.name} was restarted {facts.plural(count, 'time')}, {at_least} make a loop")
    if not code:
        return Finding(Outcome.BROKEN, f"head {head.name} was restarted {count} times, exit code {code}", seen)
    return Finding(Outcome.HOLDS, f"head {head.name} was restarted {count} times, exit code {code}, never Ready", seen)
