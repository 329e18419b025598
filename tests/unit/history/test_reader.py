from __future__ import annotations

import pytest

from chaos.errors import UsageError
from chaos.history.entry import What
from chaos.history.objects import condition_time, is_ready, is_terminating, restart_count
from chaos.history.reader import History
from chaos.history.store import HistoryWriter


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Story:
    """Writes a history at times that the test chooses; wall time is 1000 s ahead."""

    def __init__(self, path) -> None:
        self.clock = Clock()
        self.writer = HistoryWriter(path, clock=self.clock, wall=lambda: self.clock.now + 1000)

    def at(self, t: float, what: What, **fields):
        self.clock.now = t
        return self.writer.write(what, **fields)

    def pod(self, t, uid, rv, change="MODIFIED", *, name="head", resource="pods", labels=None, owner=None, **status):
        metadata = {"uid": uid, "name": name, "labels": labels or {}}
        if owner:
            metadata["ownerReferences"] = [{"uid": owner}]
        return self.at(
            t,
            What.OBJECT,
            change=change,
            resource=resource,
            uid=uid,
            namespace="ray",
            name=name,
            rv=str(rv),
            listed=False,
            object={"metadata": metadata, "spec": {"a": 1}, "status": status},
        )

    def phase(self, t, name, experiment):
        self.writer.experiment = experiment
        return self.at(t, What.PHASE, phase=name, detail={})

    def history(self) -> History:
        return History.load(self.writer.path)


@pytest.fixture
def story(tmp_path):
    story = Story(tmp_path / "history.jsonl")
    yield story
    story.writer.close()


def test_what_is_loaded_is_what_was_written(story):
    story.pod(1, "a", 1, "ADDED")
    story.at(2, What.NOTE, text="x")
    history = story.history()
    assert history.entries == story.writer.entries()
    assert history.torn is False
    assert [note.text for note in history.notes()] == ["x"]


def test_a_torn_last_line_is_dropped_and_told(story):
    story.at(1, What.NOTE, text="whole")
    with story.writer.path.open("ab") as file:
        file.write(b'{"n":1,"t"')
    history = story.history()
    assert history.torn is True
    assert len(history.entries) == 1


def test_a_torn_line_before_the_last_is_an_error(story):
    with story.writer.path.open("ab") as file:
        file.write(b'{"n":1,"t"\n')
    with pytest.raises(UsageError, match="line 1: not an entry"):
        story.history()


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="could not be read"):
        History.load(tmp_path / "none")


def test_a_lifetime_is_one_uid(story):
    story.pod(1, "a", 1, "ADDED")
    story.pod(2, "a", 2, phase="Running")
    story.pod(3, "a", 3, "DELETED")
    story.pod(4, "b", 4, "ADDED")
    old, new = story.history().objects("pods", name="head")
    assert (old.uid, old.born, old.gone, len(old.states)) == ("a", 1, 3, 3)
    assert (new.uid, new.born, new.gone) == ("b", 4, None)
    assert old.at(0.5) is None
    assert old.at(2.5).object["status"] == {"phase": "Running"}
    assert old.at(9).change == "DELETED"
    assert old.first(lambda pod: "phase" in pod["status"]).t == 2
    assert old.first(lambda pod: "phase" in pod["status"], since=2.1) is None


def test_states_of_a_loaded_history_share_what_did_not_change(story):
    story.pod(1, "a", 1, "ADDED")
    story.pod(2, "a", 2, phase="Running")
    first, second = story.history().objects("pods")[0].states
    assert first.object["spec"] is second.object["spec"]


def test_objects_are_found_by_what_they_are(story):
    story.pod(1, "a", 1, "ADDED", name="head", labels={"type": "head", "x": "y"}, owner="cluster")
    story.pod(2, "b", 2, "ADDED", name="worker", labels={"type": "worker"})
    story.pod(3, "c", 3, "ADDED", name="job", resource="jobs")
    history = story.history()

    def uids(*args, **kwargs):
        return [life.uid for life in history.objects(*args, **kwargs)]

    assert uids("pods") == ["a", "b"]
    assert uids("jobs") == ["c"]
    assert uids("pods", labels={"type": "head"}) == ["a"]
    assert uids("pods", labels={"type": "head", "x": "z"}) == []
    assert uids("pods", owner="cluster") == ["a"]
    assert uids("pods", name="worker", namespace="ray") == ["b"]
    assert uids("pods", namespace="elsewhere") == []
    assert history.object("c").name == "job"
    assert history.object("d") is None


