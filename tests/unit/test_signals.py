"""A signal ends a run once and in order; what is undone is undone to the end."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from chaos import signals
from chaos.signals import Interrupted, handled, raised, shielded


@pytest.fixture(autouse=True)
def own_state(monkeypatch):
    """Signals of a test are none of the session that runs it."""
    monkeypatch.setattr(signals, "_state", signals._State())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_raised_with_its_exit_code(number, code):
    with pytest.raises(Interrupted) as interrupt, handled():
        signal.raise_signal(number)
    assert interrupt.value.exit_code == code
    assert str(interrupt.value) == number.name
    assert raised() is interrupt.value


def test_it_is_a_keyboard_interrupt_that_no_exception_handler_swallows():
    with pytest.raises(KeyboardInterrupt), handled():
        try:
            signal.raise_signal(signal.SIGTERM)
        except Exception:
            pytest.fail("swallowed")


def test_the_former_handlers_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(ValueError, match="x"), handled():
        assert signal.getsignal(signal.SIGTERM) is not before[1]
        raise ValueError("x")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


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
    with pytest.raises(Interrupted) as interrupt, handled():
        with shielded():
            signal.raise_signal(signal.SIGTERM)
            done.append("undone")
            assert raised() is None
        done.append("not reached")
    assert done == ["undone"]
    assert interrupt.value.exit_code == 143


def test_shields_nest_and_the_outermost_raises():
    done = []
    with pytest.raises(Interrupted), handled(), shielded():
        with shielded():
            signal.raise_signal(signal.SIGINT)
        done.append("still shielded")
    assert done == ["still shielded"]


def test_of_several_signals_in_a_shield_one_is_raised():
    with handled():
        with pytest.raises(Interrupted), shielded():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        with shielded():
            pass


def test_what_fails_in_a_shield_is_not_lost_behind_the_signal():
    with pytest.raises(Interrupted) as interrupt, handled(), shielded():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("undo failed")
    assert isinstance(interrupt.value.__context__, ValueError)


def test_a_shield_without_a_signal_lets_errors_through():
    with pytest.raises(ValueError, match="x"), shielded():
        raise ValueError("x")
    assert signals._state.depth == 0


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
