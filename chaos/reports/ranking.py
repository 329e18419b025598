"""What every report leads with: the worst finding first, the counts, and one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from chaos.claims import sentence
from chaos.rates import Rate
from chaos.repetition import in_words
from chaos.stack.ours import namespaces_begin
from chaos.verdict import Judgement, Outcome, Role, Verdict


class Standing(StrEnum):
    """How a verdict stands in a report, worst first."""

    NEW_FINDING = "broken, new finding"
    KNOWN_DEFECT = "broken, known defect"
    UNKNOWN = "unknown"
    HOLDS = "holds"
    NOT_APPLICABLE = "not applicable"


ORDER = list(Standing)


def standing(verdict: Verdict) -> Standing:
    """Where a verdict stands."""
    if verdict.judgement is Judgement.NOT_APPLICABLE:
        return Standing.NOT_APPLICABLE
    if verdict.verdict is Outcome.HOLDS:
        return Standing.HOLDS
    if verdict.verdict is Outcome.UNKNOWN:
        return Standing.UNKNOWN
    return Standing.KNOWN_DEFECT if verdict.judgement is Judgement.KNOWN_DEFECT else Standing.NEW_FINDING


def worst_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Sorted by standing; within one, claims before their controls, else as they came."""
    return sorted(verdicts, key=lambda v: (ORDER.index(standing(v)), v.role is Role.CONTROL))


def worst_rate_first(rates: Sequence[Rate]) -> list[Rate]:
    """Sorted by the worst that any repetition came to; within that as verdicts are."""
    return sorted(rates, key=lambda rate: (ORDER.index(standing(worst_of(rate))), rate.role is Role.CONTROL))


def worst_of(rate: Rate) -> Verdict:
    """The worst that any repetition came to."""
    return worst_first(rate.verdicts)[0]


def counts(verdicts: Sequence[Verdict]) -> dict[Standing, int]:
    """How many verdicts stand where; every standing is a key."""
    found = [standing(verdict) for verdict in verdicts]
    return {place: found.count(place) for place in Standing}


def headline(verdicts: Sequence[Verdict], *, interrupted: bool = False) -> str:
    """The run in one sentence: its worst finding, or that all is well."""
    prefix = "Interrupted. " if interrupted else ""
    if not verdicts:
        return f"{prefix}No verdict: nothing was shown."
    worst = worst_first(verdicts)[0]
    match standing(worst):
        case Standing.HOLDS:
            return f"{prefix}Every claim that was tested holds."
        case Standing.NOT_APPLICABLE:
            return f"{prefix}No claim that was asked for is offered by these versions."
        case place:
            what = place.value.capitalize()
            return f"{prefix}{what}: {worst.claim} in {in_words(worst.begun_as)} ({worst.arm}): {worst.reason}."


MARKS = {
    Standing.NEW_FINDING: "✗",
    Standing.KNOWN_DEFECT: "✗",
    Standing.UNKNOWN: "?",
    Standing.HOLDS: "✓",
    Standing.NOT_APPLICABLE: "–",
}
ARMS_EXPLAINED = (
    "An arm is one variant of an experiment, such as a cluster with fault tolerance beside one without. A control is an "
    "arm in which the opposite of the claim must be seen, which shows that the check is able to fail."
)
RATES_EXPLAINED = (
    "A rate is of the repetitions that were judged; what is unknown is counted beside it. The interval is where the true rate "
    "lies with 95 % confidence (Wilson). Times are the median, with the least and the greatest, of those repetitions."
)


def claim_text(verdict: Verdict) -> str:
    """The claim's sentence; a control's says that it must be seen to fail."""
    text = sentence(verdict.claim)
    return f"Control, where the opposite must be seen: {text}" if verdict.role is Role.CONTROL else text


def reasons(verdict: Verdict) -> list[str]:
    """The reason, one item for each check that decided."""
    return verdict.reason.split("; ")


def recovery(verdict: Verdict) -> list[tuple[str, float]]:
    """What was recovered and how long after the fault, in the order of time."""
    return sorted(
        ((name.replace("_", " "), value) for name, value in verdict.recovery_seconds.items()), key=lambda step: step[1]
    )


def recovery_text(verdict: Verdict, *, last: int | None = None) -> str:
    """``ready 14.5 s, functional 17.2 s``, or an empty string; of the ``last`` steps only, if given."""
    steps = recovery(verdict)
    return ", ".join(f"{name} {value:.1f} s" for name, value in (steps[-last:] if last else steps))


def where_to_look(verdict: Verdict) -> str:
    """The files beside the report that may tell what no entry of the history does."""
    return f"logs/{namespaces_begin(verdict.begun_as)}*"


def undecided(verdict: Verdict) -> bool:
    """Whether it is unknown, with no evidence that a reader could follow."""
    return standing(verdict) is Standing.UNKNOWN and not verdict.evidence
