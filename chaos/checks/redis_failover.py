"""FT-12: another member became the primary, and all Sentinels say so.

A redis probe's value is ``{"primary": POD or null, "disagreement": text, "members": [{"pod", "role", "names", "epoch"}]}``.
"""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Finding, Outcome


@check
def redis_failed_over(history: History) -> Finding:
    """Before the first fault one member is the primary, at the end another one is, and all Sentinels agree."""
    since = facts.applied_at(facts.applied(history)[0])
    probes = [probe for probe in history.probes("redis") if probe.value.get("primary")]
    before = [probe for probe in probes if probe.t <= since]
    after = [probe for probe in probes if probe.t > since]
    if not before:
        raise Unjudged("Redis' primary wasn't looked up before the fault")
    if not after:
        raise Unjudged("no primary that all Sentinels agree on was seen after the fault")
    old, new = before[-1].value["primary"], after[-1].value["primary"]
    seen = (
        facts.probe_evidence(before[-1], f"primary {old}"),
        facts.probe_evidence(after[-1], f"primary {new}"),
    )
    if old == new:
        return Finding(Outcome.BROKEN, f"{old} is the primary before and after", seen)
    return Finding(Outcome.HOLDS, f"the primary moved from {old} to {new}, and all Sentinels agree", seen)
