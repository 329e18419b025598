"""The causes, one a file, in the order in which they are looked for.

Each is a function from a case to the cause, or None. An earlier one hides a later one that it explains: without fault
tolerance a lost worker says nothing of a time-out, and with Redis out of reach nothing else can be told.
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.diagnose.case import Case, Cause
from chaos.diagnose.causes.actor_state import actor_state
from chaos.diagnose.causes.ft_not_applied import ft_not_applied
from chaos.diagnose.causes.redis_access import redis_access
from chaos.diagnose.causes.redis_single_point import redis_single_point
from chaos.diagnose.causes.worker_timeout import worker_timeout

CAUSES: tuple[tuple[Callable[[Case], Cause | None], bool], ...] = (
    # (cause, whether what it finds explains the later ones)
    (ft_not_applied, True),
    (redis_single_point, True),
    (redis_access, True),
    (worker_timeout, True),
    (actor_state, False),
)


def named(case: Case) -> list[Cause]:
    """What is wrong with a Ray cluster; nothing when nothing is."""
    found: list[Cause] = []
    for cause, explains_the_rest in CAUSES:
        if (seen := cause(case)) is not None:
            found.append(seen)
            if explains_the_rest:
                break
    return found
