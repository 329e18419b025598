"""FT-17: who gets an answer from Redis, and which one.

A redis-knock probe connects once to a server of Redis and says one command. Its target's ``name`` tells knocks of one kind; its
value is ``{"reached": bool, "answer": first line or null, "refusal": why no connection came about, or null}``.
"""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Probe
from chaos.verdict import Evidence, Finding, Outcome

# How a policy turns packets away: an answer of its own, or none. Anything else, such as an unknown host, is another matter.
_TURNED_AWAY = ("ECONNREFUSED", "ETIMEDOUT", "EHOSTUNREACH")


def _knocks(history: History, probe: str) -> list[Probe]:
    knocks = [knock for knock in history.probes("redis-knock") if knock.target.get("name") == probe and knock.ok]
    if not knocks:
        raise Unjudged(f"no knock of {probe} came to a result")
    return knocks


def _told(knock: Probe) -> Evidence:
    value = knock.value
    shows = f"answer {value['answer']}" if value["reached"] else f"no connection: {value['refusal']}"
    return facts.probe_evidence(knock, f"{knock.target['name']}: {shows}")


@check
def redis_answers(history: History, *, probe: str, answer: str) -> Finding:
    """Every knock got through and the answer's first word was ``answer``: ``NOAUTH``, ``READONLY``, ``OK`` …"""
    knocks = _knocks(history, probe)
    seen = tuple(map(_told, knocks))
    for knock in knocks:
        if not knock.value["reached"]:
            raise Unjudged(f"{probe} never got as far as an answer: {knock.value['refusal']}")
        said = str(knock.value["answer"])
        if said.lstrip("-+").split(" ")[0] != answer:
            return Finding(Outcome.BROKEN, f"{probe} was answered {said}, not {answer}", seen)
    return Finding(Outcome.HOLDS, f"{probe} was answered {answer}", seen)


@check
def redis_out_of_reach(history: History, *, probe: str) -> Finding:
    """No knock got a connection: each was refused or met silence."""
    knocks = _knocks(history, probe)
    seen = tuple(map(_told, knocks))
    if any(knock.value["reached"] for knock in knocks):
        return Finding(Outcome.BROKEN, f"{probe} got a connection", seen)
    ways = sorted({str(knock.value["refusal"]) for knock in knocks})
    if strange := [way for way in ways if way not in _TURNED_AWAY]:
        raise Unjudged(f"{probe} failed for another reason than a policy: {', '.join(strange)}")
    return Finding(Outcome.HOLDS, f"{probe} got no connection: {', '.join(ways)}", seen)
