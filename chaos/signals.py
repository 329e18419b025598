"""Signals end a run in order: the fault in force is undone, the history closed, the verdicts written.

SIGINT, SIGTERM and SIGHUP raise `Interrupted` in the main thread, once. While something is being undone or written the
signal is kept, and raised when that is done: what is undone is undone to the end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal ended the run; ``exit_code`` is 128 and the signal's number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class _State:
    def __init__(self) -> None:
        self.depth = 0
        self.kept: int | None = None
        self.raised: Interrupted | None = None


_state = _State()


def raised() -> Interrupted | None:
    """The interrupt that ended this process's run, if one did."""
    return _state.raised


@contextmanager
def handled() -> Iterator[None]:
    """Turn signals into `Interrupted` for the block; the former handlers come back after it."""
    former: dict[int, Any] = {number: signal.signal(number, _on_signal) for number in _HANDLED}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def shielded() -> Iterator[None]:
    """Let the block run to its end whatever signal comes; it is raised afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are raised in the main thread only
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


def _on_signal(number: int, frame: FrameType | None) -> None:
    if _state.raised is not None:
        return  # the end has begun; a second signal must not cut it short
    if _state.depth:
        _state.kept = number
        return
    _raise(number)


def _raise(number: int) -> None:
    if _state.raised is None:
        _state.raised = Interrupted(number)
        raise _state.raised
