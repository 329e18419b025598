"""Every fault goes through the same steps, and whatever ends the block, it is undone."""

import os
import signal
from dataclasses import dataclass

import pytest

from chaos import signals
from chaos.errors import NoEffect, StackError
from chaos.faults.base import Fault
from chaos.faults.undo import Undo


@dataclass(frozen=True)
class Break(Fault):
    """Breaks the thing ``what``, and the parts of it that are named besides."""

    what: str
    parts: tuple[str, ...] = ()
    bites: bool = True

    name = "break"

    @property
    def target(self):
        return {"what": self.what}

    def undo(self, reach):
        return [Undo("repair", {"name": name}) for name in (self.what, *self.parts)]

    def apply(self, reach):
        reach.cluster.broken |= {self.what, *self.parts}

    def prove(self, reach, since):
        if not self.bites:
            raise NoEffect(f"{self.what} goes on")
        return {"seen": f"{self.what} is broken", "since": since}


@dataclass(frozen=True)
class Restored(Break):
    """A fault that the stack's own controllers repair."""

    def undo(self, reach):
        return []


@dataclass(frozen=True)
class Failing(Break):
    """Gets half way."""

    def apply(self, reach):
        super().apply(reach)
        raise StackError("half way")


def steps(writer, of="step"):
    return [entry[of] for entry in writer.entries()]


@pytest.fixture
def own_signals(monkeypatch):
    monkeypatch.setattr(signals, "_state", signals._State())
    with signals.handled():
        yield


def test_a_fault_is_recorded_applied_proved_and_undone(injector, cluster, writer, log):
    with injector(Break("a")) as injected:
        assert cluster.broken == {"a"}
        assert [undo.what for _, _, undo in log.pending()] == [{"name": "a"}]
        injected.hold(0)
    assert cluster.broken == set()
    assert log.pending() == []
    assert steps(writer) == ["record", "apply", "effect", "hold", "undo", "undone"]
    assert {entry["id"] for entry in writer.entries()} == {"break-1"}
    record, _, effect, hold, *_ = writer.entries()
    assert record["detail"] == {"undo": ["repair"]}
    assert record["target"] == {"what": "a"}
    assert effect["detail"]["seen"] == "a is broken"
    assert effect["detail"]["since"] == record["n"], "proof looks at nothing from before the fault"
    assert hold["detail"] == {"seconds": 0}


def test_the_undo_is_on_the_disk_before_the_fault_is_applied(injector, log):
    seen = []

    class Looking(Break):
        def apply(self, reach):
            seen.extend(log.pending())

    with injector(Looking("a")):
        pass
    assert [undo for _, _, undo in seen] == [Undo("repair", {"name": "a"})]


def test_an_undo_log_that_cannot_be_written_keeps_the_fault_from_being_applied(injector, cluster, log, monkeypatch):
    def refuse(*entries):
        raise OSError("no space")

    monkeypatch.setattr(log, "append", refuse)
    with pytest.raises(OSError, match="no space"), injector(Break("a")):
        pytest.fail("the block must not run")
    assert cluster.broken == set()


def test_a_fault_that_is_repaired_by_others_has_no_undo_steps(injector, writer):
    with injector(Restored("a")):
        pass
    assert steps(writer) == ["record", "apply", "effect"]


def test_no_effect_is_recorded_and_undone_and_the_block_does_not_run(injector, cluster, writer):
    with pytest.raises(NoEffect, match="a goes on"), injector(Break("a", bites=False)):
        pytest.fail("the block must not run")
    assert cluster.broken == set()
    assert steps(writer) == ["record", "apply", "no-effect", "undo", "undone"]


def test_what_was_applied_half_is_undone(injector, cluster, log):
    with pytest.raises(StackError, match="half way"), injector(Failing("a", parts=("b",))):
        pytest.fail("the block must not run")
    assert cluster.broken == set()
    assert log.pending() == []


def test_a_failing_block_is_undone_and_its_error_goes_on(injector, cluster):
    with pytest.raises(ValueError, match="of the experiment"), injector(Break("a")):
        raise ValueError("of the experiment")
    assert cluster.broken == set()


def test_faults_together_share_a_group_and_are_undone_the_last_first(injector, cluster, writer):
    with injector(Break("a"), Break("b")) as last:
        assert cluster.broken == {"a", "b"}
        assert last.fault == Break("b")
    with injector(Break("c")):
        pass
    assert cluster.repaired == ["b", "a", "c"]
    assert steps(writer)[:6] == ["record", "apply", "record", "apply", "effect", "effect"], "as close as can be"
    assert list(dict.fromkeys(steps(writer, "id"))) == ["break-1", "break-2", "break-3"]
    assert list(dict.fromkeys(steps(writer, "group"))) == ["group-1", "group-2"]


@pytest.mark.parametrize("second", [Failing("b"), Break("b", bites=False)], ids=["fails", "no effect"])
def test_when_the_second_fault_fails_the_first_is_undone_too(injector, cluster, second):
    with pytest.raises((StackError, NoEffect)), injector(Break("a"), second):
        pytest.fail("the block must not run")
    assert cluster.broken == set()


def test_parts_that_cannot_be_undone_are_told_the_others_are_undone_and_heal_finds_them(injector, cluster, writer, log):
    cluster.stuck = {"b"}
    with pytest.raises(StackError, match="b is stuck") as failed, injector(Break("a", parts=("b", "c"))):
        pass
    assert "break-1 could not be undone" in str(failed.value)
    assert "heal" in failed.value.fix
    assert cluster.broken == {"b"}
    assert [undo.what["name"] for _, _, undo in log.pending()] == ["b"]
    assert steps(writer)[-1] == "undo", "not undone"


def test_a_history_that_cannot_be_written_leaves_no_fault_in_force(injector, cluster, writer, log, monkeypatch):
    def full(line):
        raise StackError("history could not be written: no space")

    with pytest.raises(StackError, match="no space"), injector(Break("a")):
        monkeypatch.setattr(writer, "_append", full)
    assert cluster.broken == set()
    assert log.pending() == []


@pytest.mark.usefixtures("own_signals")
def test_an_interrupt_in_the_block_is_undone_before_it_goes_on(injector, cluster, log):
    with pytest.raises(signals.Interrupted), injector(Break("a")):
        os.kill(os.getpid(), signal.SIGTERM)
    assert cluster.broken == set()
    assert log.pending() == []


@pytest.mark.usefixtures("own_signals")
def test_an_interrupt_while_it_is_being_undone_does_not_cut_that_short(injector, cluster, log, writer, monkeypatch):
    done = log.done
    monkeypatch.setattr(log, "done", lambda *place: (os.kill(os.getpid(), signal.SIGINT), done(*place)))
    with pytest.raises(signals.Interrupted), injector(Break("a", parts=("b", "c"))):
        pass
    assert cluster.broken == set()
    assert log.pending() == []
    assert steps(writer)[-1] == "undone"


def test_each_voice_knows_its_own_injections(injector, writer):
    other = injector.of(writer)
    with injector(Break("a")), other(Break("b")):
        pass
    assert (injector.injections, other.injections) == (["break-1"], ["break-2"])
