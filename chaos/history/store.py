"""The history's one writer: many threads write entries, each becomes one JSON line, in one order.

The order is the model. An entry's number, time and line are settled under one lock, so numbers and times rise together
and the file reads in the order in which things were learnt. What is in memory equals what is in the file: waiting
(`HistoryWriter.wait_for`) and a live `chaos.history.reader.History` see what a later reader of the file will see.

Lines are ASCII: bytes that aren't UTF-8 arrive here as lone surrogates and survive as ``\\udcXX`` escapes.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition

from chaos.errors import NotReached, StackError, UsageError
from chaos.history.entry import Entry, What
from chaos.history.objects import Json, trim
from chaos.history.redaction import Redactor
from chaos.signals import checkpoint

_log = logging.getLogger(__name__)

Listener = Callable[[Entry], None]

# A waiting thread looks up this often, to see whether the run goes on.
_GLANCE_SECONDS = 0.5


@dataclass
class _Written:
    """What all voices of one history share."""

    entries: list[Entry] = field(default_factory=list)
    listeners: tuple[Listener, ...] = ()
    failed: OSError | None = None


class HistoryWriter:
    """Appends entries to a new file. Thread-safe.

    ``experiment`` is stamped on every entry: None here, its name in what `of` returns. ``redact`` holds the secrets that
    never reach the file. Entries are shared with everyone who asks: treat them as read-only.
    """

    def __init__(
        self,
        path: Path,
        *,
        redact: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Create ``path``. Raises UsageError when it exists or can't be created: a history is never continued."""
        try:
            self._file = path.open("xb", buffering=0)
        except OSError as error:
            raise UsageError(f"history {path} could not be created: {error.strerror}") from error
        self.path = path
        self.experiment: str | None = None
        self.redact = Redactor(redact)
        self._clock = clock
        self._wall = wall
        self._began = clock()
        self._written = _Written()
        self._changed = Condition()

    def of(self, experiment: str) -> HistoryWriter:
        """The same history as one experiment writes it; several do so side by side."""
        voice = copy.copy(self)
        voice.experiment = experiment
        return voice

    def now(self) -> float:
        """Seconds since this writer was made, monotonic: the clock of every entry's ``t``."""
        return self._clock() - self._began

    def write(self, what: What, **fields: Json) -> Entry:
        """Append one entry, which reaches the operating system before this returns, then tell the listeners.

        ``fields`` are those of `chaos.history.entry` for ``what``. Raises TypeError or ValueError for what JSON can't
        hold, ValueError for a Secret, StackError when the file can't be written, now or ever since.
        """
        if what is What.OBJECT:
            fields["object"] = trim(fields["resource"], fields["object"])
        with self._changed:
            if self._written.failed:
                raise StackError(f"history {self.path} could not be written: {self._written.failed}")
            entry: Entry = {
                "n": len(self._written.entries),
                "t": round(self.now(), 6),
                "wall": round(self._wall(), 6),
                "what": str(what),
                "experiment": self.experiment,
                **fields,
            }
            line = _dump(entry)
            if self.redact.found_in(line):
                entry = self.redact.value(entry)
                line = _dump(entry)
            if what is not What.OBJECT:
                # The caller may go on changing what it passed. The recorder, from which the bulk comes, doesn't.
                entry = json.loads(line)
            self._append(line)
            self._written.entries.append(entry)
            listeners = self._written.listeners
            self._changed.notify_all()
        for listener in listeners:
            try:
                listener(entry)
            except Exception:  # a listener's fault must not stop the record
                _log.exception("a listener failed on history entry %d", entry["n"])
        return entry

    def _append(self, line: str) -> None:
        rest = memoryview(line.encode("ascii") + b"\n")
        try:
            while rest:  # an unbuffered write may take only part, as when the disk is nearly full
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            # The last line may be torn now, and a line after it would be read as part of it.
            self._written.failed = error
            self._changed.notify_all()
            raise StackError(f"history {self.path} could not be written: {error}") from error

    def fsync(self) -> None:
        """Return once everything written so far is on disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush to disk and close the file; idempotent. Writing afterwards raises ValueError."""
        if not self._file.closed:
            self.fsync()
            self._file.close()

    def entries(self, since: int = 0) -> list[Entry]:
        """Entries written so far, from number ``since`` on."""
        with self._changed:
            return self._written.entries[since:]

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every further entry, after it was written; returns what ends that.

        It is called in the writing thread, so it must be quick. Entries of different threads may reach it out of order.
        """
        with self._changed:
            self._written.listeners = (*self._written.listeners, listener)

        def unsubscribe() -> None:
            with self._changed:
                self._written.listeners = tuple(other for other in self._written.listeners if other is not listener)

        return unsubscribe

    def wait_for(self, predicate: Callable[[Entry], bool], *, deadline: float, what: str, since: int = 0) -> Entry:
        """The first entry, from number ``since`` on, for which ``predicate`` is true; waits up to ``deadline`` seconds.

        ``predicate`` sees every entry once, in order, in this thread. Raises NotReached, naming ``what``; StackError
        when the history can't be written any more, since then nothing will come.
        """
        ends = self._clock() + deadline
        seen = since
        while True:
            checkpoint()
            with self._changed:
                if len(self._written.entries) <= seen:
                    if self._written.failed:
                        raise StackError(f"history {self.path} could not be written: {self._written.failed}")
                    left = ends - self._clock()
                    if left <= 0:
                        raise NotReached(f"{what}: not seen within {deadline:g} s")
                    self._changed.wait(min(left, _GLANCE_SECONDS))
                fresh = self._written.entries[seen:]
            for entry in fresh:
                if predicate(entry):
                    return entry
            seen += len(fresh)


def _dump(entry: Entry) -> str:
    return json.dumps(entry, separators=(",", ":"), allow_nan=False)
