"""FT-7 and FT-9: with the GCS gone, Ray's processes live as long as their reconnect time-out lasts, and no longer."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Injection, Lifetime, Object, State, is_terminating
from chaos.verdict import Evidence, Finding, Outcome

_TIMEOUT = "RAY_gcs_rpc_server_reconnect_timeout_s"
_RAYS_OWN = 60.0


def _loss_of_head(history: History, namespace: str, cluster: str) -> tuple[Injection, Lifetime]:
    """The first fault in the cluster's namespace, which must have cost the head that was there, and that head."""
    fault = next(
        (f for f in facts.applied(history) if (f.steps["apply"].get("target") or {}).get("namespace") == namespace),
        None,
    )
    if fault is None:
        raise Unjudged(f"no fault was applied to {cluster}")
    since = facts.applied_at(fault)
    before = facts.alive(facts.ray_pods(history, namespace, cluster, "head"), since)
    if not before:
        raise Unjudged(f"no head of {cluster} was alive at the fault")
    head, _ = before[0]
    if facts.loss(head, since) is None:
        raise Unjudged(f"the head {head.name} was not lost")
    return fault, head


def _back(history: History, namespace: str, cluster: str, since: float) -> State | None:
    """When the container of a new head was first seen to run."""
    for run in facts.runs(facts.ray_pods(history, namespace, cluster, "head")):
        if run.seen.t > since and (state := run.pod.first(facts.running, since=run.seen.t)):
            return state
    return None


def _workers(history: History, namespace: str, cluster: str, since: float) -> list[tuple[Lifetime, facts.Loss | None]]:
    workers = facts.alive(facts.ray_pods(history, namespace, cluster, "worker"), since)
    if not workers:
        raise Unjudged(f"no worker of {cluster} was alive at the fault")
    return [(pod, facts.loss(pod, since)) for pod, _ in workers]


def _lost(pod: Lifetime, loss: facts.Loss) -> Evidence:
    return facts.evidence(loss.state, f"worker {pod.name} {loss.how}")


@check
def head_exited(history: History, *, namespace: str, cluster: str, timeout: float, slack: float = 15.0) -> Finding:
    """The head's container ended by itself, not before ``timeout`` seconds after the fault and at most ``slack`` later.

    The same pod goes on: a head that was deleted has not exited. For a time-out of 60 s the end was seen after 62 s.
    """
    fault, head = _loss_of_head(history, namespace, cluster)
    since = facts.applied_at(fault)
    loss = facts.loss(head, since)
    assert loss is not None
    after = loss.state.t - since
    seen = (facts.fault_evidence(fault), facts.evidence(loss.state, f"head {head.name} {loss.how}"))
    split = {"head_exited": round(after, 3)}
    if loss.state.change == "DELETED" or is_terminating(loss.state.object):
        raise Unjudged(f"head {head.name} was deleted, so its own end can't be told")
    if not timeout <= after <= timeout + slack:
        reason = f"head {loss.how} after {after:.1f} s, outside of {timeout:.0f} s to {timeout + slack:.0f} s"
        return Finding(Outcome.BROKEN, reason, seen, split)
    return Finding(Outcome.HOLDS, f"head {loss.how} after {after:.1f} s, time-out {timeout:.0f} s", seen, split)


@check
def workers_timed_out(
    history: History, *, namespace: str, cluster: str, timeout: float, slack: float = 15.0
) -> Finding:
    """Every worker ended while no head was there, not before ``timeout`` seconds and at most ``slack`` seconds later.

    Loss after a new head runs doesn't count: that may be the new GCS's doing. The slack is for Ray to see that the
    connection is gone, for the container to end (a second each) and for the kubelet to tell; 4 s were measured in all.
    """
    fault, _ = _loss_of_head(history, namespace, cluster)
    since = facts.applied_at(fault)
    back = _back(history, namespace, cluster, since)
    end = history.until if back is None else back.t
    away = end - since
    workers = _workers(history, namespace, cluster, since)
    lost = [(pod, loss) for pod, loss in workers if loss is not None and loss.state.t <= end]
    seen = (facts.fault_evidence(fault), *(_lost(pod, loss) for pod, loss in lost))
    if back is not None:
        seen = (*seen, facts.evidence(back, "a new head runs"))
    after = {pod.name: loss.state.t - since for pod, loss in lost}
    split = {
        f"{which}_worker_lost": round(of(after.values()), 3) for which, of in (("first", min), ("last", max)) if after
    }
    wrong = [f"{name} after {t:.1f} s" for name, t in after.items() if not timeout <= t <= timeout + slack]
    if wrong:
        reason = f"lost outside of {timeout:.0f} s to {timeout + slack:.0f} s after the head: {', '.join(wrong)}"
        return Finding(Outcome.BROKEN, reason, seen, split)
    if len(lost) < len(workers):
        if away < timeout + slack:
            raise Unjudged(f"the head was away for {away:.0f} s, too short for a time-out of {timeout:.0f} s")
        facts.no_gap(history, "pods", since, end)
        kept = ", ".join(pod.name for pod, loss in workers if (pod, loss) not in lost)
        return Finding(Outcome.BROKEN, f"{kept} outlived the {away:.0f} s without a head", seen, split)
    reason = (
        f"{facts.plural(len(lost), 'worker')} ended {min(after.values()):.1f} to {max(after.values()):.1f} s after the head, "
        f"time-out {timeout:.0f} s, outage at least {away:.0f} s: margin below {timeout / away:.1f}"
    )
    return Finding(Outcome.HOLDS, reason, seen, split)


@check
def workers_outlived_outage(history: History, *, namespace: str, cluster: str) -> Finding:
    """From the loss of the head until the cluster was functional again no worker was lost; the margin is told.

    The margin is the workers' time-out, as their pods have it, over the outage. Whether they get along with the new head is
    for `workers_survived`.
    """
    fault, _ = _loss_of_head(history, namespace, cluster)
    since = facts.applied_at(fault)
    again = facts.functional_again(history, namespace, cluster, since)
    end = history.until if again is None else again.t
    workers = _workers(history, namespace, cluster, since)
    lost = [(pod, loss) for pod, loss in workers if loss is not None and loss.state.t <= end]
    if lost:
        told = ", ".join(f"{pod.name} {loss.how}, {loss.state.t - since:.1f} s after the fault" for pod, loss in lost)
        reason = f"{len(lost)} of {facts.plural(len(workers), 'worker')} lost during the outage: {told}"
        return Finding(Outcome.BROKEN, reason, (facts.fault_evidence(fault), *(_lost(pod, loss) for pod, loss in lost)))
    if again is None:
        raise Unjudged(f"{cluster} was not functional again, so the outage has no length")
    facts.no_gap(history, "pods", since, end)
    outage = again.t - since
    timeout = min(_timeout(pod.latest.object) for pod, _ in workers)
    reason = (
        f"{facts.plural(len(workers), 'worker')} outlived an outage of {outage:.1f} s: "
        f"time-out {timeout:.0f} s, margin {timeout / outage:.1f}"
    )
    return Finding(
        Outcome.HOLDS,
        reason,
        (facts.fault_evidence(fault), facts.probe_evidence(again)),
        {"functional": round(outage, 3)},
    )


def _timeout(pod: Object) -> float:
    env = pod["spec"]["containers"][0].get("env") or []
    return float(next((entry["value"] for entry in reversed(env) if entry["name"] == _TIMEOUT), _RAYS_OWN))
