"""Whose turn it is: experiments side by side share the operator, Redis and the nodes, and some of them disturb these.

A turn is one lock a shared part: held together by those who rely on the part, alone by one who disturbs it. It is taken when
everything is prepared and before the first fault; what is prepared until then only relies on the parts. The locks
are ``flock``s, so they hold between threads and between processes alike, and go with a process that dies.

Nobody who holds a turn asks for more, and only one at a time asks (the gate): so there is no deadlock, and one who waits to
be alone is not kept waiting by those who come after.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path

from chaos.signals import pause

_EVERY = 0.1


class Part(StrEnum):
    """What experiments share."""

    OPERATOR = "operator"
    REDIS = "redis"
    NODES = "nodes"


@contextmanager
def turn(folder: Path, *, disturbs: Collection[Part], relies_on: Collection[Part]) -> Iterator[None]:
    """Have a turn for the block; waits for it. ``folder`` is the stack's, for the locks."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as held:
        with ExitStack() as gate:
            _lock(gate, folder / "gate", fcntl.LOCK_EX)
            for part in Part:
                if part in disturbs:
                    _lock(held, folder / part, fcntl.LOCK_EX)
                elif part in relies_on:
                    _lock(held, folder / part, fcntl.LOCK_SH)
        yield


@contextmanager
def room(folder: Path, places: int) -> Iterator[None]:
    """Have one of so many places for the block; waits for it, in no order."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as held:
        descriptors = [_open(held, folder / f"place-{number}") for number in range(places)]
        while not any(_locked(descriptor, fcntl.LOCK_EX) for descriptor in descriptors):
            pause(_EVERY)
        yield


def _lock(until: ExitStack, path: Path, how: int) -> None:
    descriptor = _open(until, path)
    while not _locked(descriptor, how):
        pause(_EVERY)


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
