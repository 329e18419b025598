"""Parts of a run, for several machines: each does one, and together they do all.

The longest first, each to the part that has least to do so far: the parts take about as long, and the same experiments are
always divided in the same way, in whatever order they come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Shard:
    """One part of ``of``, counted from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def divide(seconds: Mapping[str, int], count: int) -> list[list[str]]:
    """The names in ``count`` parts, by what each takes; with fewer names than parts some are empty."""
    parts: list[list[str]] = [[] for _ in range(count)]
    loads = [0] * count
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        least = loads.index(min(loads))
        parts[least].append(name)
        loads[least] += seconds[name]
    return parts
