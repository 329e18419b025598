"""Rates: Wilson's interval against published values, what counts as judged, and how far apart times are."""

import pytest

from chaos.rates import Spread, rates
from chaos.verdict import Judgement, Outcome, Role, Verdict

HOLDS, BROKEN, UNKNOWN = Outcome.HOLDS, Outcome.BROKEN, Outcome.UNKNOWN


def repeated(*outcomes, **more):
    """The verdicts of so many repetitions; ``more`` are their fields."""
    given = {"claim": "FT-2", "experiment": "it", "arm": "gcs-ft", "reason": "so"} | more
    return [Verdict(verdict=outcome, repetition=number, **given) for number, outcome in enumerate(outcomes, 1)]


def rate(*outcomes):
    (found,) = rates(repeated(*outcomes))
    return found


@pytest.mark.parametrize(
    ("held", "of", "low", "high"),
    [(9, 10, 0.5958, 0.9821), (5, 10, 0.2366, 0.7634), (0, 10, 0.0, 0.2775), (2, 2, 0.3424, 1.0), (1, 1, 0.2065, 1.0)],
)
def test_the_interval_is_wilsons(held, of, low, high):
    found = rate(*[HOLDS] * held, *[BROKEN] * (of - held))
    assert found.interval == pytest.approx((low, high), abs=1e-4)
    assert (found.holds, found.judged) == (held, of)


def test_unknown_is_counted_apart_and_never_as_holds():
    found = rate(HOLDS, UNKNOWN, BROKEN, UNKNOWN)
    assert (found.holds, found.judged, found.unknown) == (1, 2, 2)
    assert str(found) == "holds 1 of 2, 2 unknown"
    assert found.as_json()["rate"] == 0.5
    assert found.interval == rate(HOLDS, BROKEN).interval


def test_where_nothing_was_judged_there_is_no_rate():
    found = rate(UNKNOWN, UNKNOWN)
    assert str(found) == "none judged, 2 unknown"
    assert (found.interval, found.interval_text(), found.as_json()["rate"]) == (None, "", None)


def test_what_is_not_offered_is_neither_judged_nor_unknown():
    (found,) = rates(repeated(UNKNOWN, UNKNOWN, judgement=Judgement.NOT_APPLICABLE))
    assert (found.judged, found.unknown, str(found)) == (0, 0, "not applicable")


def test_each_claim_arm_and_role_has_its_own_rate():
    verdicts = [
        *repeated(HOLDS, HOLDS), *repeated(HOLDS, BROKEN, arm="no-ft", role=Role.CONTROL), *repeated(HOLDS, claim="FT-4"),
        *repeated(HOLDS, experiment="other"),
    ]  # fmt: skip
    assert [(r.claim, r.experiment, r.arm, r.role, str(r)) for r in rates(verdicts)] == [
        ("FT-2", "it", "gcs-ft", Role.CLAIM, "holds 2 of 2"),
        ("FT-2", "it", "no-ft", Role.CONTROL, "holds 1 of 2"),
        ("FT-4", "it", "gcs-ft", Role.CLAIM, "holds 1 of 1"),
        ("FT-2", "other", "gcs-ft", Role.CLAIM, "holds 1 of 1"),
    ]


def test_what_ran_once_has_no_rate():
    assert rates([Verdict("FT-2", "it", "gcs-ft", HOLDS, "so")]) == []
    assert rates([]) == []


def test_times_are_those_of_what_was_judged_in_the_order_of_their_medians():
    verdicts = [
        verdict
        for number, (outcome, ready, functional) in enumerate(
            [(HOLDS, 14.0, 17.0), (BROKEN, 20.0, 61.0), (UNKNOWN, 900.0, 900.0), (HOLDS, 15.0, 16.0)], 1
        )
        for verdict in [
            Verdict(
                "FT-10", "it", "warm", outcome, "so", repetition=number,
                recovery_seconds={"functional": functional, "ready": ready},
            )
        ]
    ]  # fmt: skip
    (found,) = rates(verdicts)
    assert found.recovery == [
        ("ready", Spread(3, 14.0, 15.0, 20.0, 20.0)),
        ("functional", Spread(3, 16.0, 17.0, 61.0, 61.0)),
    ]
    assert str(found.recovery[0][1]) == "15.0 s (14.0 to 20.0; n 3)"
    assert found.as_json()["recovery_seconds"]["ready"] == {
        "n": 3,
        "min": 14.0,
        "median": 15.0,
        "p95": 20.0,
        "max": 20.0,
    }


def test_the_95th_percentile_is_the_nearest_rank_and_told_once_it_is_not_just_the_greatest():
    assert Spread.of(range(1, 20)).p95 == 19
    assert Spread.of(range(1, 21)) == Spread(20, 1, 10.5, 19, 20)
    assert Spread.of(range(1, 101)).p95 == 95
    assert "95 %" not in str(Spread.of(range(1, 20)))
    assert str(Spread.of(range(1, 21))) == "10.5 s (1.0 to 20.0, 95 % within 19.0; n 20)"


def test_a_rate_as_json_has_the_fields_that_a_machine_needs():
    assert rate(HOLDS, BROKEN).as_json() == {
        "claim": "FT-2", "experiment": "it", "arm": "gcs-ft", "role": "claim", "repetitions": 2, "holds": 1, "judged": 2,
        "unknown": 0, "rate": 0.5, "interval_95": [0.0945, 0.9055], "recovery_seconds": {},
    }  # fmt: skip
