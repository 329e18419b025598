"""Waiting for something outside to become true: one loop, on the monotonic clock, that does not overshoot its deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryError, Retrying, retry_if_exception_type, retry_if_result, wait_fixed

from chaos.errors import ChaosError, NotReached, StackError
from chaos.signals import Deadline, pause

T = TypeVar("T")


def until(
    probe: Callable[[], T | None],
    *,
    what: str,
    deadline: float,
    every: float = 0.3,
    error: type[ChaosError] = NotReached,
    fix: str = "",
) -> T:
    """Ask ``probe`` every ``every`` seconds until it answers something true, and return that.

    ``deadline`` is in seconds from now, and sooner once a signal has asked for the end: the first look is made at once, and
    none begins after the deadline. A `StackError`
    of the probe counts as "not yet"; any other exception ends the wait. Raises ``error`` with ``what`` was awaited, and
    quotes the last `StackError` if the last look ended in one.
    """
    ends = Deadline(deadline)
    retrying = Retrying(
        retry=retry_if_result(lambda answer: not answer) | retry_if_exception_type(StackError),
        stop=lambda state: state.upcoming_sleep >= ends.left,
        wait=wait_fixed(every),
        sleep=pause,
    )
    try:
        found = retrying(probe)
    except RetryError as late:
        last = late.last_attempt.exception()
        because = f" ({last.args[0]})" if last else ""
        raise error(f"{what}: not within {deadline:g} s{because}", fix=fix) from last
    assert found is not None
    return found
