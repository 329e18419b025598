"""Verdicts: what a check says of a history, and what that means for the process's exit code.

A verdict is three-valued and about the claim as the catalogue words it, whatever the version under test. ``unknown`` is
never green. The *judgement* says what a reader should make of it: as documented, a known defect, or a new finding.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from chaos.repetition import named


class Outcome(StrEnum):
    """The three values of a verdict."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Judgement(StrEnum):
    """What the verdict means, given the version table."""

    AS_DOCUMENTED = "as documented"
    KNOWN_DEFECT = "known defect"
    NEW_FINDING = "new finding"
    NOT_APPLICABLE = "not applicable"
    NONE = ""  # nothing to say of an unknown


class Role(StrEnum):
    """Whether the arm must show the claim, or must show its opposite so that the check is known to be able to fail."""

    CLAIM = "claim"
    CONTROL = "control"


@dataclass(frozen=True)
class Evidence:
    """A pointer into the history: the entry's number, its time and what it shows, in one line."""

    entry: int
    at: float  # seconds since the run began, monotonic
    shows: str


@dataclass(frozen=True)
class Finding:
    """What one check says: a pure function of the history and the check's parameters."""

    outcome: Outcome
    reason: str
    evidence: tuple[Evidence, ...] = ()
    recovery_seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """One entry of ``verdicts.json``: one (claim, experiment, arm), of one repetition where experiments are repeated."""

    claim: str
    experiment: str
    arm: str
    verdict: Outcome
    reason: str
    evidence: tuple[Evidence, ...] = ()
    recovery_seconds: dict[str, float] = field(default_factory=dict)
    role: Role = Role.CLAIM
    judgement: Judgement = Judgement.NONE
    reference: str = ""  # the public issue, for a known defect
    repetition: int | None = None  # from 1; None: the experiment ran once

    @property
    def begun_as(self) -> str:
        """The experiment's name in the history."""
        return named(self.experiment, self.repetition)

    def as_json(self) -> dict[str, Any]:
        """A dict of JSON types; keys are the field names."""
        return asdict(self)

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Verdict:
        """The verdict of such a dict."""
        kinds = {"verdict": Outcome, "role": Role, "judgement": Judgement}
        evidence = tuple(Evidence(**each) for each in entry["evidence"])
        return cls(**{**entry, **{key: kind(entry[key]) for key, kind in kinds.items()}, "evidence": evidence})


def exit_code(verdicts: Iterable[Verdict], *, accept_known: bool = False) -> int:
    """0 all hold or aren't applicable, 1 something is broken, 2 nothing broken but something unknown.

    With ``accept_known`` a known defect passes. No verdict at all is 2: nothing was shown.
    """
    seen = [v for v in verdicts if v.judgement is not Judgement.NOT_APPLICABLE]
    broken = [v for v in seen if v.verdict is Outcome.BROKEN]
    if accept_known:
        broken = [v for v in broken if v.judgement is not Judgement.KNOWN_DEFECT]
    if broken:
        return 1
    if not seen or any(v.verdict is Outcome.UNKNOWN for v in seen):
        return 2
    return 0
