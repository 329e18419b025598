"""Waiting looks at once, goes on through what is not yet, and never begins a look after its deadline."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import EngineError, ImageError, NotReached, StackError
from chaos.waiting import until


class Clock:
    """The monotonic clock and the sleep that go with it: no test waits."""

    def __init__(self):
        self.now = 100.0
        self.slept = []

    def sleep(self, seconds):
        assert seconds >= 0
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    return clock


def answers(*sequence):
    """A probe that gives one answer after the other, and the last one for ever; exceptions are raised."""
    left = list(sequence)

    def probe():
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return probe


def test_what_is_true_already_is_returned_at_once(clock):
    assert until(answers("there"), what="it", deadline=10) == "there"
    assert clock.slept == []


def test_it_is_asked_again_until_it_is_true(clock):
    assert until(answers(None, 0, "", [], 7), what="it", deadline=10, every=2) == 7
    assert clock.slept == [2, 2, 2, 2]


def test_the_wait_ends_with_what_was_awaited_and_for_how_long(clock):
    with pytest.raises(NotReached, match="three nodes: not within 1 s") as late:
        until(answers(False), what="three nodes", deadline=1)
    assert late.value.exit_code == 2


def test_the_error_is_the_callers(clock):
    with pytest.raises(ImageError) as late:
        until(answers(False), what="it", deadline=1, error=ImageError, fix="look")
    assert late.value.fix == "look"


def test_a_stack_error_is_not_yet_and_the_last_one_is_quoted(clock):
    probe = answers(StackError("first"), EngineError("refused", fix="not quoted"))
    with pytest.raises(NotReached) as late:
        until(probe, what="it", deadline=1)
    assert late.value.args[0] == "it: not within 1 s (refused)"
    assert isinstance(late.value.__cause__, EngineError)


def test_it_may_come_after_stack_errors(clock):
    assert until(answers(StackError("no answer"), False, 5), what="it", deadline=10) == 5


@pytest.mark.parametrize("problem", [ValueError("a bug"), NotReached("inner"), KeyboardInterrupt()])
def test_any_other_exception_ends_the_wait(clock, problem):
    with pytest.raises(type(problem)) as raised:
        until(answers(False, problem), what="it", deadline=10)
    assert raised.value is problem


def test_a_deadline_of_nothing_is_one_look(clock):
    assert until(answers(1), what="it", deadline=0) == 1
    with pytest.raises(NotReached):
        until(answers(0, 1), what="it", deadline=0)


@given(
    deadline=st.floats(0.1, 60),
    every=st.floats(0.05, 20),
    takes=st.lists(st.floats(0, 30), min_size=1, max_size=300),
)
def test_no_look_begins_after_the_deadline_and_none_that_fits_is_left_out(deadline, every, takes):
    clock, looks = Clock(), []
    began = clock.now

    def probe():
        looks.append(clock.now - began)
        clock.now += takes[len(looks) % len(takes)]
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: clock.now)
        patch.setattr(time, "sleep", clock.sleep)
        with pytest.raises(NotReached):
            until(probe, what="it", deadline=deadline, every=every)
    assert looks[0] == 0
    assert all(at <= deadline + 1e-9 for at in looks)
    assert clock.now - began + every >= deadline - 1e-9, "it gave up though another look would have fitted"
