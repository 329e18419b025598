"""FT-1: without fault tolerance the loss of the head costs every worker."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Lifetime, is_ready
from chaos.verdict import Finding, Outcome


@check
def workers_lost(history: History, *, namespace: str, cluster: str, within: float = 75.0) -> Finding:
    """Every worker alive at the first fault was recreated within ``within`` seconds after the new head was ready.

    Recreated is a new UID or one restart more in place. The bound is the raylet's self check (60 s) and 15 s to see
    the container end. The head registers some seconds before it is Ready (readiness waits 10 s), so workers may well
    be lost before that. ``recovery_seconds`` counts from the fault: ``first_worker_lost``, ``last_worker_lost`` and,
    once there are as many as before, ``last_worker_ready_again``.
    """
    fault = facts.applied(history)[0]
    since = facts.applied_at(fault)
    workers = facts.ray_pods(history, namespace, cluster, "worker")
    before = facts.alive(workers, since)
    if not before:
        raise Unjudged(f"no worker of {cluster} was alive at the fault")

    heads = facts.head_runs_since(history, namespace, cluster, since)
    if not heads:
        raise Unjudged(f"no new head of {cluster} was seen after the fault")
    head = heads[-1]
    ready = head.pod.first(is_ready, since=head.seen.t)
    if ready is None:
        raise Unjudged(f"the new head {head.pod.name} was never ready")

    losses = {pod.name: facts.loss(pod, since) for pod, _ in before}
    lost = {name: loss for name, loss in losses.items() if loss is not None}
    delays = {name: loss.state.t - ready.t for name, loss in lost.items()}
    split = _split(since, lost, _ready_again(workers, [pod for pod, _ in before], lost, since))
    seen = (
        facts.fault_evidence(fault),
        facts.evidence(ready, f"new head {head.pod.name} ready"),
        *(facts.evidence(loss.state, f"worker {name} {loss.how}") for name, loss in lost.items()),
    )
    late = [f"{name} after {delay:.1f} s" for name, delay in delays.items() if delay > within]
    if late:
        reason = f"lost later than {within:.0f} s after the new head was ready: {', '.join(late)}"
        return Finding(Outcome.BROKEN, reason, seen, split)
    kept = [name for name in losses if name not in lost]
    if kept:
        facts.no_gap(history, "pods", since, history.until)
        watched = history.until - ready.t
        if watched < within:
            raise Unjudged(f"too early to tell: watched {watched:.0f} s of {within:.0f} s after the new head was ready")
        reason = f"{', '.join(kept)} survived, same UID and restart count {watched:.0f} s after the new head was ready"
        return Finding(Outcome.BROKEN, reason, seen, split)

    in_place = [pod.uid for pod, _ in before if pod.gone is None]
    back = [(pod, state) for pod, state in facts.alive(workers, history.until) if facts.running(state.object)]
    replaced = [pod for pod, _ in back if pod.uid in in_place or pod.born > since]
    if len(replaced) < len(before):
        return Finding(
            Outcome.BROKEN,
            f"{facts.plural(len(before), 'worker')} lost, only {len(replaced)} running again at the end",
            seen,
            split,
        )
    last = max(loss.state.t for loss in lost.values())
    relation = "before" if last < ready.t else "after"
    reason = (
        f"{facts.plural(len(before), 'worker')} lost and recreated: the last was lost {last - since:.1f} s after the fault, "
        f"{abs(last - ready.t):.1f} s {relation} the new head was ready"
    )
    return Finding(Outcome.HOLDS, reason, seen, split)


def _ready_again(
    workers: list[Lifetime], before: list[Lifetime], lost: dict[str, facts.Loss], since: float
) -> float | None:
    """When as many workers as before the fault had been ready again, each restarted in place or new."""
    began = {pod.uid: lost[pod.name].state.t for pod in before if pod.name in lost}
    began |= {pod.uid: pod.born for pod in workers if pod.born > since}
    states = [
        pod.first(lambda o: is_ready(o) and facts.running(o), since=began[pod.uid])
        for pod in workers
        if pod.uid in began and pod.gone is None
    ]
    times = sorted(state.t for state in states if state is not None)
    return times[len(before) - 1] if len(times) >= len(before) else None


def _split(since: float, lost: dict[str, facts.Loss], ready_again: float | None) -> dict[str, float]:
    times = [loss.state.t for loss in lost.values()]
    steps = {
        "first_worker_lost": min(times, default=None),
        "last_worker_lost": max(times, default=None),
        "last_worker_ready_again": ready_again,
    }
    return {step: round(t - since, 3) for step, t in steps.items() if t is not None}
