"""FT-4 and FT-5: an actor lives on with its process, starts anew without its state, or is gone.

The functional probe's value tells of each actor it called: ``{"actors": {NAME: {"pid", "count", "born", "node"}}}``.
``born`` is a token drawn in ``__init__``: a process ID alone could be handed out twice, after a restart most of all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Probe
from chaos.verdict import Evidence, Finding, Outcome

# What Ray says of a name that no living actor has, and of an actor that it will not start again.
_NO_SUCH_ACTOR = "Failed to look up actor|ActorDiedError"


@dataclass(frozen=True)
class _Answer:
    """What an actor said of itself in one successful probe."""

    probe: Probe
    pid: int
    born: str
    count: int

    @property
    def process(self) -> tuple[int, str]:
        return self.pid, self.born

    def evidence(self) -> Evidence:
        shows = f"actor answered: pid {self.pid}, born {self.born}, count {self.count}"
        return facts.probe_evidence(self.probe, shows)


def _answers(history: History, namespace: str, cluster: str, actor: str) -> tuple[_Answer, list[_Answer]]:
    """The actor's last answer before the first fault, and all after it. Raises Unjudged when either is missing."""
    since = facts.applied_at(facts.applied(history)[0])
    answers = [
        _Answer(probe, told["pid"], told["born"], told["count"])
        for probe in facts.functional_probes(history, namespace, cluster)
        if probe.ok and (told := probe.value.get("actors", {}).get(actor))
    ]
    before = [answer for answer in answers if answer.probe.t <= since]
    after = [answer for answer in answers if facts.began(answer.probe) >= since]
    if not before:
        raise Unjudged(f"actor {actor} did not answer before the fault")
    if not after:
        raise Unjudged(f"actor {actor} did not answer after the fault")
    return before[-1], after


@check
def actor_process_kept(history: History, *, namespace: str, cluster: str, actor: str) -> Finding:
    """Before the fault and in every answer after it the same process answers, and its counter grows with each call."""
    before, after = _answers(history, namespace, cluster, actor)
    last = before
    for answer in after:
        seen = (last.evidence(), answer.evidence())
        if answer.process != before.process:
            reason = (
                f"{actor} runs in another process: pid {before.pid}→{answer.pid}, count {before.count}→{answer.count}"
            )
            return Finding(Outcome.BROKEN, reason, seen)
        if answer.count <= last.count:
            return Finding(Outcome.BROKEN, f"{actor}'s counter did not grow: {last.count}→{answer.count}", seen)
        last = answer
    reason = (
        f"{actor} kept pid {before.pid}, counter {before.count}→{last.count} over {facts.plural(len(after), 'answer')}"
    )
    return Finding(Outcome.HOLDS, reason, (before.evidence(), after[0].evidence(), last.evidence()))


@check
def actor_started_anew(history: History, *, namespace: str, cluster: str, actor: str) -> Finding:
    """After the fault another process answers, and its counter began again below where it had been."""
    before, after = _answers(history, namespace, cluster, actor)
    anew = next((answer for answer in after if answer.process != before.process), None)
    if anew is None:
        last = after[-1]
        reason = f"{actor} was not started anew: pid {before.pid} still answers, count {before.count}→{last.count}"
        return Finding(Outcome.BROKEN, reason, (before.evidence(), last.evidence()))
    seen = (before.evidence(), anew.evidence())
    if anew.count >= before.count:
        reason = f"{actor} runs in another process, yet its counter went on: {before.count}→{anew.count}"
        return Finding(Outcome.BROKEN, reason, seen)
    reason = f"{actor} started anew: pid {before.pid}→{anew.pid}, counter back from {before.count} to {anew.count}"
    return Finding(Outcome.HOLDS, reason, seen)


@check
def actor_gone(history: History, *, namespace: str, cluster: str, actor: str) -> Finding:
    """The actor answered before the fault; after it the cluster works, and Ray says that there is no such actor.

    That nothing answers is not enough: an actor that is being started again doesn't either.
    """
    since = facts.applied_at(facts.applied(history)[0])
    probes = facts.functional_probes(history, namespace, cluster)
    answers = [probe for probe in probes if actor in probe.value.get("actors", {})]
    before = [probe for probe in answers if probe.t <= since]
    if not before:
        raise Unjudged(f"actor {actor} did not answer before the fault")
    if after := [probe for probe in answers if facts.began(probe) >= since]:
        seen = (facts.probe_evidence(before[-1]), facts.probe_evidence(after[0], f"actor {actor} answered"))
        return Finding(Outcome.BROKEN, f"{actor} still answers {after[0].t - since:.1f} s after the fault", seen)
    back = facts.functional_again(history, namespace, cluster, since)
    if back is None:
        raise Unjudged(f"{cluster} was never functional after the fault, so nobody knows of {actor}")
    said = re.compile(rf"\bactor:{re.escape(actor)}: [^;]*({_NO_SUCH_ACTOR})")
    gone = [probe for probe in probes if facts.began(probe) >= back.t and said.search(probe.error)]
    if not gone:
        raise Unjudged(f"Ray did not say what became of {actor} since {cluster} works again")
    seen = (facts.probe_evidence(before[-1], f"actor {actor} answered"), facts.probe_evidence(gone[-1]))
    return Finding(Outcome.HOLDS, f"Ray knows of no actor {actor}, {gone[-1].t - since:.1f} s after the fault", seen)
