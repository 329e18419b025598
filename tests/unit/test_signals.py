"""A signal ends a run once and in order; what is undone is undone to the end."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from chaos import signals
from chaos.errors import NotReached
from chaos.process import run
from chaos.signals import END_SECONDS, Deadline, Interrupted, handled, raised, shielded
from chaos.waiting import until

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def own_signals(monkeypatch):
    """Signals of a test are none of the session that runs it, whose plugin handles them too."""
    monkeypatch.setattr(signals, "_state", signals._State())
    before = {number: signal.signal(number, signal.SIG_DFL) for number in HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), list(zip(HANDLED, (130, 143, 129), strict=True)))
def test_a_signal_is_raised_with_its_exit_code(number, code):
    with pytest.raises(Interrupted) as interrupt, handled():
        signal.raise_signal(number)
    assert interrupt.value.exit_code == code
    assert str(interrupt.value) == number.name
    assert raised() is interrupt.value


def test_no_handler_of_exceptions_swallows_it():
    with pytest.raises(KeyboardInterrupt), handled(), contextlib.suppress(Exception):
        signal.raise_signal(signal.SIGTERM)


def test_the_former_handlers_come_back_whatever_ends_the_block():
    def fail():
        with handled():
            assert signal.SIG_DFL not in map(signal.getsignal, HANDLED)
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    assert list(map(signal.getsignal, HANDLED)) == [signal.SIG_DFL] * 3


def test_it_may_be_nested():
    with handled():
        with handled():
            pass
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)


def test_a_second_signal_does_not_cut_the_end_short():
    done = []
    with handled():
        try:
            signal.raise_signal(signal.SIGINT)
        except Interrupted:
            signal.raise_signal(signal.SIGTERM)
            done.append("healed")
    assert done == ["healed"]
    assert raised().exit_code == 130, "the first one says how the process exits"


def test_shielded_work_is_done_to_its_end_and_the_signal_raised_afterwards():
    done = []

    def work():
        with shielded():
            signal.raise_signal(signal.SIGTERM)
            done.append("undone")
            assert raised() is None
        done.append("not reached")

    with pytest.raises(Interrupted) as interrupt, handled():
        work()
    assert done == ["undone"]
    assert interrupt.value.exit_code == 143


def test_shields_nest_and_the_outermost_raises():
    done = []

    def work():
        with shielded():
            with shielded():
                signal.raise_signal(signal.SIGINT)
            done.append("still shielded")

    with pytest.raises(Interrupted), handled():
        work()
    assert done == ["still shielded"]


def test_of_several_signals_in_a_shield_the_first_is_raised():
    def work():
        with shielded():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)

    with handled():
        with pytest.raises(Interrupted, match="SIGTERM"):
            work()
        with shielded():
            pass  # the other is not kept for the next


def test_what_failed_in_a_shield_is_not_lost_behind_the_signal():
    def work():
        with shielded():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("undo failed")

    with pytest.raises(Interrupted) as interrupt, handled():
        work()
    assert isinstance(interrupt.value.__context__, ValueError)


def test_a_shield_that_fails_is_lifted():
    with pytest.raises(ValueError, match="x"), shielded():
        raise ValueError("x")
    with pytest.raises(Interrupted), handled():
        signal.raise_signal(signal.SIGINT)


def test_a_shield_in_another_thread_does_not_hold_the_signal_of_the_main_one():
    entered, leave = threading.Event(), threading.Event()

    def elsewhere():
        with shielded():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    entered.wait(10)
    try:
        with pytest.raises(Interrupted), handled():
            signal.raise_signal(signal.SIGINT)
    finally:
        leave.set()
        thread.join()


PROGRAM = """
import sys, time
from chaos.signals import Interrupted, handled, shielded
try:
    with handled():
        try:
            print("began", flush=True)
            time.sleep(60)
        finally:
            with shielded():
                print("undoing", flush=True)
                sys.stdin.readline()
                print("undone", flush=True)
except Interrupted as interrupt:
    sys.exit(interrupt.exit_code)
"""


def test_a_process_that_is_told_twice_undoes_once_and_exits_as_the_first_signal_says():
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"began\n"
        os.kill(child.pid, signal.SIGTERM)
        assert child.stdout.readline() == b"undoing\n"
        os.kill(child.pid, signal.SIGINT)
        assert child.communicate(b"go on\n", timeout=10)[0] == b"undone\n"
    assert child.returncode == 143


# --- what may take long in peace --------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """The monotonic clock; it stands until it is told otherwise."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(signals.time, "monotonic", lambda: clock.now)
    return clock


def ask_for_the_end():
    with contextlib.suppress(Interrupted), handled():
        signal.raise_signal(signal.SIGTERM)


def test_a_deadline_is_its_own_until_a_signal_asks_for_the_end(clock):
    short, long = Deadline(5), Deadline(60)
    clock.now += 3
    assert (short.left, long.left) == (2, 57)
    ask_for_the_end()
    assert (short.left, long.left) == (2, END_SECONDS)
    clock.now += 4
    ask_for_the_end()
    assert (short.left, long.left) == (0, END_SECONDS - 4), "the first signal counts"
    assert Deadline(60).left == END_SECONDS - 4
    clock.now += 40
    assert long.left == 0
    assert 0 < Deadline(60).left < 1, "what only begins then is still tried"


def test_what_may_take_its_time_is_not_hurried(clock):
    ask_for_the_end()
    clock.now += 60
    with signals.unhurried():
        assert Deadline(60).left == 60
    assert Deadline(60).left < 1


def test_nothing_that_is_waited_for_outlasts_the_end(monkeypatch):
    monkeypatch.setattr(signals, "END_SECONDS", 0.3)
    ask_for_the_end()
    began = time.monotonic()
    with pytest.raises(NotReached):
        until(lambda: False, what="it", deadline=30)
    assert run(["sleep", "30"], timeout=30, check=False).code is None
    assert time.monotonic() - began < 5
