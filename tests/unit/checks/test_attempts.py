"""OP-5: attempts by name, by count, by the ledger, and apart from one another."""

import pytest

from chaos.checks import attempts_cleared, attempts_opened

WHO = {"namespace": "ns", "rayjob": "job1"}
THREE = attempts_opened(**WHO, attempts=3, failed=3)
CLEARED = attempts_cleared(**WHO)


def attempt(story, number, t):
    """One attempt of 30 s whose entrypoint fails; its cluster's pod is seen to go 5 s into the next one."""
    named = {"rayClusterName": f"c{number}", "jobId": f"s{number}", "failed": number - 1}
    cluster = {"name": f"c{number}", "namespace": "ns", "uid": f"uid-c{number}"}
    story.rayjob(t, "Initializing", **named)
    story.object("rayclusters", t + 1, {"metadata": cluster}, "ADDED")
    head(story, t + 2, number, "ADDED")
    story.job(t + 10, f"uid-job{number}")
    story.rayjob(t + 11, "Running", **named)
    end = t + 26
    if number < 3:
        story.rayjob(end, "Retrying", jobStatus="FAILED", **{**named, "failed": number})
        story.object("rayclusters", end + 1, {"metadata": cluster}, "DELETED")
        story.job(end + 1, f"uid-job{number}", "DELETED")
        story.rayjob(end + 2, "", rayClusterName="", jobId="", failed=number)
        head(story, t + 37, number, "DELETED")
    else:
        story.rayjob(end, "Failed", jobStatus="FAILED", **{**named, "failed": number})


def head(story, t, number, change):
    meta = {
        "name": f"c{number}-head",
        "namespace": "ns",
        "uid": f"uid-head{number}",
        "labels": {"ray.io/cluster": f"c{number}"},
    }
    story.object("pods", t, {"metadata": meta, "status": {"phase": "Running"}}, change)


@pytest.fixture
def thrice(story):
    story.phase("begin", 5, claims=[["OP-5", "backoff-limit-2"]])
    story.rayjob(6, "", rayClusterName="", jobId="")
    for number in (1, 2, 3):
        attempt(story, number, 10 + 30 * (number - 1))
    ledger(story, ["1", "2", "3"])
    story.end(110)
    return story


def ledger(story, numbers):
    story.drop(lambda e: e.get("probe") == "ledger")
    lines = [{"attempt": f"c{n}", "submission_id": f"s{n}"} for n in numbers]
    story.probe("ledger", 105, target=WHO, value={"lines": lines})


@pytest.mark.parametrize("check", [THREE, CLEARED], ids=lambda check: check.name)
def test_three_attempts(thrice, check):
    finding = check.judge(thrice.view())
    assert finding.outcome == "holds", finding.reason
    assert finding.evidence


def test_how_long_pods_overlapped_is_told(thrice):
    finding = CLEARED.judge(thrice.view())
    assert "overlapped for 5.0 s, 5.0 s" in finding.reason
    assert finding.recovery_seconds == {"attempts_overlap": 5.0}


def test_another_count_is_broken(thrice):
    assert attempts_opened(**WHO, attempts=1, failed=1).judge(thrice.view()).outcome == "broken"
    assert attempts_opened(**WHO, attempts=4, failed=4).judge(thrice.view()).outcome == "broken"
    assert attempts_opened(**WHO, attempts=3, failed=2).judge(thrice.view()).outcome == "broken"


@pytest.mark.parametrize("numbers", [["1", "2"], ["1", "2", "3", "3"], ["1", "2", "2"], ["1", "1", "3"]])
def test_each_attempt_is_executed_once(thrice, numbers):
    ledger(thrice, numbers)
    assert THREE.judge(thrice.view()).outcome == "broken"


@pytest.mark.parametrize("key", ["rayClusterName", "jobId"])
def test_a_name_that_is_used_again(thrice, key):
    for entry in thrice.entries:
        if entry.get("resource") == "rayjobs" and entry["object"]["status"].get(key, "")[1:] == "3":
            entry["object"]["status"][key] = entry["object"]["status"][key][0] + "1"
    finding = THREE.judge(thrice.view())
    assert finding.outcome == "broken"
    assert "used again" in finding.reason


def test_before_its_end_nothing_is_counted(thrice):
    thrice.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] == 96)
    assert THREE.judge(thrice.view()).outcome == "unknown"


def test_without_a_ledger_nothing_is_counted(thrice):
    thrice.drop(lambda e: e.get("probe") == "ledger")
    assert THREE.judge(thrice.view()).outcome == "unknown"


@pytest.mark.parametrize("resource", ["rayclusters", "jobs"])
def test_what_an_attempt_left_behind(thrice, resource):
    thrice.drop(lambda e: e.get("resource") == resource and e["change"] == "DELETED" and e["t"] < 50)
    finding = CLEARED.judge(thrice.view())
    assert finding.outcome == "broken"
    assert "before" in finding.reason


@pytest.mark.parametrize("resource", ["rayclusters", "jobs"])
def test_what_was_cleared_too_late(thrice, resource):
    for entry in thrice.entries:
        if entry.get("resource") == resource and entry["change"] == "DELETED" and entry["t"] < 50:
            entry["t"] += 20
    assert CLEARED.judge(thrice.view()).outcome == "broken"


def test_a_status_that_goes_from_one_attempt_to_the_next(thrice):
    thrice.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] == 38)
    assert CLEARED.judge(thrice.view()).outcome == "broken"


@pytest.mark.parametrize("resource", ["rayjobs", "rayclusters", "jobs"])
def test_a_gap_could_hide_what_was_between(thrice, resource):
    thrice.gap(resource, 50, 55)
    assert CLEARED.judge(thrice.view()).outcome == "unknown"


def test_one_attempt_has_nothing_between(thrice):
    thrice.drop(lambda e: e.get("resource") == "rayjobs" and e["t"] > 36)
    assert CLEARED.judge(thrice.view()).outcome == "unknown"


def test_an_id_that_is_given_names_every_attempt(thrice):
    given = attempts_opened(**WHO, attempts=3, failed=3, submission_id="mine")
    finding = given.judge(thrice.view())
    assert finding.outcome == "broken"
    assert "submitted as s1, s2, s3, not as mine" in finding.reason
    for entry in thrice.entries:
        if entry.get("resource") == "rayjobs" and entry["object"]["status"].get("jobId"):
            entry["object"]["status"]["jobId"] = "mine"
    lines = [{"attempt": f"c{n}", "submission_id": "mine"} for n in "123"]
    thrice.drop(lambda e: e.get("probe") == "ledger")
    assert given.judge(thrice.view()).outcome == "unknown"
    thrice.probe("ledger", 105, target=WHO, value={"lines": lines})
    assert given.judge(thrice.view()).outcome == "holds"
    assert THREE.judge(thrice.view()).outcome == "broken"
