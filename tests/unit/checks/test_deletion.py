"""OP-10: what a deleted RayJob's entrypoint still writes, and a deletion that waits for an operator."""

import pytest

from chaos.checks import deletion_waited, gone_untold, stopped_later

WHO = {"namespace": "ns", "rayjob": "job1"}
LATER = stopped_later(**WHO)
WAITED = deletion_waited(**WHO)
UNTOLD = gone_untold(**WHO)
EPOCH = 1_800_000_000


def rayjob(story, t, change, **meta):
    whole = {"name": "job1", "namespace": "ns", "uid": "rayjob-job1", **meta}
    story.object("rayjobs", t, {"metadata": whole, "status": {"jobDeploymentStatus": "Running"}}, change)


def writes(story, *, last=23.0, told=(20.1,), t=35.0):
    value = {"writes": 100, "last": EPOCH + last, "told_to_stop": [EPOCH + each for each in told]}
    story.probe("writes", t, target=WHO, value=value)


@pytest.fixture
def deleted(story):
    """A RayJob is deleted at 20 s and gone at 20.3 s."""
    story.phase("begin", 5, claims=[["OP-10", "deleted"]])
    story.rayjob(6, "Running", jobStatus="RUNNING")
    target = {"namespace": "ns", "rayjob": "job1", "uid": "rayjob-job1"}
    story.step("delete-rayjob", "record", 19.9, target)
    story.step("delete-rayjob", "apply", 20, target)
    rayjob(story, 20.3, "DELETED", deletionTimestamp="2027-01-15T08:00:00Z")
    story.end(60)
    return story


def test_it_writes_on_when_the_rayjob_is_gone(deleted):
    writes(deleted)
    finding = LATER.judge(deleted.view())
    assert finding.outcome == "holds", finding.reason
    assert finding.recovery_seconds["written_longer"] == pytest.approx(2.7)


def test_it_was_never_told_to_stop(deleted):
    writes(deleted, told=())
    assert LATER.judge(deleted.view()).outcome == "broken"
    deleted.drop(lambda e: e["what"] == "probe")
    writes(deleted, told=(10.0,))  # before the deletion
    assert LATER.judge(deleted.view()).outcome == "broken"


def test_it_had_stopped_when_the_rayjob_went(deleted):
    writes(deleted, last=20.2)
    assert LATER.judge(deleted.view()).outcome == "broken"


def test_the_rayjob_stays(deleted):
    writes(deleted)
    deleted.drop(lambda e: e.get("change") == "DELETED")
    assert LATER.judge(deleted.view()).outcome == "broken"
    deleted.gap("rayjobs", 25, 26)
    assert LATER.judge(deleted.view()).outcome == "unknown"
    deleted.end(25)
    assert LATER.judge(deleted.view()).outcome == "unknown"


def test_it_may_still_write(deleted):
    writes(deleted, last=34)
    assert LATER.judge(deleted.view()).outcome == "unknown"


def test_its_writes_are_not_known(deleted):
    assert LATER.judge(deleted.view()).outcome == "unknown"


def test_it_goes_though_nobody_told_its_entrypoint_to_stop(deleted):
    writes(deleted, told=(10.0, 24.0))  # before the deletion, and by the end of its pod
    finding = UNTOLD.judge(deleted.view())
    assert finding.outcome == "holds", finding.reason
    assert finding.recovery_seconds["written_longer"] == pytest.approx(2.7)


def test_its_entrypoint_was_told_to_stop_before_it_went(deleted):
    writes(deleted)
    assert UNTOLD.judge(deleted.view()).outcome == "broken"


def test_it_stays_as_long_as_nobody_can_tell_its_entrypoint(deleted):
    writes(deleted, told=())
    deleted.drop(lambda e: e.get("change") == "DELETED")
    assert UNTOLD.judge(deleted.view()).outcome == "broken"
    deleted.gap("rayjobs", 25, 26)
    assert UNTOLD.judge(deleted.view()).outcome == "unknown"
    deleted.end(25)
    assert UNTOLD.judge(deleted.view()).outcome == "unknown"


def test_what_hides_whether_it_was_told(deleted):
    assert UNTOLD.judge(deleted.view()).outcome == "unknown"
    writes(deleted, told=(), last=20.1)
    assert "had ended" in UNTOLD.judge(deleted.view()).reason
    assert gone_untold(namespace="ns", rayjob="other").judge(deleted.view()).outcome == "unknown"


@pytest.fixture
def away(story):
    """The operator is away from 20 to 40 s; the RayJob is deleted at 25 s and gone at 58 s."""
    story.phase("begin", 5, claims=[["OP-10", "operator-away"]])
    story.rayjob(6, "Running", jobStatus="RUNNING")
    for step, t in (("record", 19), ("apply", 19.1), ("effect", 20), ("undo", 40), ("undone", 55)):
        story.step("scale-deployment", step, t, {"namespace": "operators", "deployment": "operator"})
    rayjob(story, 25, "MODIFIED", deletionTimestamp="2027-01-15T08:00:00Z")
    rayjob(story, 58, "DELETED", deletionTimestamp="2027-01-15T08:00:00Z")
    story.end(110)
    return story


def test_a_deletion_waits_for_an_operator(away):
    finding = WAITED.judge(away.view())
    assert finding.outcome == "holds", finding.reason
    assert finding.recovery_seconds == {"deletion_finished": 18.0}


def test_a_deletion_that_does_not_wait(away):
    away.drop(lambda e: e.get("change") == "DELETED")
    rayjob(away, 26, "DELETED", deletionTimestamp="2027-01-15T08:00:00Z")
    assert WAITED.judge(away.view()).outcome == "broken"


def test_a_deletion_that_never_ends(away):
    away.drop(lambda e: e.get("change") == "DELETED")
    assert WAITED.judge(away.view()).outcome == "broken"
    away.end(90)
    assert WAITED.judge(away.view()).outcome == "unknown"


def test_a_deletion_from_before(away):
    rayjob(away, 15, "MODIFIED", deletionTimestamp="2027-01-15T08:00:00Z")
    assert WAITED.judge(away.view()).outcome == "unknown"


@pytest.mark.parametrize(
    "unwanted", [lambda e: e.get("step") == "undo", lambda e: "deletionTimestamp" in str(e.get("object"))]
)
def test_what_must_be_known(away, unwanted):
    away.drop(unwanted)
    assert WAITED.judge(away.view()).outcome == "unknown"


def test_a_gap_hides_when_it_went(away):
    away.gap("rayjobs", 30, 41)
    assert WAITED.judge(away.view()).outcome == "unknown"
