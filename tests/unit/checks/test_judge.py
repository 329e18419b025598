from __future__ import annotations

import pytest

from chaos.checks import one_head, workers_lost, workers_survived
from chaos.judge import judge
from chaos.verdict import Judgement, Outcome, Role, exit_code
from chaos.versions.table import Kind, Row, Table

HOLDS = workers_survived(namespace="ns", cluster="c1").as_json()
BROKEN = workers_lost(namespace="ns", cluster="c1").as_json()
UNKNOWN = one_head(namespace="ns", cluster="other").as_json()


def expect(story, *checks, claim="FT-2", arm="delete", control=None):
    story.add("expect", 129, claim=claim, arm=arm, checks=list(checks), control=control)


def verdicts(story, *rows, **versions):
    return judge(story.all(), table=Table(rows), versions=versions or {"kuberay": "1.5.0"})


def row(kind, claim="FT-2", reference="ray-project/kuberay#1", arms=(), kuberay="==1.5.0"):
    from packaging.specifiers import SpecifierSet

    return Row(claim, {"kuberay": SpecifierSet(kuberay)}, kind, "This is expected.", reference, arms=arms)


def test_the_three_outcomes_and_their_exit_codes(story):
    story.head_loss()
    expect(story, HOLDS)
    (verdict,) = verdicts(story)
    assert (verdict.verdict, verdict.judgement) == (Outcome.HOLDS, Judgement.AS_DOCUMENTED)
    assert (verdict.claim, verdict.experiment, verdict.arm) == ("FT-2", "test_it", "delete")
    assert exit_code([verdict]) == 0

    expect(story, UNKNOWN)
    (verdict,) = verdicts(story)
    assert (verdict.verdict, verdict.judgement) == (Outcome.UNKNOWN, Judgement.NONE)
    assert exit_code([verdict]) == 2

    expect(story, BROKEN)
    (verdict,) = verdicts(story)
    assert (verdict.verdict, verdict.judgement) == (Outcome.BROKEN, Judgement.NEW_FINDING)
    assert "survived" in verdict.reason
    assert "no head" not in verdict.reason
    assert exit_code([verdict]) == 1


def test_arms_are_judged_apart(story):
    story.head_loss()
    expect(story, HOLDS)
    expect(story, BROKEN, arm="force")
    expect(story, HOLDS, claim="FT-4")
    found = {(v.claim, v.arm): v.verdict for v in verdicts(story)}
    assert found == {("FT-2", "delete"): "holds", ("FT-2", "force"): "broken", ("FT-4", "delete"): "holds"}


def test_a_control_that_bites(story):
    story.head_loss()
    expect(story, HOLDS, control={"arm": "no fault tolerance", "checks": [BROKEN]})
    claim, control = verdicts(story)
    assert claim.verdict is Outcome.HOLDS
    assert (control.role, control.arm, control.verdict) == (Role.CONTROL, "no fault tolerance", Outcome.HOLDS)


@pytest.mark.parametrize("blunt", [HOLDS, UNKNOWN])
@pytest.mark.parametrize("claim_check", [HOLDS, BROKEN])
def test_a_control_that_does_not_bite_takes_its_arm_along(story, blunt, claim_check):
    story.head_loss()
    expect(story, claim_check, control={"arm": "no fault tolerance", "checks": [BROKEN, blunt]})
    expect(story, HOLDS, claim="FT-4")
    claim, control, other = verdicts(story)
    for verdict in (claim, control):
        assert verdict.verdict is Outcome.UNKNOWN
        assert verdict.reason.startswith("control did not bite: ")
    assert other.verdict is Outcome.HOLDS


def test_a_control_without_checks_does_not_bite(story):
    story.head_loss()
    expect(story, HOLDS, control={"arm": "none", "checks": []})
    assert [v.verdict for v in verdicts(story)] == ["unknown", "unknown"]


def test_no_effect_makes_all_unknown(story):
    story.head_loss()
    expect(story, BROKEN, control={"arm": "control", "checks": [BROKEN]})
    story.step("partition", "no-effect", 128, reason="no packet was dropped")
    found = verdicts(story)
    assert [v.verdict for v in found] == ["unknown", "unknown"]
    assert {v.reason for v in found} == {"no effect: partition: no packet was dropped"}


