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
from placed import start_at  # type: ignore[import-not-found] # both are mounted into the pod

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
        return {"pid": os.getpid(), "born": self.born, "count": self.count, "node": self.node()}

    def node(self) -> str:
        """The ID of the Ray node that it is on."""
        return str(ray.get_runtime_context().get_node_id())


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

    def start(strategy: Any = "DEFAULT") -> Any:
        return ray.remote(Counter).options(**options, scheduling_strategy=strategy).remote(args.state)

    actor = start() if args.at is None else start_at(args.at, start)
    sys.stdout.write(json.dumps(ray.get(actor.increment.remote())) + "\n")


if __name__ == "__main__":
    main()
