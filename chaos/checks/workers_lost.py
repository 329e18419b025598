"""FT-1: without fault tolerance the loss of the head costs every worker."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, is_ready
from chaos.verdict import Finding, Outcome


@check
def workers_lost(history: History, *, namespace: str, cluster: str, within: float = 75.0) -> Finding:
    """Every worker alive at the first fault was recreated within ``within`` seconds after the new head was ready.

    Recreated is a new UID or one restart more in place. The bound is the raylet's self check (60 s) and 15 s to see
    the container end. The head registers some seconds before it is Ready (readiness waits 10 s), so the delays, given
    per worker in ``recovery_seconds``, are that much short; a worker lost before the head was ready has a negative
    one.
    """
    fault = facts.applied(history)[0]
    since = facts.applied_at(fault)
    workers = facts.ray_pods(history, namespace, cluster, "worker")
    before = facts.alive(workers, since)
    if not before:
        raise Unjudged(f"no worker of {cluster} was alive at the fault")

    heads = [run for run in facts.runs(facts.ray_pods(history, namespace, cluster, "head")) if run.seen.t > since]
    if not heads:
        raise Unjudged(f"no new head of {cluster} was seen after the fault")
    head = heads[-1]
    ready = head.pod.first(is_ready, since=head.seen.t)
    if ready is None:
        raise Unjudged(f"the new head {head.pod.name} was never ready")

    losses = {pod.name: facts.loss(pod, since) for pod, _ in before}
    lost = {name: loss for name, loss in losses.items() if loss is not None}
    delays = {name: round(loss.state.t - ready.t, 3) for name, loss in lost.items()}
    seen = (
        facts.fault_evidence(fault),
        facts.evidence(ready, f"new head {head.pod.name} ready"),
        *(facts.evidence(loss.state, f"worker {name} {loss.how}") for name, loss in lost.items()),
    )
    late = [f"{name} after {delay:.1f} s" for name, delay in delays.items() if delay > within]
    if late:
        reason = f"lost later than {within:.0f} s after the new head was ready: {', '.join(late)}"
        return Finding(Outcome.BROKEN, reason, seen, delays)
    kept = [name for name in losses if name not in lost]
    if kept:
        facts.no_gap(history, "pods", since, history.until)
        watched = history.until - ready.t
        if watched < within:
            raise Unjudged(f"too early to tell: watched {watched:.0f} s of {within:.0f} s after the new head was ready")
        reason = f"{', '.join(kept)} survived, same UID and restart count {watched:.0f} s after the new head was ready"
        return Finding(Outcome.BROKEN, reason, seen, delays)

    in_place = [pod.uid for pod, _ in before if pod.gone is None]
    back = [(pod, state) for pod, state in facts.alive(workers, history.until) if facts.running(state.object)]
    replaced = [pod for pod, _ in back if pod.uid in in_place or pod.born > since]
    if len(replaced) < len(before):
        return Finding(
            Outcome.BROKEN,
            f"{facts.plural(len(before), 'worker')} lost, only {len(replaced)} running again at the end",
            seen,
            delays,
        )
    slowest = max(delays.values())
    return Finding(
        Outcome.HOLDS,
        f"all {facts.plural(len(before), 'worker')} recreated, the last {slowest:.1f} s after the new head was ready",
        seen,
        delays,
    )