def test_an_error_makes_all_unknown(story):
    story.head_loss()
    expect(story, HOLDS)
    story.phase("error", 129.5, error="NotReached: no new head")
    (verdict,) = verdicts(story)
    assert (verdict.verdict, verdict.reason) == (
        "unknown",
        "the experiment ended in an error: NotReached: no new head",
    )


def test_what_was_declared_and_never_expected_is_unknown(story):
    story.head_loss()
    (verdict,) = verdicts(story)
    assert (verdict.claim, verdict.arm, verdict.verdict) == ("FT-2", "delete", "unknown")
    assert "never came to say" in verdict.reason


def test_a_known_defect(story):
    story.head_loss()
    expect(story, BROKEN)
    (verdict,) = verdicts(story, row(Kind.DEFECT))
    assert (verdict.verdict, verdict.judgement) == ("broken", "known defect")
    assert verdict.reference == "ray-project/kuberay#1"
    assert (exit_code([verdict]), exit_code([verdict], accept_known=True)) == (1, 0)


@pytest.mark.parametrize("other", [{"kuberay": "==1.6.0"}, {"arms": ("force",)}, {"claim": "FT-4"}])
def test_a_row_about_something_else_excuses_nothing(story, other):
    story.head_loss()
    expect(story, BROKEN)
    (verdict,) = verdicts(story, row(Kind.DEFECT, **other))
    assert (verdict.judgement, verdict.reference) == ("new finding", "")
    assert exit_code([verdict], accept_known=True) == 1


def test_an_allowed_outcome_holds_and_an_unknown_one_does_not(story):
    story.head_loss()
    expect(story, BROKEN)
    (verdict,) = verdicts(story, row(Kind.ALLOWED))
    assert (verdict.verdict, verdict.judgement) == ("holds", "as documented")
    assert "This is expected." in verdict.reason
    story.drop(lambda e: e["what"] == "expect")
    expect(story, UNKNOWN)
    assert verdicts(story, row(Kind.ALLOWED))[0].verdict is Outcome.UNKNOWN


def test_what_is_not_offered_is_left_out_of_the_exit_code(story):
    story.head_loss()
    expect(story, BROKEN, control={"arm": "control", "checks": [HOLDS]})
    expect(story, HOLDS, claim="FT-4")
    found = verdicts(story, row(Kind.NOT_OFFERED))
    assert [v.judgement for v in found] == ["not applicable", "not applicable", "as documented"]
    assert exit_code(found) == 0


def test_a_control_never_becomes_a_defect(story):
    story.head_loss()
    expect(story, HOLDS, control={"arm": "control", "checks": [BROKEN]})
    _, control = verdicts(story, row(Kind.DEFECT))
    assert (control.verdict, control.judgement, control.reference) == ("holds", "as documented", "")


def test_recovery_of_all_checks_is_kept(story):
    from chaos.checks import functional_twice, head_recovery

    story.head_loss()
    where = {"namespace": "ns", "cluster": "c1"}
    expect(story, head_recovery(**where, within=60).as_json(), functional_twice(**where).as_json())
    (verdict,) = verdicts(story)
    # Both measure from the fault to the first answer, so there is one number for it.
    assert {"ready", "functional"} <= verdict.recovery_seconds.keys()
    assert verdict.recovery_seconds["functional"] == pytest.approx(17.2)
    assert not [name for name in verdict.recovery_seconds if name.startswith("functional_")]


def test_no_experiment_no_verdict(story):
    assert verdicts(story) == []


def test_an_experiments_view_gives_its_verdicts_alone(story):
    story.chapter("first", 0)
    story.head_loss()
    expect(story, HOLDS)
    story.chapter("second", 140)
    story.operator_kill()
    table = Table(())
    assert [v.experiment for v in judge(story.all(), table=table, versions={})] == ["first", "second"]
    assert [v.experiment for v in judge(story.all().experiment("second"), table=table, versions={})] == ["second"]
