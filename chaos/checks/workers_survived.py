"""FT-2: the workers live through the loss of the head."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Evidence, Finding, Outcome

_SECOND_LOOK = 20.0


@check
def workers_survived(history: History, *, namespace: str, cluster: str, settle: float = 75.0) -> Finding:
    """Every worker alive when the first fault was applied is, at the view's end, the same processes.

    Same UID, same restart count, no container ended, not being deleted. A loss that was seen decides; its absence
    counts only if the pods were watched without a gap and for ``settle`` seconds after the cluster was functional
    again: a raylet asks the GCS every 60 s whether it still belongs, so workers that are lost die up to a minute after
    the new head is up (34 s were measured), and 15 s more are left for the container to be seen to end. Where the head never
    began anew there is no other GCS to find out about; a second look, 20 s after the first, then serves.
    """
    fault = facts.applied(history)[0]
    since = facts.applied_at(fault)
    workers = facts.alive(facts.ray_pods(history, namespace, cluster, "worker"), since)
    if not workers:
        raise Unjudged(f"no worker of {cluster} was alive at the fault")

    losses = [(pod, lost) for pod, _ in workers if (lost := facts.loss(pod, since))]
    if losses:
        told = [f"{pod.name} {lost.how}, {lost.state.t - since:.1f} s after the fault" for pod, lost in losses]
        seen = tuple(facts.evidence(lost.state, f"worker {pod.name} {lost.how}") for pod, lost in losses)
        reason = f"{len(losses)} of {facts.plural(len(workers), 'worker')} lost: " + "; ".join(told)
        return Finding(Outcome.BROKEN, reason, (facts.fault_evidence(fault), *seen))

    facts.no_gap(history, "pods", since, history.until)
    back = facts.functional_again(history, namespace, cluster, since)
    if back is None:
        raise Unjudged(f"{cluster} was never functional after the fault, so its workers may still be about to go")
    watched = history.until - back.t
    new_head = facts.head_runs_since(history, namespace, cluster, since)
    needed = settle if new_head else min(settle, _SECOND_LOOK)
    if watched < needed:
        raise Unjudged(
            f"too early to tell: watched {watched:.0f} s of the {needed:.0f} s after {cluster} was functional"
        )
    kept = tuple(
        Evidence(state.n, state.t, f"worker {pod.name} alive at the fault, UID {pod.uid}") for pod, state in workers
    )
    names = ", ".join(pod.name for pod, _ in workers)
    return Finding(
        Outcome.HOLDS,
        f"{facts.plural(len(workers), 'worker')} ({names}) kept UID and restarts until {watched:.0f} s after recovery",
        (facts.fault_evidence(fault), *kept, facts.probe_evidence(back)),
    )
