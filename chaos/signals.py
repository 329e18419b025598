"""Signals end a run in order: the fault in force is undone, the history closed, the verdicts written.

SIGINT, SIGTERM and SIGHUP raise `Interrupted` in the main thread, once. While something is being undone or written the
signal is kept, and raised when that is done: what is undone is undone to the end.

But not for ever. An API server or an engine that does not answer would keep the end for minutes: whatever is waited for once a
signal has asked for the end shares `END_SECONDS` (`Deadline`). What isn't undone by then is in the undo log.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# A process is to end within 15 s of the signal; the rest is for the reports, which take some on a busy machine.
END_SECONDS = 6.0
# Each thing that begins after that has so long all the same: most take less, and what is left to undo is tried.
_LEAST_SECONDS = 0.5


class Interrupted(KeyboardInterrupt):
    """A signal ended the run; ``exit_code`` is 128 and the signal's number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Stopped(BaseException):
    """The run ends. Raised in the threads that work for it, at their next wait."""


class _State:
    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.why = ""
        self.depth = 0
        self.asked = math.inf  # when a signal first asked for the end, by the monotonic clock
        self.unhurried = 0
        self.kept: int | None = None
        self.raised: Interrupted | None = None


_state = _State()


class _Thread(threading.local):
    """What one thread may be told."""

    stoppable = False
    depth = 0


_thread = _Thread()


def raised() -> Interrupted | None:
    """The interrupt that ended this process's run, if one did."""
    return _state.raised


def ending() -> bool:
    """Whether a signal has asked for the end, be it raised or still kept."""
    return _state.raised is not None or _state.kept is not None


@contextmanager
def handled() -> Iterator[None]:
    """Turn signals into `Interrupted` for the block; the former handlers come back after it."""
    former: dict[int, Any] = {number: signal.signal(number, _on_signal) for number in HANDLED}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def shielded() -> Iterator[None]:
    """Let the block run to its end whatever signal comes; it is raised afterwards."""
    if threading.current_thread() is not threading.main_thread():
        _thread.depth += 1
        try:
            yield
        finally:
            _thread.depth -= 1
        return
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
        kept = _state.kept
        if _state.depth == 0 and kept is not None:
            _state.kept = None
            _raise(kept)


class Deadline:
    """When to stop waiting: so many ``seconds`` from now, or sooner when a signal asks for the end."""

    def __init__(self, seconds: float) -> None:
        self._began = time.monotonic()
        self._ends = self._began + seconds

    @property
    def left(self) -> float:
        """The seconds that are left; 0 when there are none."""
        ends = self._ends
        if not _state.unhurried:
            ends = min(ends, max(_state.asked + END_SECONDS, self._began + _LEAST_SECONDS))
        return max(0.0, ends - time.monotonic())


@contextmanager
def unhurried() -> Iterator[None]:
    """What is waited for in the block may take its time, whatever signal came."""
    _state.unhurried += 1
    try:
        yield
    finally:
        _state.unhurried -= 1


def _on_signal(number: int, frame: FrameType | None) -> None:
    _state.asked = min(_state.asked, time.monotonic())
    if _state.raised is not None:
        return  # the end has begun; a second signal must not cut it short
    if _state.depth:
        _state.kept = _state.kept or number  # the first says how the process exits
        return
    _raise(number)


def _raise(number: int) -> None:
    if _state.raised is None:
        _state.raised = Interrupted(number)
        raise _state.raised


# --- threads that work for the run ------------------------------------------------------------------------------------
#
# Python raises signals in the main thread only. Experiments that run side by side are in threads of their own, and are told
# to stop at their next wait: with every one of them going through `pause` or `checkpoint`, that is soon.


def stop(why: str) -> None:
    """Tell the threads that work for the run to stop."""
    _state.why = why
    _state.stopping.set()


def is_stoppable() -> bool:
    """Whether this thread is told when the run ends."""
    return _thread.stoppable


@contextmanager
def stoppable() -> Iterator[None]:
    """This thread works for the run: when that ends, `Stopped` is raised at the next wait of the block, once."""
    _thread.stoppable = True
    try:
        yield
    finally:
        _thread.stoppable = False


def checkpoint() -> None:
    """Raises `Stopped` in a thread that is to stop, unless it is shielded."""
    if _thread.stoppable and not _thread.depth and _state.stopping.is_set():
        _thread.stoppable = False  # what its clean-up waits for, it may
        raise Stopped(_state.why)


def pause(seconds: float) -> None:
    """Sleep, as long as the run goes on."""
    ends = time.monotonic() + seconds
    if _thread.stoppable and not _thread.depth:
        _state.stopping.wait(seconds)
    checkpoint()
    time.sleep(max(0.0, ends - time.monotonic()))
