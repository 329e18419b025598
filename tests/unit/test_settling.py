"""How long the lab watches before workers are judged: by the same count as the checks."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from chaos.checks import facts, functional_twice, workers_lost, workers_survived
from chaos.lab import APART_SECONDS, SETTLE_SECONDS, Lab
from chaos.stack.ray import RayClusterHandle

CLUSTER = RayClusterHandle("ns", "c1", ft=True, workers=2)


class Watching(Lab):
    """A lab whose time passes only while it observes, and whose clusters always answer."""

    def __init__(self, story, now):
        self.story, self.time, self.looks = story, now, []
        self.happens = {}  # at which time, what else comes into the history
        self.failing = []  # times at which a probe fails before the one that succeeds
        self.writer = SimpleNamespace(experiment="test_it", entries=lambda: story.all().entries, now=lambda: self.time)

    def observe(self, seconds, *, why):
        self.looks.append(seconds)
        self.time += seconds
        for happens in [self.happens.pop(t) for t in sorted(self.happens) if t <= self.time]:
            happens()

    def functional_again(self, actors, *, deadline=0.0):
        if self.failing and self.time >= self.failing[0]:
            self.failing.pop(0)
            self.time += 10
            self.story.functional(self.time, ok=False, count=0)
        self.time += 1  # a probe, and what lies between
        self.story.functional(self.time, ok=True, count=90)
        return []


@pytest.fixture
def lab(story):
    story.head_loss()
    story.drop(lambda e: e["what"] == "phase" and e["phase"] == "end")
    story.drop(lambda e: e["t"] > 60)
    return Watching(story, 60.0)


def judged(lab):
    lab.story.phase("end", lab.time)
    finding = workers_survived(namespace="ns", cluster="c1").judge(lab.story.view())
    return finding.outcome, finding.reason


def test_the_rest_of_the_time_is_watched_and_no_more(lab):
    lab.settle({CLUSTER: ["counter"]})
    assert lab.looks == [pytest.approx(37.2 + SETTLE_SECONDS - 60)]
    assert judged(lab)[0] == "holds", judged(lab)[1]


def test_a_head_that_begins_anew_meanwhile_begins_the_count_anew(lab):
    lab.happens[70.0] = lambda: lab.story.pod(70, "h2", "uid-h2", "head", restarts=1)
    lab.settle({CLUSTER: ["counter"]})
    assert len(lab.looks) == 2
    assert lab.looks[-1] == pytest.approx(SETTLE_SECONDS)
    assert judged(lab)[0] == "holds", judged(lab)[1]


def test_the_head_must_be_ready_too(lab):
    lab.story.drop(lambda e: e["what"] == "object" and e["uid"] == "uid-h2" and e["t"] > 30)
    lab.story.pod(50, "h2", "uid-h2", "head")
    lab.settle({CLUSTER: ["counter"]})
    assert lab.looks == [pytest.approx(50 + SETTLE_SECONDS - 60)]
    lab.story.phase("end", lab.time)
    assert "survived" in workers_lost(namespace="ns", cluster="c1").judge(lab.story.view()).reason


def test_what_failed_at_the_last_look_is_looked_at_twice_again(lab):
    """On a busy machine an answer can take too long; what came after it was judged to be too little."""
    lab.failing = [37.2 + SETTLE_SECONDS]
    lab.settle({CLUSTER: ["counter"]})
    assert lab.looks == [pytest.approx(37.2 + SETTLE_SECONDS - 60), APART_SECONDS]
    lab.story.phase("end", lab.time)
    finding = functional_twice(namespace="ns", cluster="c1").judge(lab.story.view())
    assert finding.outcome == "holds", finding.reason


def test_what_worked_once_is_looked_at_again_and_no_more_than_twice(lab):
    lab.story.drop(lambda e: e["what"] == "probe" and e["t"] > 40)
    lab.failing = [60, 70, 70]
    lab.look_twice({CLUSTER: ["counter"]})
    assert lab.looks == [APART_SECONDS, APART_SECONDS]


def test_what_is_long_settled_is_not_watched_again(lab):
    lab.time = 120.0
    lab.settle({CLUSTER: ["counter"]})
    assert lab.looks == []


def test_what_is_not_back_is_not_counted(lab):
    lab.story.drop(lambda e: e["what"] == "probe" and e["t"] > 20)
    assert facts.back_at(lab.story.view(), "ns", "c1", 20) is None


def restarted(story, started):
    """The head restarts in place; it was told at 50 s, and an answer that was begun at 48.5 s came at 49."""
    story.head_loss()
    story.drop(lambda e: e["what"] == "probe" and e["t"] > 20)
    story.pod(50, "h2", "uid-h2", "head", restarts=1)
    [state] = [e for e in story.entries if e["what"] == "object" and e["t"] == 50]
    stamp = datetime.fromtimestamp(1_800_000_000 + started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    state["object"]["status"]["containerStatuses"][0]["state"]["running"] = {"startedAt": stamp}
    story.functional(49, ok=True, count=5)
    return facts.functional_again(story.view(), "ns", "c1", 20)


def test_a_restart_that_is_told_late_began_when_the_kubelet_says(story):
    assert restarted(story, 48).t == 49


def test_what_answered_before_the_restart_does_not_count(story):
    assert restarted(story, 49) is None


def test_a_stamp_ahead_of_the_watch_is_not_believed(story):
    restarted(story, 55)
    story.functional(52, ok=True, count=6)
    assert facts.functional_again(story.view(), "ns", "c1", 20).t == 52
