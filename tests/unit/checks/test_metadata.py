from __future__ import annotations

import copy

import pytest

from chaos.checks import job_remembered, metadata_kept

WHERE = {"namespace": "ns", "cluster": "c1"}
KEPT = metadata_kept(**WHERE)
JOB = job_remembered(**WHERE, submission_id="s1")
BEFORE = {
    "actors": ["counter", "other"],
    "value": "abc",
    "groups": {"group": {"state": "CREATED", "nodes": ["n1", "n2"]}},
    "nodes": {"n0": "head", "n1": "worker", "n2": "worker"},
}
AFTER = {**BEFORE, "nodes": {"n3": "head", "n1": "worker", "n2": "worker"}}


@pytest.fixture
def judged(story):
    """The outcome when the cluster's memory is ``before`` and then ``after``."""

    def judge(before, after):
        story.head_loss()
        for t, value in ((15, before), (100, after)):
            if value is not None:
                story.probe("metadata", t, value=value)
        return KEPT.judge(story.view())

    return judge


def test_everything_is_remembered(judged):
    finding = judged(BEFORE, AFTER)
    assert finding.outcome == "holds"
    assert "group CREATED on n1, n2" in finding.reason


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda v: v["actors"].remove("other"), "actor names lost: other"),
        (lambda v: v.update(value=None), "stored value abc→(none)"),
        (lambda v: v["groups"].clear(), "placement group group: CREATED on n1, n2→gone"),
        (lambda v: v["groups"]["group"].update(nodes=["n1"]), "CREATED on n1, n2→CREATED on n1"),
        (lambda v: v["groups"]["group"].update(state="PENDING"), "PENDING on n1, n2"),
        (lambda v: v["nodes"].pop("n2"), "worker nodes n1, n2→n1"),
        (lambda v: v["nodes"].update(n4="worker"), "worker nodes n1, n2→n1, n2, n4"),
        (lambda v: v["nodes"].pop("n3"), "one new one expected"),
        (lambda v: v["nodes"].update(n0="head"), "head nodes n0→n0, n3"),
    ],
)
def test_one_difference_breaks_it(judged, change, told):
    after = copy.deepcopy(AFTER)
    change(after)
    finding = judged(BEFORE, after)
    assert finding.outcome == "broken"
    assert told in finding.reason


def test_the_old_head_listed_alone_is_no_recovery(judged):
    assert judged(BEFORE, BEFORE).outcome == "broken"


def test_more_actors_are_no_loss(judged):
    assert judged(BEFORE, {**AFTER, "actors": [*AFTER["actors"], "new"]}).outcome == "holds"


@pytest.mark.parametrize(("before", "after"), [(BEFORE, None), (None, AFTER), ({**BEFORE, "groups": {}}, AFTER)])
def test_what_was_not_read_or_not_there_is_unknown(judged, before, after):
    assert judged(before, after).outcome == "unknown"


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("RUNNING", "FAILED", "holds"),
        ("RUNNING", "RUNNING", "holds"),
        ("RUNNING", "ABSENT", "broken"),
        ("ABSENT", "ABSENT", "unknown"),
        ("RUNNING", None, "unknown"),
    ],
)
def test_a_jobs_record(story, before, after, outcome):
    story.head_loss()
    for t, status in ((15, before), (100, after)):
        if status is not None:
            story.probe("job", t, target={**WHERE, "submission_id": "s1"}, value={"status": status})
    assert JOB.judge(story.view()).outcome == outcome
