"""Which (fault, crash point) pairs are tried: drawn from a seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.crash.kinds import KINDS
from tests.crash.points import points

WHOLE, SAMPLE = 200, 20
DEFAULT_SEED = "1"
_HEAVY_EVERY = 4


@dataclass(frozen=True)
class Pair:
    """One kind of fault (a row of the table) and the point at which the harness is killed."""

    kind: str
    point: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.point}"


def draw(seed: str, count: int, kinds: Sequence[str]) -> list[Pair]:
    """``count`` pairs; a prefix of what a greater count gives. Each round has every kind once, in an order of its own.

    Heavy kinds are in the second round and in every fourth from there on. A kind's points come in an order of its own too,
    and each once before any comes again.
    """
    chance = random.Random(f"crash points {seed}")
    waiting: dict[str, list[str]] = {kind: [] for kind in kinds}
    drawn: list[Pair] = []
    for number in itertools.count():
        if len(drawn) >= count:
            break
        light = [kind for kind in kinds if not KINDS[kind].heavy]
        taking_part = list(kinds) if number % _HEAVY_EVERY == 1 or not light else light
        for kind in chance.sample(taking_part, len(taking_part)):
            if not waiting[kind]:
                of_kind = points(undone=KINDS[kind].undone)
                waiting[kind] = chance.sample(of_kind, len(of_kind))
            drawn.append(Pair(kind, waiting[kind].pop()))
    return drawn[:count]
