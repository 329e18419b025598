"""OP-10: a RayJob that is deleted while no operator runs is held by its finalizer until there is one."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, is_terminating
from chaos.verdict import Evidence, Finding, Outcome

# An operator that comes back leads at once when the old lease has run out meanwhile, else 17 s later; its start is slow.
_BACK_SECONDS = 60.0


@check
def deletion_waited(history: History, *, namespace: str, rayjob: str) -> Finding:
    """The RayJob was deleted while the operator was scaled away, stayed for as long as that lasted, and went afterwards."""
    away = next(iter(history.faults("scale-deployment")), None)
    if away is None or away.effect_at is None or away.undo_at is None:
        raise Unjudged("the operator was not scaled away and back")
    found = facts.seen_in(history, history.objects("rayjobs", namespace=namespace, name=rayjob))
    asked = found[0].first(is_terminating) if found else None
    if asked is None:
        raise Unjudged(f"{rayjob} was never deleted")
    job = found[0]
    seen: tuple[Evidence, ...] = (facts.fault_evidence(away), facts.evidence(asked, f"{rayjob} is to be deleted"))
    if job.gone is None:
        if history.until < away.undo_at + _BACK_SECONDS:
            raise Unjudged(f"too early to tell: {history.until - away.undo_at:.0f} s after the operator was let back")
        reason = f"{rayjob} is still there {history.until - away.undo_at:.0f} s after the operator was let back"
        return Finding(Outcome.BROKEN, reason, seen)
    seen = (*seen, facts.evidence(job.latest, f"{rayjob} gone"))
    if job.gone < away.undo_at:
        reason = f"{rayjob} was gone {job.gone - asked.t:.1f} s after it was deleted and did not wait for an operator"
        return Finding(Outcome.BROKEN, reason, seen)
    if asked.t < away.effect_at:
        raise Unjudged(f"{rayjob} was deleted before the operator was away")
    facts.no_gap(history, "rayjobs", away.effect_at, job.gone)
    took = round(job.gone - away.undo_at, 3)
    reason = f"{rayjob} waited {away.undo_at - asked.t:.1f} s without an operator and was gone {took:.1f} s after it was let back"
    return Finding(Outcome.HOLDS, reason, seen, {"deletion_finished": took})
