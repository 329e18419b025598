"""The checklist on the manifests that the harness itself applies: realistic, and what is wrong with them is known."""

from pathlib import Path

from chaos.audit.item import Inputs
from chaos.audit.judge import findings
from chaos.estate.estate import Estate
from chaos.estate.manifests import parse
from chaos.estate.raycluster import ray_clusters

MANIFESTS = Path(__file__).parents[3] / "manifests"
NAMESPACE = b"""
apiVersion: v1
kind: Namespace
metadata: {name: mine, labels: {kuberay-chaos/owned: "true"}}
"""


def judged(*names, address):
    values = {
        "NAMESPACE": "mine",
        "NAME": "ray",
        "IMAGE": "docker.io/rayproject/ray:2.60.0",
        "RAY_VERSION": "2.60.0",
        "WORKERS": "2",
        "REDIS_ADDRESS": address,
        "ENTRYPOINT": "python x.py",
        "LEDGER": "/ledger/x",
    }
    resources = parse(NAMESPACE, "ns.yaml")
    for name in names:
        text = (MANIFESTS / name).read_text()
        for key, value in values.items():
            text = text.replace(f"${{{key}}}", value)
        resources += parse(text.encode(), name)
    estate = Estate(tuple(resources), kuberay="1.6.2")
    inputs = Inputs(estate, tuple(ray_clusters(estate)), (23.0, "run"), True)
    return {f.item: f.answer for f in findings(inputs) if str(f.answer.outcome) != "holds"}


def test_the_highly_available_redis_passes_and_the_head_is_that_of_a_test_rig():
    found = judged("raycluster.yaml", "redis-ha.yaml", address="sentinel.kuberay-chaos-redis.svc.cluster.local:26379")
    assert {item: str(answer.outcome) for item, answer in found.items()} == {
        "head-placement": "broken",
        "redis-cleanup": "unknown",  # the operator's Deployment is KubeRay's manifest
    }
    assert "priority class" in found["head-placement"].reason


def test_the_single_redis_is_the_single_point_of_failure():
    found = judged("raycluster.yaml", "redis-single.yaml", address="redis-single.mine.svc.cluster.local:6379")
    assert "single server" in found["redis-availability"].reason
    assert "lost with the pod" in found["redis-availability"].reason
    assert set(found) == {"head-placement", "redis-cleanup", "redis-availability"}


def test_two_shards_are_what_ray_refuses():
    found = judged("raycluster.yaml", "redis-sharded.yaml", address="redis-sharded.mine.svc.cluster.local:6379")
    assert "cluster mode" in found["ft-requirements"].reason


def test_a_rayjob_is_judged_by_the_cluster_that_it_describes():
    found = judged("rayjob.yaml", "redis-ha.yaml", address="sentinel.kuberay-chaos-redis.svc.cluster.local:26379")
    assert set(found) == {"head-placement", "redis-cleanup"}
