from __future__ import annotations

import pytest

from chaos.checks import outage_shorter, start_up_waited_for

FT, PLAIN = {"namespace": "ns", "cluster": "c1"}, {"namespace": "ns", "cluster": "c2"}
WAITED = {"start_up": 60}


def answers(story, cluster, *times, born="a"):
    for count, t in enumerate(times):
        value = {"pid": 7, "born": born, "count": count}
        story.probe("client", t, target={"namespace": "ns", "cluster": cluster}, value=value)


def silences(story, cluster, *times):
    for t in times:
        story.probe("client", t, ok=False, target={"namespace": "ns", "cluster": cluster})


def lose(story, t):
    for worker in ("w1", "w2"):
        story.pod(t, worker, f"uid-{worker}", "worker", ready=False, restarts=1, exit_code=1)


@pytest.fixture
def outage(story):
    """Both heads are lost at 20 s; one client has answers again at 40 s, the other at 118 s, each until 130 s."""
    story.head_loss()
    answers(story, "c1", *range(15, 21), *range(40, 131))
    silences(story, "c1", *range(22, 40))
    answers(story, "c2", *range(15, 21))
    silences(story, "c2", *range(22, 118))
    answers(story, "c2", *range(118, 131), born="b")
    return story


@pytest.mark.parametrize(("ours", "than", "outcome"), [(FT, PLAIN, "holds"), (PLAIN, FT, "broken"), (FT, FT, "broken")])
def test_the_shorter_outage(outage, ours, than, outcome):
    finding = outage_shorter(**ours, than=than).judge(outage.view())
    assert finding.outcome == outcome
    seconds = 20 if ours is FT else 98
    assert finding.recovery_seconds == {"service_answers": seconds}
    assert f"{seconds}.0 s" in finding.reason


def test_an_outage_lasts_until_the_answers_stay(outage):
    outage.drop(lambda e: e["what"] == "probe" and e["target"].get("cluster") == "c1" and 41 < e["t"] < 125)
    finding = outage_shorter(**FT, than=PLAIN).judge(outage.view())
    assert finding.recovery_seconds == {"service_answers": 105}
    assert finding.outcome == "broken"


def test_without_any_outage_the_longest_wait_counts(story):
    story.head_loss()
    answers(story, "c1", *range(15, 24), *range(26, 131))
    answers(story, "c2", *range(15, 131))
    finding = outage_shorter(**FT, than=PLAIN).judge(story.view())
    assert finding.recovery_seconds == {"service_answers": 3}
    assert finding.outcome == "broken"


@pytest.mark.parametrize(
    "missing",
    [(0, 30), (100, 200), (0, 200)],
    ids=["before the fault", "at the end", "altogether"],
)
@pytest.mark.parametrize("cluster", ["c1", "c2"])
def test_an_outage_without_beginning_or_end_has_no_length(outage, cluster, missing):
    outage.drop(lambda e: e["what"] == "probe" and e["target"].get("cluster") == cluster and _within(e["t"], missing))
    assert outage_shorter(**FT, than=PLAIN).judge(outage.view()).outcome == "unknown"


def _within(t, span):
    return span[0] <= t <= span[1]


@pytest.mark.parametrize(("born", "outcome"), [("b", "holds"), ("a", "broken")])
def test_a_start_up_since_the_loss_of_the_worker_is_another_life(story, born, outcome):
    story.head_loss()
    answers(story, "c1", *range(15, 21))
    lose(story, 48)
    answers(story, "c1", *range(118, 131), born=born)
    finding = start_up_waited_for(**FT, **WAITED).judge(story.view())
    assert finding.outcome == outcome
    assert "70.0 s after the loss of w1" in finding.reason
    assert finding.recovery_seconds == {"service_answers": 98}


def test_an_answer_sooner_than_the_start_up_is_no_start_up(story):
    story.head_loss()
    answers(story, "c1", *range(15, 21))
    lose(story, 48)
    answers(story, "c1", *range(100, 131), born="b")
    finding = start_up_waited_for(**FT, **WAITED).judge(story.view())
    assert finding.outcome == "broken"
    assert "52.0 s" in finding.reason


def test_where_no_worker_was_lost_nothing_started_up(outage):
    finding = start_up_waited_for(**FT, **WAITED).judge(outage.view())
    assert finding.outcome == "broken"
    assert finding.reason == "the client's outage of 20.0 s ended without the loss of a worker"


def test_a_worker_lost_after_the_answer_is_another_matter(outage):
    lose(outage, 60)
    assert start_up_waited_for(**FT, **WAITED).judge(outage.view()).outcome == "broken"


def test_a_gap_may_hide_the_loss(outage):
    outage.gap("pods", 30, 31)
    assert start_up_waited_for(**FT, **WAITED).judge(outage.view()).outcome == "unknown"


def test_without_a_fault_nothing_is_shown(outage):
    outage.drop(lambda e: e["what"] == "fault")
    assert start_up_waited_for(**FT, **WAITED).judge(outage.view()).outcome == "unknown"
    assert outage_shorter(**FT, than=PLAIN).judge(outage.view()).outcome == "unknown"
