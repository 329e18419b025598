"""Asks whether the Ray cluster works, as a user would find out: by using it.

It connects as a driver, then at the same time: puts a value into the internal key-value store and reads it back (which
reaches Redis), calls each named actor, runs a new task, and lists the living nodes. Each has a time-out of its own, and the
script ends within ``--seconds`` whatever hangs. Prints one JSON line; exit code 0 only when everything worked::

    {"ok": true, "actors": {NAME: {"pid", "born", "count", "node"}}, "nodes": [{"id", "address", "head"}],
     "task": {"node"}, "took": {STEP: seconds}, "error": null}
"""

import argparse
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

NAMESPACE = "chaos"
CLOCK = time.monotonic


class Steps:
    """Runs steps on threads of their own and keeps what they gave, how long they took and what went wrong."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self.took: dict[str, float] = {}
        self.errors: dict[str, str] = {}

    def run(self, steps: dict[str, Callable[[], Any]], seconds: float) -> None:
        """Runs the given steps at the same time and waits for all of them, ``seconds`` at most."""
        began = CLOCK()
        threads = {
            name: threading.Thread(target=self._step, args=(name, step), daemon=True) for name, step in steps.items()
        }
        for thread in threads.values():
            thread.start()
        for name, thread in threads.items():
            thread.join(max(0.0, began + seconds - CLOCK()))
            if thread.is_alive():
                self.errors[name] = f"no answer within {seconds:.1f} s"

    def _step(self, name: str, step: Callable[[], Any]) -> None:
        began = CLOCK()
        try:
            self.results[name] = step()
            self.took[name] = round(CLOCK() - began, 3)
        except Exception as error:
            self.errors[name] = f"{type(error).__name__}: {str(error).strip()[:300]}"


def connect() -> None:
    """Connects as a driver. Importing Ray is part of what it takes."""
    import ray  # noqa: PLC0415

    ray.init(address="auto", namespace=NAMESPACE, log_to_driver=False, logging_level="CRITICAL")


def key_value() -> None:
    """A value comes back from the store as it was put."""
    from ray.experimental import internal_kv  # noqa: PLC0415

    value = secrets.token_bytes(8)
    internal_kv._internal_kv_put(b"chaos-functional", value, overwrite=True)
    if internal_kv._internal_kv_get(b"chaos-functional") != value:
        raise RuntimeError("another value came back than was put")


def actor(name: str) -> Any:
    """One call of a named actor."""
    import ray  # noqa: PLC0415

    return ray.get(ray.get_actor(name).increment.remote())


def task() -> dict[str, str]:
    """A new task on some node that takes work."""
    import ray  # noqa: PLC0415

    def where() -> str:
        return str(ray.get_runtime_context().get_node_id())

    return {"node": ray.get(ray.remote(where).options(num_cpus=0.1, max_retries=0).remote())}


def nodes() -> list[dict[str, Any]]:
    """The nodes that Ray takes for alive."""
    import ray  # noqa: PLC0415

    return [
        {
            "id": node["NodeID"],
            "address": node["NodeManagerAddress"],
            "head": "node:__internal_head__" in node["Resources"],
        }
        for node in ray.nodes()
        if node["Alive"]
    ]


def main() -> None:
    """Parses the arguments, runs the steps, prints the line and exits without waiting for threads that hang."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actor", action="append", default=[], help="name of an actor to call; may be repeated")
    parser.add_argument("--seconds", type=float, default=15, help="for everything")
    parser.add_argument("--step-seconds", type=float, default=5, help="for what comes after the connection")
    args = parser.parse_args()

    end = CLOCK() + args.seconds
    steps = Steps()
    steps.run({"connect": connect}, args.seconds)
    if not steps.errors:
        calls: dict[str, Callable[[], Any]] = {"kv": key_value, "task": task, "nodes": nodes}
        for name in args.actor:
            calls[f"actor:{name}"] = partial(actor, name)
        steps.run(calls, min(args.step_seconds, end - CLOCK()))
    # Steps that hang may still end while this is printed: take what is there now.
    results, errors = dict(steps.results), dict(steps.errors)
    report = {
        "ok": not errors,
        "actors": {name: results[f"actor:{name}"] for name in args.actor if f"actor:{name}" in results},
        "nodes": results.get("nodes", []),
        "task": results.get("task"),
        "took": dict(steps.took),
        "error": "; ".join(f"{step}: {error}" for step, error in sorted(errors.items())) or None,
    }
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
    os._exit(0 if report["ok"] else 1)


if __name__ == "__main__":
    main()
