"""OP-1: killed in a state, resumed from it, and nothing made a second time."""

import pytest

from chaos.checks import resumed, shut_down_after

WHO = {"namespace": "ns", "rayjob": "job1"}
RUNNING = resumed(**WHO, stage="Running")
SHUT = shut_down_after(**WHO, ttl=45)
NAMES = {"rayClusterName": "c1", "jobId": "s1"}


def cluster(story, t, name, change="ADDED"):
    story.object("rayclusters", t, {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}}, change)


@pytest.fixture
def killed(story):
    """The operator is killed at 20 s while a RayJob is Running; the next runs at 22 s, and the RayJob ends at 60 s."""
    story.phase("begin", 5, claims=[["OP-1", "same-end"]])
    story.pod(1, "op", "uid-op", "operator", "ADDED")
    story.rayjob(6, "", rayClusterName="", jobId="")
    story.rayjob(7, "Initializing", **NAMES)
    cluster(story, 8, "c1")
    story.pod(9, "h1", "uid-h1", "head", "ADDED")
    story.job(12, "uid-job")
    story.rayjob(13, "Running", jobStatus="RUNNING", **NAMES)
    target = {"namespace": "operators", "pod": "op", "uid": "uid-op"}
    story.step("delete-pod", "record", 19.9, target)
    story.step("delete-pod", "apply", 20, target)
    story.pod(20.3, "op", "uid-op", "operator", "DELETED", deleting=True)
    story.pod(22, "op2", "uid-op2", "operator", "ADDED")
    story.rayjob(60, "Complete", jobStatus="SUCCEEDED", endTime="2027-01-15T08:01:00Z", **NAMES)
    cluster(story, 107, "c1", "DELETED")
    story.end(140)
    return story


def test_the_same_attempt_goes_on(killed):
    finding = RUNNING.judge(killed.view())
    assert finding.outcome == "holds", finding.reason
    assert "1 attempt and 1 RayCluster, 1 submitter Job, 1 head ever" in finding.reason


@pytest.mark.parametrize("change", [{"rayClusterName": "c2"}, {"jobId": "s2"}, {"rayClusterName": "", "jobId": ""}])
def test_another_attempt(killed, change):
    killed.rayjob(40, "Running", **{**NAMES, **change})
    assert RUNNING.judge(killed.view()).outcome == "broken"


def test_a_second_cluster(killed):
    cluster(killed, 40, "c2")
    assert RUNNING.judge(killed.view()).outcome == "broken"


def test_an_orphan_beside_the_one_that_is_named(killed):
    killed.drop(lambda e: e.get("resource") == "rayclusters")
    cluster(killed, 8, "other")
    finding = RUNNING.judge(killed.view())
    assert finding.outcome == "broken"
    assert "an orphan" in finding.reason


def test_a_second_job(killed):
    killed.job(40, "uid-job", "DELETED")
    killed.job(41, "uid-job2")
    assert RUNNING.judge(killed.view()).outcome == "broken"


def test_a_second_head(killed):
    killed.pod(40, "h2", "uid-h2", "head", "ADDED")
    assert RUNNING.judge(killed.view()).outcome == "broken"


def test_the_state_was_missed(killed):
    assert resumed(**WHO, stage="Initializing").judge(killed.view()).outcome == "unknown"
    killed.rayjob(21, "Complete", **NAMES)  # the old operator's last word
    assert RUNNING.judge(killed.view()).outcome == "unknown"


def test_no_new_operator(killed):
    killed.drop(lambda e: e.get("uid") == "uid-op2")
    assert RUNNING.judge(killed.view()).outcome == "unknown"


@pytest.mark.parametrize("resource", ["rayjobs", "rayclusters", "jobs", "pods"])
def test_a_gap_could_hide_a_second_one(killed, resource):
    killed.gap(resource, 30, 31)
    assert RUNNING.judge(killed.view()).outcome == "unknown"


def test_a_state_in_which_an_attempt_is_cleared(killed):
    killed.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] > 13)
    killed.rayjob(15, "Retrying", **NAMES)
    killed.rayjob(40, "", rayClusterName="", jobId="")
    killed.rayjob(41, "Initializing", rayClusterName="c2", jobId="s2")
    cluster(killed, 39, "c1", "DELETED")
    cluster(killed, 42, "c2")
    assert resumed(**WHO, stage="Retrying").judge(killed.view()).outcome == "holds"


def test_killed_before_there_was_an_attempt(killed):
    for entry in killed.entries:
        if entry.get("resource") in ("rayclusters", "jobs") or entry.get("uid") == "uid-h1":
            entry["t"] += 20
    killed.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] in (7, 13))
    killed.rayjob(38, "Initializing", **NAMES)
    assert resumed(**WHO, stage="").judge(killed.view()).outcome == "holds"


def test_its_cluster_goes_when_its_time_has_come(killed):
    finding = SHUT.judge(killed.view())
    assert finding.outcome == "holds", finding.reason


@pytest.mark.parametrize("t", [70, 139])
def test_its_cluster_goes_too_soon_or_too_late(killed, t):
    killed.drop(lambda e: e.get("resource") == "rayclusters" and e["change"] == "DELETED")
    cluster(killed, t, "c1", "DELETED")
    assert SHUT.judge(killed.view()).outcome == "broken"


def test_its_cluster_stays(killed):
    killed.drop(lambda e: e.get("resource") == "rayclusters" and e["change"] == "DELETED")
    assert SHUT.judge(killed.view()).outcome == "broken"
    killed.gap("rayclusters", 120, 121)
    assert SHUT.judge(killed.view()).outcome == "unknown"
    killed.end(100)
    assert SHUT.judge(killed.view()).outcome == "unknown"


def test_a_rayjob_without_an_end(killed):
    killed.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] == 60)
    assert SHUT.judge(killed.view()).outcome == "unknown"
