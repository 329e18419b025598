"""How an experiment declares what it shows, and how it says what it expects.

An experiment is a pytest function that drives the stack and never judges: it writes *expectations*, which are data, into the
history. Judging happens afterwards, from the history alone, so that a stored one can be judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

import pytest

from chaos.checks.base import Check
from chaos.history.entry import What
from chaos.history.store import HistoryWriter
from chaos.settings import Level
from chaos.turns import Part

F = TypeVar("F", bound=Callable[..., object])

MARKER = "experiment"


@dataclass(frozen=True)
class Declaration:
    """What an experiment shows: (claim, arm) pairs; ``seconds`` is what it usually takes on two cores."""

    shows: tuple[tuple[str, str], ...]
    level: Level
    seconds: int
    disturbs: frozenset[Part] = frozenset()
    relies_on: frozenset[Part] = frozenset(Part)


def experiment(
    *shows: tuple[str, str],
    seconds: int,
    level: Level = Level.FLAGSHIP,
    disturbs: Collection[Part] = (),
    relies_on: Collection[Part] = tuple(Part),
) -> Callable[[F], F]:
    """Declare an experiment. ``shows`` are (claim, arm) pairs, for example ``("FT-2", "gcs-ft")``.

    ``disturbs`` names the shared parts that its faults hit: no experiment that relies on one of them has its turn
    meanwhile. By default it relies on all of them and disturbs none.
    """
    declared = Declaration(shows, level, seconds, frozenset(disturbs), frozenset(relies_on))

    def mark(function: F) -> F:
        marked: F = getattr(pytest.mark, MARKER)(declared)(function)
        return marked

    return mark


class Expect:
    """Writes expectations into the history."""

    def __init__(self, writer: HistoryWriter) -> None:
        self._writer = writer

    def __call__(self, claim: str, arm: str, *checks: Check, control: tuple[str, Check] | None = None) -> None:
        """In ``arm`` all ``checks`` must hold. ``control`` is another arm with a check that must come out broken there.

        The control is what shows that the check is able to fail; when it doesn't, neither arm proves anything.
        """
        opposite = None
        if control is not None:
            name, check = control
            opposite = {"arm": name, "checks": [check.as_json()]}
        self._writer.write(
            What.EXPECT, claim=claim, arm=arm, checks=[check.as_json() for check in checks], control=opposite
        )
