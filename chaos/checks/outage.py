"""FT-13: an outage ends with its fault; beside that, for how long it lasted and for how much of it no readiness told.

Monitoring that goes by pods sees an outage only when a pod is not Ready. A head whose GCS waits for a Redis that doesn't
answer is Ready all the while.
"""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, State, is_ready
from chaos.verdict import Finding, Outcome


@check
def outage_ended(history: History, *, namespace: str, cluster: str, within: float) -> Finding:
    """The cluster, which did not work while the first fault acted, works ``within`` seconds after its end, for good.

    ``recovery_seconds`` has the ``outage``, from the fault to the first success after the last failure, and the
    ``outage_unseen``: its part before any pod of the cluster was not Ready, all of it when none ever was.
    """
    fault = facts.applied(history)[0]
    since, over = facts.applied_at(fault), facts.ended_at(fault)
    used = [probe for probe in facts.functional_probes(history, namespace, cluster) if facts.began(probe) >= since]
    failed = [probe for probe in used if not probe.ok]
    if not failed or facts.began(failed[0]) >= over:
        raise Unjudged(f"{cluster} was not seen to fail while the fault acted")
    back = next((probe for probe in used if probe.ok and probe.t > failed[-1].t), None)
    if back is None:
        if history.until - over < within:
            raise Unjudged(f"too early to tell: watched {history.until - over:.0f} s of {within:.0f} s after the fault")
        reason = f"{cluster} did not work {history.until - over:.0f} s after the fault was over: {failed[-1].error}"
        return Finding(Outcome.BROKEN, reason, (facts.fault_evidence(fault), facts.probe_evidence(failed[-1])))
    facts.no_gap(history, "pods", since, back.t)
    shown = _first_not_ready(history, namespace, cluster, since, back.t)
    outage, unseen, late = back.t - since, (shown.t if shown else back.t) - since, back.t - over
    told = f"readiness told after {unseen:.1f} s" if shown else "every pod was Ready all the while"
    seen = [facts.fault_evidence(fault), facts.probe_evidence(failed[0]), facts.probe_evidence(back)]
    if shown:
        seen.append(facts.evidence(shown, f"pod {shown.object['metadata']['name']} not Ready"))
    return Finding(
        Outcome.HOLDS if late <= within else Outcome.BROKEN,
        f"{cluster} did not work for {outage:.1f} s ({told}) and works again {late:.1f} s after the fault was over",
        tuple(seen),
        {"outage": round(outage, 3), "outage_unseen": round(unseen, 3)},
    )


def _first_not_ready(history: History, namespace: str, cluster: str, since: float, until: float) -> State | None:
    """The first state of any pod of the cluster within that time in which it isn't Ready."""
    pods = [pod for node_type in ("head", "worker") for pod in facts.ray_pods(history, namespace, cluster, node_type)]
    states = [
        state for pod in pods for state in pod.states
        if since < state.t < until and (state.change == "DELETED" or not is_ready(state.object))
    ]  # fmt: skip
    return min(states, key=lambda state: state.t, default=None)
