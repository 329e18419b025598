"""The undo log: what would have to be undone, on disk before anything is done.

Append-only JSON lines, each fsynced before the fault goes on. Undo is data, so that a later process can do it when the one
that injected the fault was killed: a ``kind`` names the function that undoes, ``what`` is its argument. Every such function
is idempotent and content when its target is gone.

A line that can't be read may hide an undo, so it is told and never passed over in silence. The exception is a last line
without its end: the process died while writing it, hence before it touched anything.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import pkgutil
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from chaos import faults
from chaos.errors import StackError
from chaos.locks import sync_folder
from chaos.stack.cluster import Cluster


@dataclass(frozen=True)
class Undo:
    """One thing to undo. ``what`` is JSON."""

    kind: str
    what: dict[str, Any]


class Undoer(Protocol):
    """Undoes, and checks that nothing is left; raises when something is."""

    def __call__(self, cluster: Cluster, what: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class _Registered:
    function: Undoer
    shape: dict[str, type]  # what ``what`` must hold


_UNDOERS: dict[str, _Registered] = {}


def undoer(kind: str, **shape: type) -> Callable[[Undoer], Undoer]:
    """Register the function that undoes ``kind``; ``shape`` says what ``what`` must hold, since a log can be edited."""

    def register(function: Undoer) -> Undoer:
        _UNDOERS[kind] = _Registered(function, shape)
        return function

    return register


def load_faults() -> None:
    """Import every fault: each registers what undoes it, and a process that only heals has used none of them."""
    for module in pkgutil.iter_modules(faults.__path__):
        importlib.import_module(f"{faults.__name__}.{module.name}")


def kinds() -> dict[str, dict[str, type]]:
    """Every kind of undo that there is, with the shape of its ``what``."""
    load_faults()
    return {kind: registered.shape for kind, registered in _UNDOERS.items()}


def perform(cluster: Cluster, undo: Undo) -> None:
    """Undo one thing now. Raises StackError, before anything is touched, when the kind or its argument is none of ours."""
    if undo.kind not in _UNDOERS:
        load_faults()
    if undo.kind not in _UNDOERS:
        raise StackError(f"the undo log names an unknown kind of undo: {undo.kind!r}", fix="was it edited by hand?")
    registered = _UNDOERS[undo.kind]
    for key, wanted in registered.shape.items():
        if not isinstance(undo.what.get(key), wanted):
            raise StackError(
                f"the undo log's {undo.kind} has no {key} ({wanted.__name__})", fix="was it edited by hand?"
            )
    registered.function(cluster, undo.what)


@dataclass(frozen=True)
class _Reading:
    """What a log says: what is still to be undone, and which lines could not be read, each with the reason."""

    pending: dict[tuple[str, int], Undo]
    unreadable: dict[int, str]


class UndoLog:
    """The log of one stack. Entries are removed by appending that they are done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._named = False  # whether the file's name is known to be on the disk
        # Experiments run side by side, in threads and in processes, and what one has half written is not torn.
        self._writing = threading.Lock()

    def append(self, injection: str, undos: list[Undo]) -> None:
        """Write ahead: returns when the entries are on the disk."""
        self._write([{"injection": injection, "index": i, "kind": u.kind, "what": u.what} for i, u in enumerate(undos)])

    def done(self, injection: str, index: int) -> None:
        """Note that an entry has been undone."""
        self._write([{"injection": injection, "index": index, "done": True}])

    def pending(self) -> list[tuple[str, int, Undo]]:
        """What is still to be undone, latest first."""
        entries = self._read().pending
        return [(injection, index, undo) for (injection, index), undo in reversed(entries.items())]

    def unreadable(self) -> list[str]:
        """The lines that could not be read and may hide an undo, a sentence each."""
        return [f"line {n} of {self.path} can't be read: {why}" for n, why in self._read().unreadable.items()]

    def _read(self) -> _Reading:
        try:
            *lines, last = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return _Reading({}, {})
        if _is_json(last):  # whole but for its end, as some editors leave it
            lines.append(last)
        reading = _Reading({}, {})
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    _take(json.loads(line.decode()), reading.pending)
                except _MalformedError as why:
                    reading.unreadable[number] = str(why)
                except ValueError:
                    reading.unreadable[number] = "it is not JSON"
        return reading

    def _write(self, entries: list[dict[str, Any]]) -> None:
        if not entries:
            return
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        with self._writing:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                left = (_end_last_line(descriptor) + text).encode()
                while left:  # a disk that is nearly full takes a part, and only the next call fails
                    left = left[os.write(descriptor, left) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not self._named:
                sync_folder(self.path.parent)
                self._named = True


def _end_last_line(descriptor: int) -> str:
    """What must stand before the next line. A torn one is taken off: it was never acted upon, and would look like damage."""
    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    last = content.rpartition(b"\n")[2]
    if _is_json(last):
        return "\n"
    if last:
        os.ftruncate(descriptor, len(content) - len(last))
    return ""


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line.decode())
    except ValueError:
        return False
    return True


class _MalformedError(Exception):
    """A line is JSON, but none that we write; the text says why."""


def _take(entry: object, pending: dict[tuple[str, int], Undo]) -> None:
    """Let one line's entry take effect on what is pending."""
    if not isinstance(entry, dict):
        raise _MalformedError("it is not an entry")
    done = entry.get("done") is True
    needed: dict[str, type] = {"injection": str, "index": int}
    for key, wanted in (needed if done else needed | {"kind": str, "what": dict}).items():
        if not isinstance(entry.get(key), wanted):
            raise _MalformedError(f"{key} is missing or not of the right kind")
    place = (entry["injection"], entry["index"])
    if done:
        pending.pop(place, None)
    else:
        pending[place] = Undo(entry["kind"], entry["what"])


def heal(cluster: Cluster, log: UndoLog, *, only: Collection[str] | None = None) -> tuple[list[str], list[str]]:
    """Undo all that any dead run left, or with ``only`` what is left of these injections.

    Returns what was undone and what could not be, each as a sentence; without ``only``, also what could not be read.

    One failure does not keep the rest from being healed. What failed is tried again once others have been undone, since
    one fault may be in another's way: no role can be restored while the API server is held.
    """
    healed: list[str] = []
    left = [entry for entry in log.pending() if only is None or entry[0] in only]
    while True:
        failed, again = [], []
        for injection, index, undo in left:
            try:
                perform(cluster, undo)
                log.done(injection, index)
            except Exception as problem:  # the rest must still be healed
                failed.append(f"{injection}: {undo.kind} could not be undone: {_said(problem)}")
                again.append((injection, index, undo))
            else:
                healed.append(f"{injection}: {undo.kind} undone")
        if not again or len(again) == len(left):
            return healed, [*failed, *(log.unreadable() if only is None else ())]
        left = again


def _said(problem: Exception) -> str:
    """What an error says, without its advice: that is the caller's to give."""
    return str(problem.args[0] if isinstance(problem, StackError) else problem)
