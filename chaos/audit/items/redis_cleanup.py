"""The operator cleans Redis up when a cluster is deleted."""

from __future__ import annotations

from chaos.audit.item import Answer, Inputs, Item, broken, holds, on_redis, unknown
from chaos.estate.estate import env_of
from chaos.estate.raycluster import RayCluster
from chaos.estate.resource import Step

_SWITCH = "ENABLE_GCS_FT_REDIS_CLEANUP"


def judge(_: RayCluster, inputs: Inputs) -> Answer:
    """The operator's switch, which is on unless somebody turned it off."""
    if not inputs.estate.operators:
        return unknown("the operator's Deployment isn't among the objects", fix="include it, or audit the live cluster")
    for operator in inputs.estate.operators:
        for number, container in enumerate(operator.get("spec", "template", "spec", "containers") or []):
            found = env_of(container, _SWITCH)
            if found and str(found[1].get("value", "")).lower() == "false":
                path: tuple[Step, ...] = ("spec", "template", "spec", "containers", number, "env", found[0])
                return broken(
                    "the operator leaves the keys of deleted clusters in Redis",
                    operator.place(*path),
                    fix=f"take {_SWITCH}=false away; clusters that were made meanwhile have no finalizer and need it by hand",
                )
    operator = inputs.estate.operators[0]
    return holds("the operator cleans up after deleted clusters", operator.place("spec", shows=f"no {_SWITCH}=false"))


ITEM = Item("redis-cleanup", "Redis is cleaned up when a cluster is deleted", judge, on_redis)
