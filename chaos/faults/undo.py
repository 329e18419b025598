"""The undo log: what would have to be undone, on disk before anything is done.

Append-only JSON lines, each fsynced before the fault goes on. Undo is data, so that a later process can do it when the one
that injected the fault was killed: a ``kind`` names the function that undoes, ``what`` is its argument. Every such function
is idempotent and content when its target is gone.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from chaos.errors import StackError
from chaos.stack.cluster import Cluster


@dataclass(frozen=True)
class Undo:
    """One thing to undo. ``what`` is JSON."""

    kind: str
    what: dict[str, Any]


class Undoer(Protocol):
    """Undoes, and checks that nothing is left; raises when something is."""

    def __call__(self, cluster: Cluster, what: dict[str, Any]) -> None: ...


_UNDOERS: dict[str, Undoer] = {}


def undoer(kind: str) -> Callable[[Undoer], Undoer]:
    """Register the function that undoes ``kind``."""

    def register(function: Undoer) -> Undoer:
        _UNDOERS[kind] = function
        return function

    return register


def load_faults() -> None:
    """Import every fault: each registers what undoes it, and a process that only heals has used none of them."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"chaos.faults.{module.name}")


def perform(cluster: Cluster, undo: Undo) -> None:
    """Undo one thing now."""
    if undo.kind not in _UNDOERS:
        load_faults()
    try:
        function = _UNDOERS[undo.kind]
    except KeyError:
        raise StackError(
            f"the undo log names an unknown kind of undo: {undo.kind!r}", fix="was it edited by hand?"
        ) from None
    function(cluster, undo.what)


class UndoLog:
    """The log of one stack. Entries are removed by appending that they are done."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, injection: str, undos: list[Undo]) -> None:
        """Write ahead: returns when the entries are on the disk."""
        self._write([{"injection": injection, "index": i, "kind": u.kind, "what": u.what} for i, u in enumerate(undos)])

    def done(self, injection: str, index: int) -> None:
        """Note that an entry has been undone."""
        self._write([{"injection": injection, "index": index, "done": True}])

    def pending(self) -> list[tuple[str, int, Undo]]:
        """What is still to be undone, latest first. A torn last line was never acted upon and is passed over."""
        entries: dict[tuple[str, int], Undo] = {}
        for line in self._lines():
            try:
                entry = json.loads(line)
                place = (str(entry["injection"]), int(entry["index"]))
                if entry.get("done"):
                    entries.pop(place, None)
                else:
                    entries[place] = Undo(str(entry["kind"]), dict(entry["what"]))
            except (ValueError, KeyError, TypeError):
                continue
        return [(injection, index, undo) for (injection, index), undo in reversed(entries.items())]

    def unreadable(self) -> int:
        """How many lines could not be read."""
        bad = 0
        for line in self._lines():
            try:
                json.loads(line)["injection"]
            except (ValueError, KeyError, TypeError):
                bad += 1
        return bad

    def _lines(self) -> list[str]:
        try:
            return self.path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def _write(self, entries: list[dict[str, Any]]) -> None:
        if not entries:
            return
        # A line torn by a crash must not swallow the first one of the next run.
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            torn = os.fstat(descriptor).st_size and not self._ends_in_newline()
            left = (("\n" if torn else "") + text).encode()
            while left:  # a disk that is nearly full takes a part, and only the next call fails
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _ends_in_newline(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def heal(cluster: Cluster, log: UndoLog) -> tuple[list[str], list[str]]:
    """Undo all that any dead run left. Returns what was undone and what could not be, each as a sentence.

    One failure does not keep the rest from being healed.
    """
    healed, failed = [], []
    for injection, index, undo in log.pending():
        try:
            perform(cluster, undo)
            log.done(injection, index)
        except Exception as problem:  # the rest must still be healed
            failed.append(f"{injection}: {undo.kind} could not be undone: {problem}")
        else:
            healed.append(f"{injection}: {undo.kind} undone")
    return healed, failed
