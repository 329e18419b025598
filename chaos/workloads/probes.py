"""Runs the scripts of ``inpod/`` in a Ray cluster's head pod and reads their answers.

A probe's failure is an answer: what can't be reached is reported, not raised. Starting a workload, on the other hand,
is part of an experiment's set-up and raises when it fails.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from chaos.errors import NoSteadyState
from chaos.process import Executed
from chaos.stack.cluster import Cluster, Object
from chaos.stack.ray import RayClusterHandle, ray_container
from chaos.workloads import MOUNT

# What exec itself takes, beyond what a script allows itself.
_EXEC_SECONDS = 5.0

Answer = dict[str, Any]


def functional(
    cluster: Cluster, handle: RayClusterHandle, *, actors: Sequence[str] = ("counter",), seconds: float = 15.0
) -> Answer:
    """Whether the cluster works; the answer of ``inpod/functional.py``, with ``ok`` and ``error`` in any case.

    Every call counts one up in each of the named actors.
    """
    pod = handle.head_pod(cluster)
    if pod is None:
        return {"ok": False, "error": "there is no head pod"}
    named = [argument for actor in actors for argument in ("--actor", actor)]
    executed = _run(cluster, pod, "functional.py", [*named, f"--seconds={seconds:g}"], seconds)
    answer = _last_line(executed)
    if answer is None:
        return {"ok": False, "error": _complaint(executed)}
    return answer


def metadata(cluster: Cluster, handle: RayClusterHandle, *, make: bool = False, seconds: float = 20.0) -> Answer:
    """What the GCS remembers; the answer of ``inpod/metadata.py``. With ``make`` something to remember is put there first."""
    pod = handle.head_pod(cluster)
    if pod is None:
        return {"ok": False, "error": "there is no head pod"}
    executed = _run(cluster, pod, "metadata.py", [*(["--make"] if make else []), f"--seconds={seconds:g}"], seconds)
    return _last_line(executed) or {"ok": False, "error": _complaint(executed)}


def start_counter(
    cluster: Cluster,
    handle: RayClusterHandle,
    *,
    name: str = "counter",
    at: Object | None = None,
    max_restarts: int = -1,
    state: str = "",
    seconds: float = 30.0,
) -> Answer:
    """Starts a detached counter actor, on the given pod's Ray node or anywhere that takes work; its first answer.

    ``max_restarts`` is Ray's: -1 for ever, 0 never. ``state`` is the file, as the pods see it, in which it keeps its count;
    without one it is in memory alone. Raises `NoSteadyState`.
    """
    arguments = [f"--name={name}", f"--max-restarts={max_restarts}", f"--seconds={seconds:g}"]
    arguments += [f"--state={state}"] if state else []
    if at is not None:
        arguments.append(f"--at={at['status']['podIP']}")
        if at["metadata"]["labels"]["ray.io/node-type"] == "head":
            arguments.append("--num-cpus=0")
    executed = _run(cluster, _head(cluster, handle), "start_counter.py", arguments, seconds)
    answer = _last_line(executed)
    if answer is None or not executed.ok:
        raise NoSteadyState(f"the actor {name} could not be started: {_complaint(executed)}")
    return answer


def start_chatter(cluster: Cluster, handle: RayClusterHandle, *, seconds: float = 30.0) -> None:
    """Starts an actor on each worker that writes to the GCS every second. Raises `NoSteadyState`."""
    arguments = [f"--at={pod['status']['podIP']}" for pod in handle.worker_pods(cluster)]
    executed = _run(
        cluster, _head(cluster, handle), "start_chatter.py", [*arguments, f"--seconds={seconds:g}"], seconds
    )
    if not executed.ok:
        raise NoSteadyState(f"no GCS traffic in {handle.namespace}: {_complaint(executed)}")


def ask_for_workers(cluster: Cluster, handle: RayClusterHandle, count: int, *, seconds: float = 30.0) -> Answer:
    """Asks the autoscaler for so many workers in all, by the CPU that each has."""
    pod = handle.head_pod(cluster)
    if pod is None:
        return {"ok": False, "error": "there is no head pod"}
    executed = _run(cluster, pod, "request_workers.py", [str(count), f"--seconds={seconds:g}"], seconds)
    return {"ok": executed.ok, "error": None if executed.ok else _complaint(executed)}


def submit_driver(
    cluster: Cluster, handle: RayClusterHandle, *, submission_id: str, name: str = "owned", seconds: float = 30.0
) -> None:
    """Submits ``inpod/driver.py`` as a Ray job, which runs on the head. Returns when Ray took the job.

    Raises `NoSteadyState`.
    """
    argv = ["ray", "job", "submit", "--address=http://127.0.0.1:8265", f"--submission-id={submission_id}", "--no-wait"]
    argv += ["--", "python", f"{MOUNT}/driver.py", f"--name={name}"]
    executed = _exec(cluster, _head(cluster, handle), argv, seconds)
    if not executed.ok:
        raise NoSteadyState(f"Ray did not take the job {submission_id}: {_complaint(executed)}")


def _head(cluster: Cluster, handle: RayClusterHandle) -> Object:
    pod = handle.head_pod(cluster)
    if pod is None:
        raise NoSteadyState(f"{handle.namespace}/{handle.name} has no head pod")
    return pod


def _run(cluster: Cluster, pod: Object, script: str, arguments: Sequence[str], seconds: float) -> Executed:
    """Runs a script that ends by itself within ``seconds``."""
    return _exec(cluster, pod, ["python", f"{MOUNT}/{script}", *arguments], seconds + _EXEC_SECONDS)


def _exec(cluster: Cluster, pod: Object, argv: Sequence[str], timeout: float) -> Executed:
    where = pod["metadata"]
    return cluster.exec(where["namespace"], where["name"], argv, container=ray_container(pod), timeout=timeout)


def _last_line(executed: Executed) -> Answer | None:
    """The last line of output as JSON; None when it isn't a JSON object."""
    lines = executed.stdout.splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return cast(Answer, answer) if isinstance(answer, dict) else None


def _complaint(executed: Executed) -> str:
    said = executed.stderr.decode(errors="replace").strip().splitlines()
    ended = "no end was seen" if executed.code is None else f"exit code {executed.code}"
    return f"{ended}: {said[-1][:300]}" if said else ended
