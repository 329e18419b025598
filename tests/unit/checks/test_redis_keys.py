from __future__ import annotations

import pytest

from chaos.checks import cleanup_failed, cluster_gone, gone_after_cleanup, keys_left, keys_removed, keys_untouched

WHERE = {"namespace": "ns", "cluster": "c1"}
REMOVED, UNTOUCHED = keys_removed(**WHERE), keys_untouched(**WHERE)
GONE = cluster_gone(**WHERE, within=60)
OBJECT = {"metadata": {"name": "c1", "namespace": "ns", "uid": "uid-c1", "finalizers": ["ray.io/clean-up"]}}


def look(story, t, *names, ok=True, cluster="c1"):
    value = {"keys": list(names), "pattern": "RAYx@*", "remove": "kubectl"}
    target = {"namespace": "ns", "cluster": cluster, "storage": "x"}
    story.probe("redis-keys", t, ok, target=target, value=value)


@pytest.fixture
def deletion(story):
    """The cluster is deleted at 20 s and gone at 29 s."""
    story.phase("begin", 5, claims=[["FT-15", "own-namespace"]])
    story.object("rayclusters", 6, OBJECT, "ADDED")
    look(story, 12, "a", "b")
    target = {"namespace": "ns", "cluster": "c1", "uid": "uid-c1"}
    story.step("delete-cluster", "apply", 20, target)
    story.object("rayclusters", 29, OBJECT, "DELETED")
    story.end(90)
    return story


def test_all_keys_are_removed(deletion):
    look(deletion, 30)
    assert REMOVED.judge(deletion.view()).outcome == "holds"
    assert UNTOUCHED.judge(deletion.view()).outcome == "broken"


def test_keys_that_are_left_are_named(deletion):
    look(deletion, 30, "b")
    finding = REMOVED.judge(deletion.view())
    assert (finding.outcome, finding.reason) == ("broken", "1 key left: b")


def test_keys_that_are_untouched_may_have_company(deletion):
    look(deletion, 30, "a", "b", "c")
    assert UNTOUCHED.judge(deletion.view()).outcome == "holds"
    assert REMOVED.judge(deletion.view()).outcome == "broken"


def test_one_lost_key_breaks_it(deletion):
    look(deletion, 30, "b", "c")
    finding = UNTOUCHED.judge(deletion.view())
    assert (finding.outcome, finding.reason) == ("broken", "1 key lost: a")


@pytest.mark.parametrize("check", [REMOVED, UNTOUCHED])
@pytest.mark.parametrize("failed", [False, True])
def test_what_was_not_looked_for_is_not_known(deletion, check, failed):
    if failed:
        look(deletion, 30, ok=False)
    look(deletion, 30, "a", "b", cluster="other")
    assert check.judge(deletion.view()).outcome == "unknown"


@pytest.mark.parametrize("check", [REMOVED, UNTOUCHED])
def test_a_cluster_without_keys_before_shows_nothing(deletion, check):
    look(deletion, 19)
    look(deletion, 30)
    assert check.judge(deletion.view()).outcome == "unknown"


def test_the_object_goes_and_its_seconds_are_told(deletion):
    finding = GONE.judge(deletion.view())
    assert finding.outcome == "holds"
    assert finding.recovery_seconds == {"object_gone": 9}


def test_an_object_that_stays_is_held_by_its_finalizer(deletion):
    deletion.drop(lambda e: e.get("change") == "DELETED")
    finding = GONE.judge(deletion.view())
    assert finding.outcome == "broken"
    assert "held by ray.io/clean-up" in finding.reason
    deletion.end(70)
    assert GONE.judge(deletion.view()).outcome == "unknown"


def test_an_object_that_goes_late_breaks_it(deletion):
    assert cluster_gone(**WHERE, within=5).judge(deletion.view()).outcome == "broken"


def test_a_gap_may_hide_the_end(deletion):
    deletion.drop(lambda e: e.get("change") == "DELETED")
    deletion.gap("rayclusters", 30, 31)
    assert GONE.judge(deletion.view()).outcome == "unknown"


def test_it_is_the_deletion_that_counts_and_no_fault_before_it(deletion):
    deletion.step("shut-out", "apply", 14, {"namespace": "ns", "cluster": "c1", "uid": "uid-c1"})
    assert GONE.judge(deletion.view()).recovery_seconds == {"object_gone": 9}


def test_a_cluster_that_nobody_deleted(deletion):
    assert cluster_gone(namespace="ns", cluster="other", within=60).judge(deletion.view()).outcome == "unknown"


LEFT, FAILED = keys_left(**WHERE), cleanup_failed(**WHERE)


def test_keys_that_are_left_are_told_with_what_removes_them(deletion):
    look(deletion, 30, "b")
    finding = LEFT.judge(deletion.view())
    assert finding.outcome == "holds"
    assert finding.reason == "1 of 2 keys of RAYx@* left; they are removed by: kubectl"


def test_no_keys_left(deletion):
    look(deletion, 30)
    assert LEFT.judge(deletion.view()).outcome == "broken"


def test_keys_that_nobody_looked_for(deletion):
    assert LEFT.judge(deletion.view()).outcome == "unknown"


def clean_up(story, t, condition=None, cluster="c1"):
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": "redis-cleanup"}
    metadata = {"name": "c1-redis-cleanup", "namespace": "ns", "uid": "uid-job", "labels": labels}
    conditions = [{"type": condition, "status": "True"}] if condition else []
    story.object("jobs", t, {"metadata": metadata, "status": {"conditions": conditions}})


@pytest.mark.parametrize(("condition", "outcome"), [("Failed", "holds"), ("Complete", "broken"), (None, "unknown")])
def test_how_the_clean_up_ended(deletion, condition, outcome):
    clean_up(deletion, 23)
    clean_up(deletion, 28, condition)
    assert FAILED.judge(deletion.view()).outcome == outcome


def test_another_clusters_clean_up_is_not_this_ones(deletion):
    clean_up(deletion, 28, "Failed", cluster="other")
    assert FAILED.judge(deletion.view()).outcome == "unknown"


AFTER_CLEANUP = gone_after_cleanup(**WHERE)


def test_a_cluster_goes_when_its_clean_up_has_failed(deletion):
    clean_up(deletion, 28, "Failed")
    finding = AFTER_CLEANUP.judge(deletion.view())
    assert finding.outcome == "holds", finding.reason
    assert finding.recovery_seconds == {"object_gone": 9}


def test_a_cluster_that_stays_after_its_clean_up(deletion):
    clean_up(deletion, 28, "Failed")
    deletion.drop(lambda e: e.get("change") == "DELETED")
    finding = AFTER_CLEANUP.judge(deletion.view())
    assert finding.outcome == "broken"
    assert finding.reason == "c1 still there 60 s after its clean-up Job was Failed, held by ray.io/clean-up"
    deletion.object("rayclusters", 89, OBJECT, "DELETED")
    assert AFTER_CLEANUP.judge(deletion.view()).outcome == "broken", "late is no better"
    deletion.gap("rayclusters", 30, 31)
    assert AFTER_CLEANUP.judge(deletion.view()).outcome == "unknown"
    deletion.end(80)
    assert AFTER_CLEANUP.judge(deletion.view()).outcome == "unknown"


def test_without_an_end_of_the_clean_up_nothing_is_known(deletion):
    clean_up(deletion, 28)
    assert AFTER_CLEANUP.judge(deletion.view()).outcome == "unknown"
