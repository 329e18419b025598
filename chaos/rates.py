"""What repetitions come to: how often a claim held, and how far apart its recovery times are.

A rate is of what was judged. What is unknown shows nothing either way: it is counted beside the rate and never as holds, and
its recovery times are left out. The interval is Wilson's, which also holds where few repetitions all came out the same:
two of two are no proof of all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from chaos.verdict import Judgement, Outcome, Role, Verdict

# Of the normal distribution, for 95 %.
_Z = 1.959964
# With fewer values, the 95th percentile is the greatest of them.
ENOUGH_FOR_P95 = 20


@dataclass(frozen=True)
class Spread:
    """How far apart ``n`` values are; ``p95`` by nearest rank."""

    n: int
    min: float
    median: float
    p95: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """That of at least one value."""
        ordered = sorted(values)
        rank = -(-95 * len(ordered) // 100)
        return cls(len(ordered), ordered[0], round(median(ordered), 3), ordered[rank - 1], ordered[-1])

    def __str__(self) -> str:
        p95 = f", 95 % within {self.p95:.1f}" if self.n >= ENOUGH_FOR_P95 else ""
        return f"{self.median:.1f} s ({self.min:.1f} to {self.max:.1f}{p95}; n {self.n})"


@dataclass(frozen=True)
class Rate:
    """One (claim, experiment, arm) over its repetitions; ``verdicts`` has at least one."""

    claim: str
    experiment: str
    arm: str
    role: Role
    verdicts: tuple[Verdict, ...]

    def _of(self, outcome: Outcome) -> int:
        return sum(v.verdict is outcome and v.judgement is not Judgement.NOT_APPLICABLE for v in self.verdicts)

    @property
    def holds(self) -> int:
        return self._of(Outcome.HOLDS)

    @property
    def judged(self) -> int:
        """Those that came out one way or the other."""
        return self.holds + self._of(Outcome.BROKEN)

    @property
    def unknown(self) -> int:
        return self._of(Outcome.UNKNOWN)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Between which shares the true one is, by Wilson's score at 95 %; None when nothing was judged."""
        n, k = self.judged, self.holds
        if not n:
            return None
        middle = (k + _Z**2 / 2) / (n + _Z**2)
        reach = _Z / (n + _Z**2) * math.sqrt(k * (n - k) / n + _Z**2 / 4)
        return max(middle - reach, 0.0), min(middle + reach, 1.0)

    @property
    def recovery(self) -> list[tuple[str, Spread]]:
        """The times of each step of what was judged, in the order of their medians."""
        times: dict[str, list[float]] = {}
        for verdict in self.verdicts:
            if verdict.verdict is not Outcome.UNKNOWN:
                for step, seconds in verdict.recovery_seconds.items():
                    times.setdefault(step, []).append(seconds)
        spreads = [(step, Spread.of(values)) for step, values in times.items()]
        return sorted(spreads, key=lambda item: item[1].median)

    def __str__(self) -> str:
        if not self.judged and not self.unknown:
            return "not applicable"
        held = f"holds {self.holds} of {self.judged}" if self.judged else "none judged"
        return held + (f", {self.unknown} unknown" if self.unknown else "")

    def interval_text(self) -> str:
        """``34 to 100 %``, or an empty string."""
        return f"{100 * self.interval[0]:.0f} to {100 * self.interval[1]:.0f} %" if self.interval else ""

    def as_json(self) -> dict[str, Any]:
        """One entry of ``rates.json``."""
        return {
            "claim": self.claim,
            "experiment": self.experiment,
            "arm": self.arm,
            "role": str(self.role),
            "repetitions": len(self.verdicts),
            "holds": self.holds,
            "judged": self.judged,
            "unknown": self.unknown,
            "rate": round(self.holds / self.judged, 4) if self.judged else None,
            "interval_95": [round(end, 4) for end in self.interval] if self.interval else None,
            "recovery_seconds": {step: asdict(spread) for step, spread in self.recovery},
        }


def rates(verdicts: Sequence[Verdict]) -> list[Rate]:
    """One for each (claim, experiment, arm), as they came; none where no experiment was repeated."""
    if all(verdict.repetition is None for verdict in verdicts):
        return []
    groups: dict[tuple[str, str, str, Role], list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.claim, verdict.experiment, verdict.arm, verdict.role), []).append(verdict)
    return [Rate(*key, tuple(group)) for key, group in groups.items()]
