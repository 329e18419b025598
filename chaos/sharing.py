"""One stack for several processes of one run, as pytest-xdist's workers are.

They hold the stack's lock together::

    first    ══ alone ══╤── with others ─────────────╴
    others     (wait)   ╰── with others ──────────────────┬══ alone ══╴
                  the stack is up                the last one leaves it

Who comes first holds it alone until the stack is up; the others wait and then use that stack as it is. Who is last to end
holds it alone again, and leaves the stack or removes it. The lock's text names the run, by which the others know that they
belong to it. The kernel takes off what a process held that dies, so that no death keeps the others from their work, nor
lets another run in among them.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos import locks
from chaos.locks import Holder
from chaos.signals import pause

# flock() can't be given a time limit, so waiting is asking again.
_EVERY = 0.05


@dataclass(frozen=True)
class Member:
    """One process of such a run."""

    run: str  # the run's ID, the same for all of them
    name: str  # its own: gw0
    controller: int  # the process that ends them all


class Share:
    """A process's part of the lock. ``is_first``: it is alone so far, and has to stand the stack up."""

    def __init__(self, path: Path, descriptor: int, member: Member, *, is_first: bool) -> None:
        self.is_first = is_first
        self._path = path
        self._descriptor = descriptor
        self._member = member
        self._is_alone = is_first

    def open(self) -> None:
        """The stack is up: let the others in. Raises BusyError should another run get in first."""
        if self._is_alone:
            holder = locks.this_process(_together_as(self._member.run), pid=self._member.controller)
            locks.name_holder(self._descriptor, holder)
            self._is_alone = False
            if not self._change_to(fcntl.LOCK_SH):
                raise locks.busy(locks.read(self._path))

    def is_last(self) -> bool:
        """Whether no other process of the run is left. One that isn't the last has no part any more when it has asked."""
        self._is_alone = self._is_alone or self._change_to(fcntl.LOCK_EX)
        return self._is_alone

    def close(self) -> None:
        """Release it; the text is taken off by who is alone."""
        if self._is_alone:
            locks.name_holder(self._descriptor, None)
        os.close(self._descriptor)

    def _change_to(self, how: int) -> bool:
        """Hold it in the other way. The kernel takes off the old lock first, and somebody's look may get in between.

        So it is asked again for a moment. Should it have become another's by then, or have been left, it is given back.
        """
        ends = time.monotonic() + locks.LEAST_WAIT
        while not _locked(self._descriptor, how):
            if time.monotonic() > ends:
                return False
            pause(_EVERY)
        if _is_together(locks.read(self._path), self._member.run):
            return True
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return False


@contextmanager
def share(
    path: Path, member: Member, *, wait: float = 0, tell: Callable[[str], None] = lambda text: None
) -> Iterator[Share]:
    """Have a part of the lock at ``path`` for the block.

    Waits for the run's own first process as long as that takes, and for another run ``wait`` seconds at most: then raises
    `BusyError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = _join(path, member, max(wait, locks.LEAST_WAIT), tell)
    try:
        yield part
    finally:
        part.close()


def runs(folder: Path, run: str) -> bool:
    """Whether a process of this run has a part of any lock in the folder."""
    return any(_is_of(locks.read(path), run) and locks.held(path) for path in folder.glob("*.lock"))


def _join(path: Path, member: Member, wait: float, tell: Callable[[str], None]) -> Share:
    ends = time.monotonic() + wait
    while True:
        if part := _part(path, member):
            return part
        other = locks.read(path)
        if _is_of(other, member.run):
            ends = time.monotonic() + wait  # also when the text is just being written, and names nobody for an instant
        elif time.monotonic() > ends:
            raise locks.busy(other)
        elif other and wait > locks.LEAST_WAIT:
            tell(f"waiting up to {wait:g} s for {other}")
            tell = _silently
        pause(_EVERY)


def _part(path: Path, member: Member) -> Share | None:
    """A part together with the others if there are any, else alone; None while somebody else has it.

    It is not asked for alone before the text is read, since that would get in the way of one who is opening it.
    """
    try:
        descriptor = locks.take(path, fcntl.LOCK_SH)
    except BlockingIOError:
        return None
    if _is_together(locks.read(path), member.run):
        return Share(path, descriptor, member, is_first=False)
    if not _locked(descriptor, fcntl.LOCK_EX):  # others ask for it as well, or another run has it together
        os.close(descriptor)
        return None
    locks.name_holder(descriptor, locks.this_process(_alone_as(member.run), pid=member.controller))
    return Share(path, descriptor, member, is_first=True)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _alone_as(run: str) -> str:
    return f"run {run}"


def _together_as(run: str) -> str:
    """What the lock's text says once the stack is up."""
    return f"run {run}, in several processes"


def _is_of(holder: Holder | None, run: str) -> bool:
    return holder is not None and holder.run in (_alone_as(run), _together_as(run))


def _is_together(holder: Holder | None, run: str) -> bool:
    return holder is not None and holder.run == _together_as(run)


def _silently(text: str) -> None:
    """What has been told once."""
