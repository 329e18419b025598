"""Experiments side by side: each in a thread of its own, as many at once as the machine carries.

pytest asks for one test after the other. The first experiment it asks for starts those that follow as well; what each came
to is kept until pytest asks for it. Who may disturb what at which time is not settled here, but in `chaos.turns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from threading import Event
from typing import Generic, TypeVar

from chaos.machine import Machine
from chaos.signals import pause, raised, shielded, stop, stoppable

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

# An experiment has at most six Ray pods at a time.
_MIB_EACH = 3072
_LOOK_EVERY = 0.5
_ASK_EVERY = 0.05

InOrder = AbstractContextManager[None]


def carried(machine: Machine) -> int:
    """How many experiments a machine carries at once, beside the stack that is up.

    One for each processor: half of the time an experiment waits for grace periods, leases and windows. What takes two
    processors, a starting Ray above all, is done in a place (`chaos.turns`), of which there is one for two.
    """
    available = re.search(r"^MemAvailable:\s+(\d+) kB", machine.read("/proc/meminfo") or "", re.MULTILINE)
    by_memory = int(available[1]) // 1024 // _MIB_EACH if available else 1
    return max(1, min(machine.cpus, by_memory))


class Lanes(Generic[K, R]):
    """Does what was started, ``count`` at a time, and hands out what each came to."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="experiment")
        self._futures: dict[K, Future[R]] = {}
        self._last = Event()
        self._last.set()

    def start(self, keys: Sequence[K], do: Callable[[K, InOrder], R]) -> None:
        """Begin with the first ones; those that were started already go on as they are.

        Each is given a block that is entered in the order of the keys, whichever thread is quicker.
        """
        with shielded():  # or a signal could leave a thread behind that nobody knows of
            for key in keys:
                if key not in self._futures:
                    before, self._last = self._last, Event()
                    self._futures[key] = self._pool.submit(_stoppable, do, key, before, self._last)

    def __contains__(self, key: K) -> bool:
        return key in self._futures

    def result(self, key: K) -> R:
        """What it came to; waits for it. Raises what it raised."""
        future = self._futures[key]
        # In turns: a signal that comes just before the main thread blocks is noticed only when it wakes.
        while wait([future], timeout=_LOOK_EVERY).not_done:
            pass
        return future.result()

    def close(self, why: str) -> None:
        """End those that run, at their next wait, and begin no other; returns when all have ended.

        They are told ``why``, or of the signal where that is what ends the run.
        """
        if any(not future.done() for future in self._futures.values()):
            stop(str(raised() or why))
        self._pool.shutdown(wait=True, cancel_futures=True)


def _stoppable(do: Callable[[K, InOrder], R], key: K, before: Event, mine: Event) -> R:
    @contextmanager
    def in_order() -> Iterator[None]:
        while not before.is_set():
            pause(_ASK_EVERY)
        yield
        mine.set()

    try:
        with stoppable():
            return do(key, in_order())
    finally:
        mine.set()  # also of one that came to its end without
