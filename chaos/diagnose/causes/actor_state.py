"""Actor state is expected back that nobody saved: fault tolerance brings back where actors are, not what they hold.

Ray's own record decides: an actor that was restarted ran ``__init__`` again, one that died with its node is gone. Where
Ray couldn't be asked, what the pods' logs say of dead actors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chaos.diagnose.case import Case, Cause
from chaos.estate.resource import Place, at

_DIED = re.compile(
    r"ActorDiedError|ActorUnavailableError|The actor died because its node has died|The actor is dead because"
)
_OF_RAY = "_ray_internal_"  # Ray's own, such as the supervisors of jobs
_BY_WILL = re.compile(r"ray\.kill|INTENDED|out of scope|OUT_OF_SCOPE|terminated by .*owner", re.IGNORECASE)


def actor_state(case: Case) -> Cause | None:
    """The cause, or None."""
    if not case.ft_effective:
        return None
    record = case.record
    if "actors" in record:
        evidence = [_place(case, a) for a in record["actors"] if _lost(a)]
    else:
        evidence = [line.place for line in case.lines([*case.heads, *case.workers], _DIED, most=1)]
    if not evidence:
        return None
    return Cause(
        "actor-state",
        "Actor state is expected back",
        "actors lost their process, and with it what they held in memory: fault tolerance doesn't save it",
        tuple(evidence[:5]),
        "keep the state outside of Ray and read it in __init__; set max_restarts so that the actor comes back at all; "
        "keep actors that matter off the head (num-cpus 0)",
    )


def _lost(actor: Mapping[str, Any]) -> bool:
    if str(actor.get("name") or "").startswith(_OF_RAY):
        return False
    if int(actor.get("num_restarts") or 0) > 0:
        return True
    # A driver's actors end with it, as they should: only one that was to outlive it is missed.
    return (
        actor.get("state") == "DEAD"
        and bool(actor.get("is_detached"))
        and not _BY_WILL.search(str(actor.get("death_cause")))
    )


def _place(case: Case, actor: Mapping[str, Any]) -> Place:
    name = actor.get("name") or actor.get("actor_id")
    shows = f"{actor.get('class_name')} {actor.get('state')}, restarted {actor.get('num_restarts') or 0} times"
    if reason := at(actor.get("death_cause"), "actor_died_error_context", "error_message"):
        shows += f": {' '.join(str(reason).split())[:160]}"
    return Place(
        case.snapshot.source, None, f"Ray cluster {case.cluster.namespace}/{case.cluster.name}", f"actor {name}", shows
    )
