"""Starts actors on the Ray node that is meant, for the scripts beside it."""

import time
from collections.abc import Callable
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

# Between two starts of an actor: the name of the one before is free again by then.
PAUSE = 1.0


def node_at(address: str) -> str:
    """The ID of the living Ray node at an address, which is its pod's."""
    for node in ray.nodes():
        if node["Alive"] and node["NodeManagerAddress"] == address:
            return str(node["NodeID"])
    raise LookupError(f"no living Ray node at {address}")


def start_at(address: str, start: Callable[[NodeAffinitySchedulingStrategy], Any]) -> Any:
    """Starts an actor with the strategy given until it is at the address, as its method ``node`` tells, and returns it.

    The strategy is soft, so that Ray can start the actor again elsewhere. In a young cluster, where a raylet doesn't know
    of the node yet, Ray takes another for the first start too.
    """
    node = node_at(address)
    while True:
        actor = start(NodeAffinitySchedulingStrategy(node, soft=True))
        if ray.get(actor.node.remote()) == node:
            return actor
        ray.kill(actor)
        time.sleep(PAUSE)
