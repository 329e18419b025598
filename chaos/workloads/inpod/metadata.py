"""What the GCS remembers of a cluster: named actors, the key-value store, placement groups and nodes.

``--make`` first puts something there to be remembered: a value, and a detached placement group of a bundle on each of two
nodes. Prints one JSON line; exit code 0 only when everything could be read::

    {"ok": true, "actors": [NAME], "value": TEXT or null, "groups": {NAME: {"state", "nodes": [ID]}},
     "nodes": {ID: "head" or "worker"}}
"""

import argparse
import json
import os
import secrets
import sys
import threading
from typing import Any

import ray
from ray.experimental import internal_kv
from ray.util import list_named_actors, placement_group, placement_group_table

NAMESPACE = "chaos"
KEY = b"chaos-remembered"


def make(bundles: int, seconds: float) -> None:
    """Something to remember."""
    internal_kv._internal_kv_put(KEY, secrets.token_hex(8).encode(), overwrite=True)
    group = placement_group([{"CPU": 0.1}] * bundles, strategy="SPREAD", name="group", lifetime="detached")
    if not group.wait(seconds):
        raise TimeoutError("the placement group was not placed")


def look() -> dict[str, Any]:
    """What is remembered."""
    value = internal_kv._internal_kv_get(KEY)
    return {
        "actors": sorted(list_named_actors()),
        "value": None if value is None else value.decode(),
        "groups": {
            group["name"]: {"state": group["state"], "nodes": sorted(group["bundles_to_node_id"].values())}
            for group in placement_group_table().values()
            if group["state"] != "REMOVED"
        },
        "nodes": {
            node["NodeID"]: "head" if "node:__internal_head__" in node["Resources"] else "worker"
            for node in ray.nodes()
            if node["Alive"]
        },
    }


def main() -> None:
    """Parses the arguments, makes, looks and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--bundles", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    args = parser.parse_args()

    # The cluster may not answer at all, and nobody cleans up after a script that waits for it.
    deadline = threading.Timer(args.seconds, os._exit, [1])
    deadline.daemon = True
    deadline.start()

    ray.init(address="auto", namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    if args.make:
        make(args.bundles, args.seconds)
    sys.stdout.write(json.dumps({"ok": True, "error": None, **look()}) + "\n")


if __name__ == "__main__":
    main()
