"""Light pods for faults to act on: same network namespace, process and API mechanics as a Ray cluster's, seconds to start."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable
from typing import Any

from chaos.faults import redis_targets
from chaos.stack import kuberay, ray, redis
from chaos.stack.cluster import Cluster, Object
from chaos.stack.kuberay import Release
from chaos.waiting import until

_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
# One line, and another as soon as it has come back: there is always something under way.
_CLIENT = """
import socket, sys, time
stream = socket.create_connection((sys.argv[1], 7000), timeout=5)
stream.settimeout(None)
file = stream.makefile("rw")
while True:
    file.write("x\\n"); file.flush(); file.readline(); print("exchanged", flush=True); time.sleep(0.1)
"""


class Stage:
    """What one fault is built on. `close` ends what it started besides pods, which are their fixture's to remove."""

    def __init__(
        self, cluster: Cluster, namespace: str, image: str, operator: Release, start: Callable[..., Object]
    ) -> None:
        self.cluster = cluster
        self.operator = operator
        self.namespace = namespace
        self.pods: list[Object] = []
        self._image = image
        self._start = start
        self._jobs: list[str] = []
        self._rayclusters: list[str] = []
        self._rayjobs: list[str] = []
        self._clients: list[subprocess.Popen[bytes]] = []

    def pod(self, name: str) -> Object:
        """A pod that listens and is Ready, with a label that no other has."""
        self.pods.append(self._start(name, labels={"kuberay-chaos/on-stage": uuid.uuid4().hex[:8]}))
        return self.pods[-1]

    def traffic(self, source: Object, target: Object) -> None:
        """Keep one connection between two pods busy; returns when something has gone both ways."""
        argv = ["python3", "-c", _CLIENT, target["status"]["podIP"]]
        command = self.cluster.exec_command(self.namespace, source["metadata"]["name"], argv)
        client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._clients.append(client)
        assert client.stdout is not None
        assert client.stdout.readline() == b"exchanged\n"

    def job(self, name: str) -> Object:
        """A batch Job whose pod sleeps."""
        name = f"{name}-{uuid.uuid4().hex[:5]}"
        container = {"name": "main", "image": self._image, "imagePullPolicy": "IfNotPresent"}
        pod: dict[str, Any] = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container | {"command": ["sleep", "600"]}],
        }
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"template": {"spec": pod}},
        }
        self.cluster.create("jobs", self.namespace, body)
        self._jobs.append(name)
        return until(lambda: self.cluster.get("jobs", self.namespace, name), what=f"Job {name}", deadline=10)

    def raycluster(self, name: str) -> Object:
        """A Ray cluster without workers; whether Ray ever starts in it is no matter."""
        name = f"{name}-{uuid.uuid4().hex[:5]}"
        handle = ray.create_ray_cluster(
            self.cluster,
            self.namespace,
            name,
            ft=False,
            image=self._image,
            ray_version=self._image.rpartition(":")[2],
            workers=0,
        )
        self._rayclusters.append(name)
        return until(lambda: handle.get(self.cluster), what=f"RayCluster {name}", deadline=10)

    def rayjob(self, name: str) -> Object:
        """A RayJob that is suspended before it has a cluster: a real one's finalizer, and no pods."""
        name = f"{name}-{uuid.uuid4().hex[:5]}"
        job = ray.create_rayjob(
            self.cluster,
            self.namespace,
            name,
            ft=False,
            image=self._image,
            ray_version=self._image.rpartition(":")[2],
            entrypoint="true",
            ledger="/ledger/none.jsonl",
            spec={"suspend": True},
        )
        self._rayjobs.append(name)

        def suspended() -> Object | None:
            found = job.get(self.cluster)
            return found if found and found.get("status", {}).get("jobDeploymentStatus") == "Suspended" else None

        return until(suspended, what=f"RayJob {name} Suspended", deadline=60)

    def head(self, raycluster: Object) -> Object:
        """The Ray cluster's head pod, once it has a node."""
        handle = ray.RayClusterHandle(self.namespace, raycluster["metadata"]["name"], ft=False, workers=0)

        def placed() -> Object | None:
            head = handle.head_pod(self.cluster)
            return head if head and head["spec"].get("nodeName") else None

        return until(placed, what=f"the head of {handle.name}", deadline=60)

    def node(self, *, control_plane: bool = False, nth: int = 0) -> Object:
        """A node as the API server describes it: the control plane, or the nth worker."""
        nodes = self.cluster.list("nodes")
        return [node for node in nodes if (_CONTROL_PLANE in node["metadata"]["labels"]) == control_plane][nth]

    def unused_image(self) -> tuple[Object, str]:
        """The node that the operator isn't on, and the operator's image."""
        operator = kuberay.operator_pod(self.cluster)
        nodes = [self.node(nth=0), self.node(nth=1)]
        [elsewhere] = [node for node in nodes if node["metadata"]["name"] != operator["spec"]["nodeName"]]
        return elsewhere, operator["spec"]["containers"][0]["image"]

    def redis(self) -> Object:
        """The pod of the primary, once the members agree."""
        redis.wait_agreed(self.cluster)
        primary, _ = redis_targets.primary_and_replicas(self.cluster)
        return primary

    def replica(self) -> Object:
        """A replica's pod, once the members agree."""
        redis.wait_agreed(self.cluster)
        _, [replica, _] = redis_targets.primary_and_replicas(self.cluster)
        return replica

    def close(self) -> None:
        for client in self._clients:
            client.kill()
            client.wait()
            assert client.stdout is not None
            client.stdout.close()
        for name in self._jobs:
            self.cluster.delete("jobs", self.namespace, name)
        for name in self._rayjobs:
            self.cluster.delete("rayjobs", self.namespace, name)
        for name in self._rayclusters:
            self.cluster.delete("rayclusters", self.namespace, name)
