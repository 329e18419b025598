"""Which (fault, crash point) pairs are tried: drawn from a seed, and which of them were tried already."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.locks import atomic_write
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


def digest(files: Iterable[Path], *words: str) -> str:
    """Of the code that is tried and of what it is tried on: a result of other code is worth nothing."""
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(f"{path.name}\0".encode() + path.read_bytes())
    found.update("\0".join(words).encode())
    return found.hexdigest()[:16]


class Progress:
    """The pairs that were tried and left no difference, on disk after each, so that a killed run goes on where it was.

    A file in which all were tried is begun anew. Without a path nothing is remembered.
    """

    def __init__(self, path: Path | None, whole: int = WHOLE) -> None:
        self._path = path
        self.earlier: frozenset[int] = frozenset()
        if path is not None and path.exists():
            found = frozenset(json.loads(path.read_text())["passed"])
            self.earlier = found if len(found) < whole else frozenset()
        self.now: set[int] = set()

    def passed(self, index: int) -> None:
        self.now.add(index)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(self._path, json.dumps({"passed": sorted(self.now | self.earlier)}) + "\n")
