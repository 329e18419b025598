"""No state that matters lives in an actor's memory alone: fault tolerance of the GCS doesn't save it.

Nothing in a manifest tells, so the user is asked.
"""

from __future__ import annotations

from chaos.audit.item import Answer, Inputs, Item, always, broken, holds, unknown
from chaos.estate.raycluster import RayCluster

_FIX = "keep it outside of Ray (a database, an object store), and read it again in the actor's __init__"


def judge(cluster: RayCluster, inputs: Inputs) -> Answer:
    """What the user says."""
    place = cluster.place(shows="--state-outside")
    match inputs.state_outside:
        case True:
            return holds("actors keep what matters outside of their memory, as was said", place)
        case False:
            return broken("state lives only in actors' memory, and is lost with their process", place, fix=_FIX)
        case _:
            return unknown(
                "whether state lives only in actors' memory can't be seen from here",
                place,
                fix="say it with --state-outside yes or no. If no: " + _FIX,
            )


ITEM = Item("actor-state", "No state lives only in actors' memory", judge, always)
