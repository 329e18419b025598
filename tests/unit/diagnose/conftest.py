"""A healthy cluster as a snapshot, of which tests alter a fact."""

import copy

import pytest

from chaos.diagnose.case import Case
from chaos.diagnose.causes import named
from chaos.estate.raycluster import ray_clusters
from chaos.snapshot.snapshot import LogOf, Snapshot

NS = "serving"
BORN = "2026-11-30T10:00:00Z"


def condition(kind, status="True", at="2026-11-30T10:00:40Z"):
    return {"type": kind, "status": status, "lastTransitionTime": at}


def pod(name, labels, *, namespace=NS, env=(), ready=True, born=BORN, container="ray", annotations=None):
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": labels,
            "annotations": annotations or {},
            "creationTimestamp": born,
        },
        "spec": {"nodeName": "n1", "containers": [{"name": container, "image": "ray:2.60.0", "env": list(env)}]},
        "status": {
            "phase": "Running",
            "conditions": [condition("Ready", str(ready))],
            "containerStatuses": [{"name": container, "restartCount": 0, "ready": ready}],
        },
    }


def ray_pod(name, node_type, **more):
    labels = {"ray.io/cluster": "models", "ray.io/node-type": node_type, "redis-client": "true"}
    return pod(name, labels, **more)


def restarted(obj, *, code=1, finished="2026-11-30T11:00:20Z", count=1):
    status = obj["status"]["containerStatuses"][0]
    status["restartCount"] = count
    status["lastState"] = {"terminated": {"exitCode": code, "finishedAt": finished, "reason": "Error"}}


class World:
    """Objects by resource, logs and Ray's record; everything may be changed before it is looked at."""

    def __init__(self):
        env = [
            {"name": "RAY_external_storage_namespace", "value": "uid-models"},
            {"name": "RAY_REDIS_ADDRESS", "value": "redis.redis:6379"},
            {"name": "REDIS_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "redis-auth", "key": "password"}}},
        ]
        timeout = [{"name": "RAY_gcs_rpc_server_reconnect_timeout_s", "value": "600"}]
        self.head = ray_pod("models-head-x", "head", env=env, annotations={"ray.io/ft-enabled": "true"})
        self.workers = [ray_pod(f"models-worker-{n}", "worker", env=copy.deepcopy(timeout)) for n in (0, 1)]
        self.redis = [
            pod(f"redis-{n}", {"app": "redis"}, namespace="redis", born="2026-11-29T10:00:00Z") for n in range(3)
        ]
        self.cluster = {
            "metadata": {
                "name": "models",
                "namespace": NS,
                "uid": "uid-models",
                "creationTimestamp": BORN,
                "annotations": {},
            },
            "spec": {
                "rayVersion": "2.60.0",
                "gcsFaultToleranceOptions": {
                    "redisAddress": "redis.redis:6379",
                    "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "redis-auth", "key": "password"}}},
                },
                "headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray", "image": "ray:2.60.0"}]}}},
                "workerGroupSpecs": [],
            },
            "status": {"state": "ready", "conditions": [condition("RayClusterProvisioned")]},
        }
        self.service = {
            "metadata": {"name": "redis", "namespace": "redis"},
            "spec": {"selector": {"app": "redis"}, "ports": [{"port": 6379}]},
        }
        self.stateful = {
            "metadata": {"name": "redis", "namespace": "redis"},
            "spec": {
                "replicas": 3,
                "volumeClaimTemplates": [{}],
                "template": {
                    "metadata": {"labels": {"app": "redis"}},
                    "spec": {
                        "containers": [{"args": ["--appendonly yes", "--replicaof redis-0 6379", "--requirepass $P"]}]
                    },
                },
            },
        }
        self.policy = {
            "metadata": {"name": "redis", "namespace": "redis"},
            "spec": {
                "podSelector": {"matchLabels": {"app": "redis"}},
                "ingress": [
                    {"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"redis-client": "true"}}}]}
                ],
            },
        }
        self.objects = {"events": [], "jobs": [], "rayjobs": []}
        self.logs = {}
        self.ray = {(NS, "models"): {"jobs": [], "actors": []}}

    def log(self, obj, *lines, previous=False):
        metadata = obj["metadata"]
        of = LogOf(metadata["namespace"], metadata["name"], obj["spec"]["containers"][0]["name"], previous)
        self.logs[of] = "\n".join(lines).encode()

    def snapshot(self):
        objects = {
            "pods": [p for p in [self.head, *self.workers, *self.redis] if p],
            "rayclusters": [self.cluster] if self.cluster else [],
            "services": [self.service] if self.service else [],
            "statefulsets": [self.stateful],
            "networkpolicies": [self.policy],
            "deployments": [],
            "namespaces": [{"metadata": {"name": n, "labels": {}}} for n in (NS, "redis")],
        }
        for resource, more in self.objects.items():
            objects[resource] = objects.get(resource, []) + more
        return Snapshot("cluster test", BORN, objects, self.logs, self.ray)

    def crash_loop(self, *lines):
        """The head doesn't come up, and says why."""
        self.head["status"]["conditions"] = [condition("Ready", "False")]
        restarted(self.head, count=4)
        self.log(self.head, "starting", *lines, previous=True)

    def causes(self):
        snapshot = self.snapshot()
        estate = snapshot.estate()
        [cluster] = ray_clusters(estate)
        return named(Case(cluster, estate, snapshot))


@pytest.fixture
def world():
    return World()
