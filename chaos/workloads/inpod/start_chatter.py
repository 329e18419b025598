"""Creates detached actors that write to the GCS once a second for as long as they live, each at an address that is given.

A process notices that the GCS is gone only while it asks it for something: without traffic its time-out may never run out.
Prints a JSON line of their names when each has written once.
"""

import argparse
import json
import os
import sys
import threading
import time
from functools import partial
from typing import Any

import ray
from placed import start_at  # type: ignore[import-not-found] # both are mounted into the pod
from ray.experimental import internal_kv

NAMESPACE = "chaos"
PAUSE = 1.0


class Chatter:
    """Puts a value into the GCS's key-value store, again and again, on a thread of its own."""

    def __init__(self) -> None:
        self.written = threading.Event()
        threading.Thread(target=self.write, daemon=True).start()

    def write(self) -> None:
        """A write that fails or hangs is the outage that this is to be in; the next one is tried when it returns."""
        while True:
            try:
                internal_kv._internal_kv_put(b"chaos-chatter", b"x", overwrite=True)
                self.written.set()
            except Exception as error:
                print(f"write failed: {error}", file=sys.stderr)  # noqa: T201 - into the actor's log
            time.sleep(PAUSE)

    def node(self) -> str:
        """The ID of the Ray node that it is on."""
        return str(ray.get_runtime_context().get_node_id())

    def wrote(self, seconds: float) -> bool:
        """Whether it has written by then."""
        return self.written.wait(seconds)


def start(name: str, strategy: Any) -> Any:
    """Starts a chatter that Ray starts again for ever."""
    options = {"name": name, "lifetime": "detached", "num_cpus": 0.1, "max_restarts": -1}
    return ray.remote(Chatter).options(**options, scheduling_strategy=strategy).remote()


def main() -> None:
    """Parses the arguments and creates the actors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", action="append", default=[], help="address of a node to start on; may be repeated")
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()

    deadline = threading.Timer(args.seconds, os._exit, [1])
    deadline.daemon = True
    deadline.start()

    ray.init(address="auto", namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    names = [f"chatter-{number}" for number in range(len(args.at))]
    actors = [start_at(address, partial(start, name)) for name, address in zip(names, args.at, strict=True)]
    if not all(ray.get([actor.wrote.remote(args.seconds) for actor in actors])):
        sys.exit(1)
    sys.stdout.write(json.dumps({"chatters": names}) + "\n")


if __name__ == "__main__":
    main()
