"""OP-13: writes of two operators, by the audit log, against the lease."""

from datetime import UTC, datetime

import pytest

from chaos.checks import one_writer

ACCOUNT = "system:serviceaccount:operators:kuberay-operator"
ONE = one_writer(account=ACCOUNT)
ANY = one_writer()


def write(story, t, pod, user=ACCOUNT, verb="update"):
    story.add(
        "audit", t + 0.2, verb=verb, resource="rayjobs/status", namespace="ns", name="job1", user=user, pod=pod, code=200,
        requested=1_800_000_000.0 + t, answered=1_800_000_000.0 + t, id=f"{t}",
    )  # fmt: skip


def lease(story, t, pod):
    acquired = datetime.fromtimestamp(1_800_000_000 + t, UTC).isoformat()
    meta = {"name": "ray-operator-leader", "namespace": "operators", "uid": "uid-lease"}
    story.object("leases", t, {"metadata": meta, "spec": {"holderIdentity": f"{pod}_1", "acquireTime": acquired}})


@pytest.fixture
def handover(story):
    """The first operator leads and writes until 20 s, the second from 36 s on."""
    story.phase("begin", 5, claims=[["OP-13", "leader-killed"]])
    lease(story, 1, "op1")
    lease(story, 36, "op2")
    for t, pod in ((10, "op1"), (20, "op1"), (37, "op2"), (40, "op2")):
        write(story, t, pod)
    for t in (15, 25, 38):
        write(story, t, "", user="system:node:worker", verb="patch")
    story.end(60)
    return story


def test_one_after_the_other(handover):
    finding = ONE.judge(handover.view())
    assert finding.outcome == "holds", finding.reason
    assert finding.recovery_seconds == {"no_writer": 17.0}


def test_all_writers_together_interleave(handover):
    assert ANY.judge(handover.view()).outcome == "broken"


def test_an_operator_that_writes_again(handover):
    write(handover, 39, "op1")
    finding = ONE.judge(handover.view())
    assert finding.outcome == "broken"
    assert "2 writers took 4 turns" in finding.reason


@pytest.mark.parametrize(("t", "pod"), [(36.5, "op1"), (35, "op2")])
def test_a_write_without_the_lease(handover, t, pod):
    write(handover, t, pod)
    finding = ONE.judge(handover.view())
    assert finding.outcome == "broken"
    assert "the lease did not name it" in finding.reason


def test_what_is_only_read_is_no_write(handover):
    write(handover, 39, "op1", verb="get")
    assert ONE.judge(handover.view()).outcome == "holds"


def test_one_operator_shows_nothing(handover):
    handover.drop(lambda e: e.get("pod") == "op2")
    assert ONE.judge(handover.view()).outcome == "unknown"


def test_pods_that_are_not_told_apart(handover):
    for entry in handover.entries:
        entry.pop("pod", None)
    assert ONE.judge(handover.view()).outcome == "unknown"


def test_a_gap_in_the_lease(handover):
    handover.gap("leases", 30, 40)
    assert ONE.judge(handover.view()).outcome == "unknown"
