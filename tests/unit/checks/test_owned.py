"""OP-11: owner references, at any depth."""

import pytest

from chaos.checks import owned_gone, owned_kept

WHO = {"namespace": "ns", "rayjob": "job1"}
GONE = owned_gone(**WHO)
KEPT = owned_kept(**WHO)
# Resource, UID, owner's UID.
OWNED = [
    ("rayclusters", "uid-c", "rayjob-job1"),
    ("jobs", "uid-j", "rayjob-job1"),
    ("services", "uid-s1", "rayjob-job1"),
    ("services", "uid-s2", "uid-c"),
    ("pods", "uid-head", "uid-c"),
    ("pods", "uid-submitter", "uid-j"),
]
STRANGER = ("pods", "uid-stranger", "uid-else")


def put(story, t, resource, uid, owner, change, **meta):
    whole = {"name": uid, "namespace": "ns", "uid": uid, "ownerReferences": [{"uid": owner}], **meta}
    story.object(resource, t, {"metadata": whole, "status": {"phase": "Running"}}, change)


def end_rayjob(story, t):
    meta = {"name": "job1", "namespace": "ns", "uid": "rayjob-job1"}
    story.object("rayjobs", t, {"metadata": meta, "status": {}}, "DELETED")


@pytest.fixture
def owner(story):
    """A RayJob that runs with all it owns when the operator is killed at 20 s; another runs at 22 s. Ends at 100 s."""
    story.phase("begin", 5, claims=[["OP-11", "operator-killed"]])
    story.pod(1, "op", "uid-op", "operator", "ADDED")
    story.rayjob(6, "Running", jobStatus="RUNNING")
    for resource, uid, of in (*OWNED, STRANGER):
        put(story, 7, resource, uid, of, "ADDED")
    target = {"namespace": "operators", "pod": "op", "uid": "uid-op"}
    story.step("delete-pod", "record", 19.9, target)
    story.step("delete-pod", "apply", 20, target)
    story.pod(20.3, "op", "uid-op", "operator", "DELETED", deleting=True)
    story.step("delete-pod", "effect", 20.4, target)
    story.pod(21, "op2", "uid-op2", "operator", "ADDED", phase="Pending", ready=False, container=None)
    story.pod(22, "op2", "uid-op2", "operator")
    story.end(100)
    return story


def delete_all(story, t=50.0, but=""):
    end_rayjob(story, t + 0.2)
    for resource, uid, of in OWNED:
        if uid != but:
            put(story, t + 5, resource, uid, of, "DELETED")


@pytest.fixture
def deleted(owner):
    target = {"namespace": "ns", "rayjob": "job1", "uid": "rayjob-job1"}
    for step in ("record", "apply"):
        owner.step("delete-rayjob", step, 50, target)
    return owner


GONE_THEN = GONE.during("delete-rayjob")


def test_all_of_it_goes(deleted):
    delete_all(deleted)
    finding = GONE_THEN.judge(deleted.view())
    assert finding.outcome == "holds", finding.reason
    assert "1 rayclusters, 1 jobs, 2 services, 2 pods" in finding.reason
    assert finding.recovery_seconds["owned_gone"] == pytest.approx(5)
    assert KEPT.judge(deleted.view()).outcome == "broken"


@pytest.mark.parametrize("uid", [uid for _, uid, _ in OWNED])
def test_one_thing_stays(deleted, uid):
    delete_all(deleted, but=uid)
    finding = GONE_THEN.judge(deleted.view())
    assert finding.outcome == "broken"
    assert uid in finding.reason


def test_what_goes_too_late_stays(deleted):
    delete_all(deleted, t=85)
    assert GONE_THEN.judge(deleted.view()).outcome == "broken"


def test_too_early_or_not_watched(deleted):
    assert GONE_THEN.judge(deleted.view()).outcome == "broken"
    deleted.gap("services", 60, 61)
    assert GONE_THEN.judge(deleted.view()).outcome == "unknown"
    deleted.end(70)
    assert GONE_THEN.judge(deleted.view()).outcome == "unknown"


@pytest.mark.parametrize("resource", ["rayclusters", "jobs", "services", "pods"])
def test_something_of_each_kind_must_have_been_there(deleted, resource):
    delete_all(deleted)
    deleted.drop(lambda e: e.get("resource") == resource and e["uid"] in {uid for _, uid, _ in OWNED})
    for check in (GONE_THEN, KEPT):
        assert check.judge(deleted.view()).outcome == "unknown"


def test_all_of_it_stays(owner):
    put(owner, 60, *STRANGER, "DELETED")
    finding = KEPT.judge(owner.view())
    assert finding.outcome == "holds", finding.reason


@pytest.mark.parametrize(("resource", "uid", "of"), OWNED)
def test_one_thing_goes(owner, resource, uid, of):
    put(owner, 60, resource, uid, of, "DELETED")
    finding = KEPT.judge(owner.view())
    assert finding.outcome == "broken"
    assert uid in finding.reason


def test_what_is_being_deleted_is_as_good_as_gone(owner):
    put(owner, 99, *OWNED[4], "MODIFIED", deletionTimestamp="2027-01-15T08:00:00Z")
    assert KEPT.judge(owner.view()).outcome == "broken"


def test_too_short_a_look(owner):
    owner.end(60)
    assert KEPT.judge(owner.view()).outcome == "unknown"


@pytest.mark.parametrize("resource", ["rayjobs", "rayclusters", "jobs", "services", "pods"])
def test_a_gap_could_hide_a_deletion(owner, resource):
    owner.gap(resource, 60, 61)
    assert KEPT.judge(owner.view()).outcome == "unknown"
