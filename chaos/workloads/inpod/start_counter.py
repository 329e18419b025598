"""Creates one detached, named actor that counts its calls, and prints its first answer as a JSON line.

Its answers tell a process that lived on (same ``pid`` and ``born``, ``count`` goes on) from one that was started again.
With ``--state`` it keeps its count in a file, outside of all that Ray has.
Exit code 0 only when the actor answered.
"""

import argparse
import json
import os
import secrets
import sys
import threading
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

NAMESPACE = "chaos"


class Counter:
    """State that lives in one process's memory and nowhere else, unless it is given a file for it."""

    def __init__(self, state: str | None) -> None:
        self.state = Path(state) if state else None
        self.count = int(self.state.read_text()) if self.state and self.state.exists() else 0
        self.born = secrets.token_hex(8)

    def increment(self) -> dict[str, Any]:
        """Counts one call, keeps the count where it is kept, and says who counted."""
        self.count += 1
        if self.state:
            whole = self.state.with_suffix(".new")
            whole.write_text(str(self.count))
            whole.replace(self.state)
        node = ray.get_runtime_context().get_node_id()
        return {"pid": os.getpid(), "born": self.born, "count": self.count, "node": node}


def node_at(address: str) -> str:
    """The ID of the living Ray node at an address, which is its pod's."""
    for node in ray.nodes():
        if node["Alive"] and node["NodeManagerAddress"] == address:
            return str(node["NodeID"])
    raise LookupError(f"no living Ray node at {address}")


def main() -> None:
    """Parses the arguments and creates the actor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="counter")
    parser.add_argument("--at", help="address of the node to start on; any other will do for a restart")
    parser.add_argument("--num-cpus", type=float, default=0.1, help="0 to fit on a head that takes no work")
    parser.add_argument("--max-restarts", type=int, default=-1)
    parser.add_argument("--state", help="the file in which it keeps its count")
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()

    # The cluster may not answer at all, and nobody cleans up after a script that waits for it.
    deadline = threading.Timer(args.seconds, os._exit, [1])
    deadline.daemon = True
    deadline.start()

    ray.init(address="auto", namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    options: dict[str, Any] = {
        "name": args.name,
        "lifetime": "detached",
        "num_cpus": args.num_cpus,
        "max_restarts": args.max_restarts,
        # A call is made once: a count of two for one call would look like a life that went on.
        "max_task_retries": 0,
    }
    if args.at is not None:
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node_at(args.at), soft=True)
    actor = ray.remote(Counter).options(**options).remote(args.state)
    sys.stdout.write(json.dumps(ray.get(actor.increment.remote())) + "\n")


if __name__ == "__main__":
    main()