def test_a_view_reaches_back_to_the_beginning_and_ends_with_its_experiment(story):
    story.pod(1, "a", 1, "ADDED")
    story.phase(2, "begin", "one")
    story.at(3, What.PROBE, probe="actor", target={"actor": "counter"}, ok=True, took=0.1, value={"n": 1}, error="")
    story.phase(4, "end", "one")
    story.phase(5, "begin", "two")
    story.at(6, What.PROBE, probe="actor", target={"actor": "counter"}, ok=False, took=1, value={}, error="lost")
    story.at(6.5, What.EXPECT, claim="FT-2", arm="force", checks=[{"check": "c", "params": {}}], control=None)
    story.pod(7, "a", 2, "DELETED")
    story.phase(8, "end", "two")
    history = story.history()
    assert history.experiments == ["one", "two"]

    one = history.experiment("one")
    assert (one.since, one.until) == (2, 4)
    assert one.objects("pods")[0].gone is None
    assert [probe.ok for probe in one.probes("actor")] == [True]
    assert one.expects() == []

    two = history.experiment("two")
    assert (two.since, two.until) == (5, 8)
    assert two.objects("pods")[0].born == 1
    assert two.objects("pods")[0].gone == 7
    assert [probe.error for probe in two.probes("actor", actor="counter")] == ["lost"]
    assert two.probes("actor", actor="other") == []
    assert [phase.name for phase in two.phases()] == ["begin", "end"]
    assert [(e.claim, e.arm) for e in two.expects()] == [("FT-2", "force")]


def test_an_experiment_that_crashed_ends_with_the_history(story):
    story.phase(1, "begin", "one")
    story.pod(5, "a", 1, "ADDED")
    assert story.history().experiment("one").until == 5


def test_an_unknown_experiment_is_an_error(story):
    with pytest.raises(UsageError, match="no experiment 'one'"):
        story.history().experiment("one")


def test_a_view_has_the_audited_requests_that_were_read_a_little_later(story):
    def audit(t, answered, name):
        story.at(
            t,
            What.AUDIT,
            verb="create",
            resource="pods",
            namespace="ray",
            name=name,
            user="operator",
            code=409,
            requested=answered,
            answered=answered,
            id=name,
        )

    story.phase(1, "begin", "one")
    story.phase(2, "end", "one")
    audit(2.2, 1001.9, "within")
    audit(2.3, 1002.1, "after")
    assert [a.name for a in story.history().experiment("one").audits(verb="create", resource="pods")] == ["within"]
    assert [a.code for a in story.history().audits(name="after")] == [409]
    assert story.history().audits(verb="delete") == []


def test_an_injection_is_its_steps(story):
    story.phase(1, "begin", "one")
    for t, step in enumerate(("record", "apply", "effect", "hold", "undo", "undone"), 2):
        story.at(t, What.FAULT, fault="delete-pod", id="f1", step=step, detail={})
    story.at(9, What.FAULT, fault="partition", id="f2", step="apply", detail={})
    first, second = story.history().experiment("one").faults()
    assert (first.name, first.applied_at, first.effect_at, first.undo_at, first.undone_at) == ("delete-pod", 3, 4, 6, 7)
    assert list(first.steps) == ["record", "apply", "effect", "hold", "undo", "undone"]
    assert (second.id, second.effect_at) == ("f2", None)
    assert [fault.id for fault in story.history().faults("partition")] == ["f2"]


def test_gaps_are_found_where_they_overlap(story):
    story.at(9, What.GAP, resource="pods", since=2.0, until=4.0, reason="410")
    history = story.history()
    assert len(history.gaps()) == len(history.gaps("pods", 4.0, 5.0)) == len(history.gaps("pods", 0.0, 2.0)) == 1
    assert history.gaps("pods", 4.1, 5.0) == history.gaps("pods", 0.0, 1.9) == history.gaps("jobs") == []


def test_what_a_pod_says():
    statuses = [{"name": "ray", "restartCount": 2}, {"name": "side", "restartCount": 1}]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    pod = {"metadata": {"deletionTimestamp": "x"}, "status": {"containerStatuses": statuses, "conditions": [ready]}}
    assert (restart_count(pod), restart_count(pod, "ray")) == (3, 2)
    assert is_ready(pod)
    assert is_terminating(pod)
    assert condition_time(pod, "Ready") == 1767225600
    assert condition_time(pod, "Ready", "False") is None
    new = {"metadata": {}}
    assert (restart_count(new), is_ready(new), is_terminating(new), condition_time(new, "Ready")) == (
        0,
        False,
        False,
        None,
    )
