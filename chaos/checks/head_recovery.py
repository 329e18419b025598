"""FT-10, and part of most others: the head came back, and how long each step of it took."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Object, is_ready
from chaos.verdict import Finding, Outcome


@check
def head_recovery(history: History, *, namespace: str, cluster: str, within: float) -> Finding:
    """The head alive at the first fault was replaced or restarted, Ready and functional within ``within`` seconds.

    ``recovery_seconds`` counts from the fault's apply step to: ``old_gone`` and ``new_created`` (only when the pod was
    replaced), ``scheduled``, ``started``, ``ready``, ``functional``. All are the times at which the recorder received
    the object, not the 1 s coarse stamps inside it (``startedAt`` among them): fine, but late by the watch's delay,
    and an upper bound where the state came from a list. Functional may come before Ready, whose probe waits 10 s.
    """
    fault = facts.applied(history)[0]
    since = facts.applied_at(fault)
    heads = facts.ray_pods(history, namespace, cluster, "head")
    before = facts.alive(heads, since)
    if not before:
        raise Unjudged(f"no head of {cluster} was alive at the fault")
    old, _ = before[0]
    seen = [facts.fault_evidence(fault)]
    watched = history.until - since

    lost = facts.loss(old, since)
    if lost is None:
        raise Unjudged(f"the head {old.name} was not lost, so there was no recovery")
    seen.append(facts.evidence(lost.state, f"head {old.name} {lost.how}"))

    split: dict[str, float] = {}
    if old.gone is not None:
        split["old_gone"] = old.gone - since
    new = next((run for run in facts.runs(heads) if run.seen.t > since), None)
    if new is None:
        if watched < within:
            raise Unjudged(f"too early to tell: watched {watched:.0f} s of {within:.0f} s and saw no new head")
        return Finding(Outcome.BROKEN, f"no new head in {watched:.0f} s after the fault", tuple(seen))

    how = "restarted in place" if new.pod.uid == old.uid else f"replaced by {new.pod.name}"
    if new.pod.uid != old.uid:
        split["new_created"] = new.seen.t - since
    for step, reached in (("scheduled", _scheduled), ("started", facts.running), ("ready", is_ready)):
        if first := new.pod.first(reached, since=new.seen.t):
            split[step] = first.t - since
            seen.append(facts.evidence(first, f"head {new.pod.name} {step}"))
    probe = facts.functional_again(history, namespace, cluster, since)
    if probe is not None:
        split["functional"] = probe.t - since
        seen.append(facts.probe_evidence(probe))
    split = {step: round(value, 3) for step, value in split.items()}

    missing = [step for step in ("ready", "functional") if split.get(step, float("inf")) > within]
    if missing:
        if watched < within:
            raise Unjudged(
                f"too early to tell: watched {watched:.0f} s of {within:.0f} s; not yet {' or '.join(missing)}"
            )
        reason = f"head {how}, but not {' or '.join(missing)} within {within:.0f} s of the fault"
        return Finding(Outcome.BROKEN, reason, tuple(seen), split)
    facts.no_gap(history, "pods", since, since + max(split["ready"], split["functional"]))
    reason = f"head {how}, ready after {split['ready']:.1f} s, functional after {split['functional']:.1f} s"
    return Finding(Outcome.HOLDS, reason, tuple(seen), split)


def _scheduled(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(c.get("type") == "PodScheduled" and c.get("status") == "True" for c in conditions)
