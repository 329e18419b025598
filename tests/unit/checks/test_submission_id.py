"""OP-8 and OP-9: a submission ID that comes again."""

import pytest

from chaos.checks import id_accepted_again, id_refused, written_once

WHO = {"namespace": "ns", "rayjob": "job1"}
REFUSED = id_refused(**WHO, submission_id="s1")
AGAIN = id_accepted_again(**WHO, submission_id="s1")


def submitted(story, t, accepted, before="ABSENT", ok=True):
    value = {"before": before, "accepted": accepted, "refusal": None} if ok else {}
    story.probe("submission", t, ok=ok, target={**WHO, "submission_id": "s1"}, value=value)


def ledger(story, executions, t=60):
    lines = [{"submission_id": "s1", "attempt": "c1"}] * executions + [{"submission_id": "s2", "attempt": "c1"}]
    story.probe("ledger", t, target=WHO, value={"lines": lines})


@pytest.fixture
def told(story):
    story.phase("begin", 5, claims=[["OP-8", "running"]])
    submitted(story, 20, True)
    return story


def test_an_id_with_a_record_is_refused(told):
    submitted(told, 40, False, "SUCCEEDED")
    ledger(told, 1)
    finding = REFUSED.judge(told.view())
    assert (finding.outcome, finding.reason) == (
        "holds", "s1 was refused, with record SUCCEEDED, and was executed once",
    )  # fmt: skip
    assert AGAIN.judge(told.view()).outcome == "broken"


@pytest.mark.parametrize("before", ["ABSENT", "RUNNING"])
def test_an_id_that_is_accepted(told, before):
    submitted(told, 40, True, before)
    ledger(told, 2)
    assert REFUSED.judge(told.view()).outcome == "broken"
    finding = AGAIN.judge(told.view())
    assert finding.outcome == "holds"
    assert "executed 2 times" in finding.reason


def test_a_first_submission_that_is_accepted_is_not_refused(told):
    ledger(told, 1)
    assert REFUSED.judge(told.view()).outcome == "broken"
    assert AGAIN.judge(told.view()).outcome == "unknown"


@pytest.mark.parametrize("executions", [0, 2])
def test_refused_and_not_executed_once(told, executions):
    submitted(told, 40, False, "RUNNING")
    ledger(told, executions)
    assert REFUSED.judge(told.view()).outcome == "broken"


def test_accepted_and_not_executed(told):
    submitted(told, 40, True)
    ledger(told, 1)
    assert AGAIN.judge(told.view()).outcome == "unknown"


def test_refused_without_a_record(told):
    submitted(told, 40, False)
    ledger(told, 1)
    assert REFUSED.judge(told.view()).outcome == "unknown"


@pytest.mark.parametrize("check", [REFUSED, AGAIN], ids=lambda check: check.name)
def test_a_ledger_from_before(told, check):
    ledger(told, 1, t=30)
    submitted(told, 40, False, "RUNNING")
    assert check.judge(told.view()).outcome == "unknown"


@pytest.mark.parametrize("check", [REFUSED, AGAIN], ids=lambda check: check.name)
def test_no_answer(story, check):
    story.phase("begin", 5, claims=[["OP-8", "running"]])
    submitted(story, 20, False, ok=False)
    ledger(story, 1)
    assert check.judge(story.view()).outcome == "unknown"


def written(story, executions, keyed):
    lines = [[{"submission_id": "s1"}] * count + [{"submission_id": "s2"}] for count in (executions, keyed)]
    story.probe("ledger", 60, target=WHO, value={"lines": lines[0], "keyed": lines[1]})


@pytest.mark.parametrize(
    ("executions", "keyed", "with_key", "without"),
    [(2, 1, "holds", "broken"), (2, 2, "broken", "broken"), (2, 0, "broken", "broken"), (1, 1, "unknown", "unknown")],
)
def test_what_is_written_twice_and_what_once(told, executions, keyed, with_key, without):
    written(told, executions, keyed)
    for outcome, has_key in ((with_key, True), (without, False)):
        assert written_once(**WHO, submission_id="s1", keyed=has_key).judge(told.view()).outcome == outcome


def test_writes_that_nobody_read(told):
    assert written_once(**WHO, submission_id="s1", keyed=True).judge(told.view()).outcome == "unknown"
