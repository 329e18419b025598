"""FT-18: the outage that a service's client sees, and whether the service's start-up was part of it.

The client's probe succeeds with every answer. The client lives in a pod that no fault hits, so that no answer is missed for
its own sake.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Injection, Probe
from chaos.verdict import Evidence, Finding, Outcome

# It calls twice a second, and an answer on a busy machine may take a second or two.
_EVERYDAY_SECONDS = 5.0


@dataclass(frozen=True)
class _Outage:
    """From the last answer before the first long wait since the fault to the first after the last one."""

    fault: Injection
    last: Probe
    again: Probe

    @property
    def seconds(self) -> float:
        return self.again.t - self.last.t

    def evidence(self) -> tuple[Evidence, ...]:
        return (
            facts.fault_evidence(self.fault),
            facts.probe_evidence(self.last, _said(self.last, "the last answer")),
            facts.probe_evidence(self.again, _said(self.again, "an answer again")),
        )


def _said(probe: Probe, what: str) -> str:
    return f"{what}: pid {probe.value['pid']}, born {probe.value['born']}, count {probe.value['count']}"


def _outage(history: History, namespace: str, cluster: str) -> _Outage:
    fault = facts.applied(history)[0]
    since = facts.applied_at(fault)
    answers = [probe for probe in history.probes("client", namespace=namespace, cluster=cluster) if probe.ok]
    if not answers or answers[0].t > since:
        raise Unjudged(f"the service on {namespace}/{cluster} did not answer before the fault")
    silent = history.until - answers[-1].t
    if silent > _EVERYDAY_SECONDS:
        raise Unjudged(f"the service on {namespace}/{cluster} has not answered for {silent:.1f} s when the record ends")
    waits = [_Outage(fault, last, again) for last, again in pairwise(answers) if again.t > since]
    if not waits:
        raise Unjudged(f"the service on {namespace}/{cluster} was not called after the fault")
    long = [wait for wait in waits if wait.seconds > _EVERYDAY_SECONDS]
    if not long:
        return max(waits, key=lambda wait: wait.seconds)
    return _Outage(fault, long[0].last, long[-1].again)


@check
def outage_shorter(history: History, *, namespace: str, cluster: str, than: Mapping[str, Any]) -> Finding:
    """The client's outage since the fault is shorter than that of another cluster's client, which met the same.

    ``recovery_seconds`` has it as ``service_answers``. Where no wait is longer than 5 s, the longest one is the outage.
    """
    ours, theirs = _outage(history, namespace, cluster), _outage(history, **than)
    shorter = ours.seconds < theirs.seconds
    reason = (
        f"the client was without an answer for {ours.seconds:.1f} s, {'shorter' if shorter else 'not shorter'} than the "
        f"{theirs.seconds:.1f} s of {than['namespace']}'s"
    )
    return Finding(
        Outcome.HOLDS if shorter else Outcome.BROKEN,
        reason,
        (*ours.evidence(), *theirs.evidence()),
        {"service_answers": round(ours.seconds, 3)},
    )


@check
def start_up_waited_for(history: History, *, namespace: str, cluster: str, start_up: float) -> Finding:
    """Workers were lost, and from the loss of the first one there was no answer for ``start_up`` seconds.

    That is another life of the service: one that takes so long to begin. ``recovery_seconds`` has the client's outage as
    ``service_answers``.
    """
    outage = _outage(history, namespace, cluster)
    since = facts.applied_at(outage.fault)
    workers = facts.alive(facts.ray_pods(history, namespace, cluster, "worker"), since)
    losses = [(pod, loss) for pod, _ in workers if (loss := facts.loss(pod, since)) and loss.state.t < outage.again.t]
    split = {"service_answers": round(outage.seconds, 3)}
    if not losses:
        facts.no_gap(history, "pods", since, outage.again.t)
        reason = f"the client's outage of {outage.seconds:.1f} s ended without the loss of a worker"
        return Finding(Outcome.BROKEN, reason, outage.evidence(), split)
    pod, loss = min(losses, key=lambda each: each[1].state.t)
    after = outage.again.t - loss.state.t
    seen = (*outage.evidence(), facts.evidence(loss.state, f"worker {pod.name} {loss.how}"))
    told = f"an answer came {after:.1f} s after the loss of {pod.name}, start-up {start_up:.0f} s; outage {outage.seconds:.1f} s"
    if after < start_up:
        return Finding(Outcome.BROKEN, told, seen, split)
    if outage.again.value["born"] == outage.last.value["born"]:
        return Finding(Outcome.BROKEN, f"{told}, yet the same life answers", seen, split)
    return Finding(Outcome.HOLDS, told, seen, split)
