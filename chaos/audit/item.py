"""What an item of the checklist is, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.estate.estate import Estate
from chaos.estate.raycluster import RayCluster
from chaos.estate.resource import Place
from chaos.verdict import Outcome


@dataclass(frozen=True)
class Inputs:
    """What an item may look at beside the Ray cluster.

    ``recovery`` is the head's measured recovery in seconds and where it is from; ``state_outside`` what the user says of
    actors' state; ``redis`` what Redis said of itself, by Ray cluster, where it was asked.
    """

    estate: Estate
    clusters: tuple[RayCluster, ...]
    recovery: tuple[float, str] | None = None
    state_outside: bool | None = None
    redis: Mapping[str, Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class Answer:
    """What an item says of one Ray cluster."""

    outcome: Outcome
    reason: str
    evidence: tuple[Place, ...] = ()
    fix: str = ""


@dataclass(frozen=True)
class Item:
    """One item. ``applies`` says whether it has anything to say of a Ray cluster."""

    id: str
    title: str
    judge: Callable[[RayCluster, Inputs], Answer]
    applies: Callable[[RayCluster, Inputs], bool]


@dataclass(frozen=True)
class Finding:
    """An item's answer about one Ray cluster."""

    item: str
    title: str
    subject: str
    answer: Answer = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """A dict of JSON types."""
        return {
            "item": self.item,
            "title": self.title,
            "subject": self.subject,
            "verdict": str(self.answer.outcome),
            "reason": self.answer.reason,
            "evidence": [place.as_json() for place in self.answer.evidence],
            "fix": self.answer.fix,
        }


def together(parts: Iterable[Answer]) -> Answer:
    """Several answers to one item: the worst outcome, and what the answers of that outcome say."""
    answers = list(parts)
    for outcome in (Outcome.BROKEN, Outcome.UNKNOWN):
        worst = [answer for answer in answers if answer.outcome is outcome]
        if worst:
            break
    else:
        outcome, worst = Outcome.HOLDS, answers
    return Answer(
        outcome,
        "; ".join(answer.reason for answer in worst),
        tuple(dict.fromkeys(place for answer in worst for place in answer.evidence)),
        "; ".join(dict.fromkeys(answer.fix for answer in worst if answer.fix)),
    )


def holds(reason: str, *evidence: Place) -> Answer:
    return Answer(Outcome.HOLDS, reason, evidence)


def broken(reason: str, *evidence: Place, fix: str) -> Answer:
    return Answer(Outcome.BROKEN, reason, evidence, fix)


def unknown(reason: str, *evidence: Place, fix: str) -> Answer:
    return Answer(Outcome.UNKNOWN, reason, evidence, fix)


def on_redis(cluster: RayCluster, _: Inputs) -> bool:
    """Whether the cluster asks for fault tolerance on Redis."""
    return asks(cluster, _) and not cluster.embedded


def asks(cluster: RayCluster, _: Inputs) -> bool:
    """Whether the cluster asks for fault tolerance in any form."""
    return cluster.form != "none"


def always(cluster: RayCluster, _: Inputs) -> bool:
    """For every cluster."""
    return True
