"""Whose turn it is: experiments side by side share the operator, Redis and the nodes, and some of them disturb these.

A turn is two locks a shared part: one for who relies on it, held together, and one for who disturbs it, held alone and asked
for when nobody relies on it. Both are held from an experiment's begin. The start counts: a head that starts while Redis has no
primary hangs for minutes, and one that runs may be restarted by another's fault before its own. The operator is needed to
start at all, and let go afterwards by those that only needed it for that. Who has disturbed a part, and will not again, relies
on it until its end: others may rely on it as well, but nobody may disturb it. The locks are ``flock``s, so they hold between
threads and between processes alike, and go with a process that dies.

Nobody who holds a turn asks for more, and only one at a time asks (the gate): so there is no deadlock, and one who waits to
be alone is not kept waiting by those who come after.

Beside that there are places, fewer than experiments. In one an experiment starts Ray, injects what Ray feels, and takes the
looks that have to be answered in time; it leaves it where it only lets time pass::

    one      ══ start, fault, recovery ══╶─ window ─╴══ look ══╴
    another      (waits for the place)  ══ start, fault, recovery ══╶─ window ─

So a neighbour's start makes nobody's answers late, and windows cost no time of others. A place is asked for by who has its
turn, and who is in one asks for nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack, nullcontext
from enum import StrEnum
from pathlib import Path

from chaos.signals import pause

_EVERY = 0.1

Tell = Callable[[], AbstractContextManager[object]]


class Part(StrEnum):
    """What experiments share."""

    OPERATOR = "operator"
    REDIS = "redis"
    NODES = "nodes"


class Turn:
    """One experiment's turn. ``folder`` is the stack's, for the locks.

    There are so many ``places``, and who is in one starts so many heads at once.
    """

    def __init__(self, folder: Path, *, disturbs: Collection[Part], relies_on: Collection[Part], places: int) -> None:
        self._folder = folder
        self._disturbs = disturbs
        self._relies_on = relies_on
        self.places = places
        self._is_taken = False
        self._has_place = False
        self._place = ExitStack()
        self._held = ExitStack()
        self._held_to_start = ExitStack()
        self._alone = ExitStack()

    def take(self, tell: Tell = nullcontext) -> None:
        """Wait for it, within what ``tell`` gives; at once, and telling nothing, when nobody is in the way."""
        with _Waiting(tell) as waiting:
            self._take(waiting)

    def _take(self, waiting: _Waiting) -> None:
        if self._is_taken:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with ExitStack() as gate:
                _lock(gate, self._folder / "gate", fcntl.LOCK_EX, waiting)
                for part in Part:
                    if part in self._disturbs:
                        self._disturb(part, waiting)
                    elif part in self._relies_on:
                        self._rely(self._held, part, waiting)
                    elif part is Part.OPERATOR:
                        self._rely(self._held_to_start, part, waiting)
        except BaseException:
            self.end()
            raise
        self._is_taken = True

    def _disturb(self, part: Part, waiting: _Waiting) -> None:
        """Wait until nobody else disturbs the part, nor relies on it."""
        _lock(self._alone, self._folder / f"{part}-disturbed", fcntl.LOCK_EX, waiting)
        relied_on = _lock(self._held, self._folder / part, fcntl.LOCK_EX, waiting)
        # The change needs not be at once: nobody else asks at this time.
        _locked(relied_on, fcntl.LOCK_SH)

    def _rely(self, until: ExitStack, part: Part, waiting: _Waiting) -> None:
        """Wait until nobody disturbs the part."""
        with ExitStack() as undisturbed:
            _lock(undisturbed, self._folder / f"{part}-disturbed", fcntl.LOCK_SH, waiting)
            _lock(until, self._folder / part, fcntl.LOCK_SH, waiting)

    def take_place(self, tell: Tell = nullcontext) -> None:
        """Wait for the turn and for a place, as `take` does; at once for who is in one."""
        with _Waiting(tell) as waiting:
            self._take(waiting)
            if not self._has_place:
                descriptors = [_open(self._place, self._folder / f"place-{n}") for n in range(self.places)]
                while not any(_locked(descriptor, fcntl.LOCK_EX) for descriptor in descriptors):
                    waiting.look_later()
                self._has_place = True

    def leave_place(self) -> None:
        """Nothing starts, and nothing has to be answered in time, until the place is taken again."""
        self._place.close()
        self._has_place = False

    def prepared(self) -> None:
        """No other Ray cluster will be made: let go what was only needed for that."""
        self._held_to_start.close()

    def disturbs_no_more(self) -> None:
        """What was disturbed works again and is only relied on from now on."""
        self._alone.close()

    def end(self) -> None:
        """Let everything go; safe to repeat."""
        self.leave_place()
        self.disturbs_no_more()
        self.prepared()
        self._held.close()
        self._is_taken = False


class _Waiting(ExitStack):
    """A wait that is told from the first look in vain on, until its block ends."""

    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell = tell
        self._is_told = False

    def look_later(self) -> None:
        if not self._is_told:
            self._is_told = True
            self.enter_context(self._tell())
        pause(_EVERY)


def _lock(until: ExitStack, path: Path, how: int, waiting: _Waiting) -> int:
    descriptor = _open(until, path)
    while not _locked(descriptor, how):
        waiting.look_later()
    return descriptor


def _open(until: ExitStack, path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until.callback(os.close, descriptor)
    return descriptor


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
