"""A driver that owns an actor: both are there only while this process is. Meant to be submitted as a Ray job.

Prints the actor's first answer as a JSON line, then stays for ``--seconds``.
"""

import argparse
import json
import os
import sys
import time

import ray

NAMESPACE = "chaos"


class Owned:
    """An actor without a life of its own: not detached, so it ends with its driver."""

    def __init__(self) -> None:
        self.count = 0

    def increment(self) -> dict[str, object]:
        """Counts one call and says who counted."""
        self.count += 1
        node = ray.get_runtime_context().get_node_id()
        return {"pid": os.getpid(), "count": self.count, "node": node}


def main() -> None:
    """Creates the actor and keeps it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="owned")
    parser.add_argument("--seconds", type=float, default=3600)
    args = parser.parse_args()
    ray.init(address="auto", namespace=NAMESPACE)
    actor = ray.remote(Owned).options(name=args.name, num_cpus=0.1).remote()
    sys.stdout.write(json.dumps(ray.get(actor.increment.remote())) + "\n")
    sys.stdout.flush()
    time.sleep(args.seconds)


if __name__ == "__main__":
    main()
