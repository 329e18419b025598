"""Asking Redis itself, from where Ray asks it: inside the head's container, with the address and password that are there.

The password never leaves the pod. Only commands that read are sent, and SCAN instead of KEYS, so that a big Redis is not
held up. `SCRIPT` runs in the pod's Python, which needs nothing but its standard library.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chaos.estate.estate import Estate
from chaos.estate.policies import matches
from chaos.estate.raycluster import RayCluster
from chaos.history.objects import is_ready
from chaos.stack.cluster import Cluster

SCRIPT = Path(__file__).with_name("inpod") / "redis_look.py"
_SECONDS = 60.0


def look(cluster: Cluster, ray_cluster: RayCluster, estate: Estate) -> dict[str, Any]:
    """What Redis says: ``open``, ``shards``, ``replicas``, ``aof``, ``snapshots``, ``namespaces``; or ``error``."""
    wanted = {"ray.io/cluster": ray_cluster.name, "ray.io/node-type": "head"}
    heads = [
        pod
        for pod in estate.of("Pod")
        if pod.namespace == ray_cluster.namespace and matches({"matchLabels": wanted}, pod.labels) and is_ready(pod.obj)
    ]
    if not heads:
        return {"error": "no head is Ready, and Redis is asked from there"}
    container = str(heads[0].get("spec", "containers", 0, "name"))
    done = cluster.exec(
        heads[0].namespace,
        heads[0].name,
        ["python", "-"],
        container=container,
        stdin=SCRIPT.read_bytes(),
        timeout=_SECONDS,
    )
    try:
        said: dict[str, Any] = json.loads(done.text)
    except ValueError:
        return {"error": (done.error_text or done.text).strip()[-300:] or "no answer"}
    return said
