"""The checklist on manifests: a set-up where every item holds, and one fact altered at a time, which must name its item alone."""

import json
from pathlib import Path

import pytest

from chaos.audit.item import Inputs
from chaos.audit.judge import exit_code, findings
from chaos.estate.estate import Estate
from chaos.estate.manifests import parse
from chaos.estate.raycluster import ray_clusters

HEALTHY = (Path(__file__).parent / "healthy.yaml").read_text()
RECOVERY = (25.0, "results/x/verdicts.json")


def judged(text=HEALTHY, *, recovery=RECOVERY, outside=True, redis=None):
    estate = Estate(tuple(parse(text.encode(), "all.yaml")))
    inputs = Inputs(estate, tuple(ray_clusters(estate)), recovery, outside, redis)
    return findings(inputs)


def outcomes(found):
    return {f.item: str(f.answer.outcome) for f in found if str(f.answer.outcome) != "holds"}


def altered(*changes):
    text = HEALTHY
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_a_healthy_set_up_holds_in_every_item():
    found = judged()
    assert outcomes(found) == {}
    assert len(found) == 9
    assert exit_code(found) == 0


SECRET_REF = """
    redisPassword:
      valueFrom:
        secretKeyRef: {name: redis-auth, key: password}
"""
FAULTS = {
    "an operator from before the field": (
        [("operator:v1.6.2", "operator:v1.2.2")],
        "ft-requirements",
        "pruned in silence",
    ),
    "an old Ray": (
        [
            (
                "image: rayproject/ray:2.46.0-py311\n          resources",
                "image: rayproject/ray:1.13.0\n          resources",
            )
        ],
        "ft-requirements",
        "Ray 1.13.0 is older",
    ),
    "a user name, with a Ray that has none": (
        [
            (
                "image: rayproject/ray:2.46.0-py311\n          resources",
                "image: rayproject/ray:2.40.0\n          resources",
            ),
            ("    redisPassword:", "    redisUsername: {value: ray}\n    redisPassword:"),
        ],
        "ft-requirements",
        "user name",
    ),
    "Redis in cluster mode": (
        [("appendonly yes", "appendonly yes\n    cluster-enabled yes")],
        "ft-requirements",
        "shards",
    ),
    "a single Redis": ([("  replicas: 3", "  replicas: 1")], "redis-availability", "single server"),
    "strangers, not replicas": (
        [(" --replicaof redis-0.redis 6379", "")],
        "redis-availability",
        "nothing tells that they replicate",
    ),
    "no volume": (
        [("  volumeClaimTemplates:\n  - metadata: {name: data}\n", "  volumeless:\n  - metadata: {name: data}\n")],
        "redis-availability",
        "lost with the pod",
    ),
    "persistence off": ([("appendonly yes", 'appendonly no\n    save ""')], "redis-availability", "turned off"),
    "no append-only file": ([("    appendonly yes\n", "")], "redis-availability", "snapshots"),
    "no password": ([(SECRET_REF, "\n")], "redis-auth", "no password"),
    "a password in clear text": (
        [(SECRET_REF, "\n    redisPassword:\n      value: hunter2\n")],
        "redis-auth",
        "clear text",
    ),
    "a server that asks for none": (
        [(' --requirepass "$REDIS_AUTH"', "")],
        "redis-auth",
        "nothing in Redis' set-up",
    ),
    "no policy": ([("kind: NetworkPolicy", "kind: NetworkPolice")], "network-policy", "no network policy"),
    "a policy for other pods": (
        [("  podSelector:\n    matchLabels: {app: redis}", "  podSelector:\n    matchLabels: {app: web}")],
        "network-policy",
        "no network policy",
    ),
    "a policy open to all": (
        [
            (
                "    - namespaceSelector:\n        matchLabels: {team: serving}\n      podSelector:\n"
                '        matchLabels: {redis-client: "true"}\n',
                "    - namespaceSelector: {}\n",
            )
        ],
        "network-policy",
        "every pod",
    ),
    "a policy that shuts the head out": (
        [('matchLabels: {redis-client: "true"}', 'matchLabels: {redis-client: "yes"}')],
        "network-policy",
        "don't let the head and the Job",
    ),
    "a policy that shuts the clean-up Job out": (
        [('matchLabels: {redis-client: "true"}', "matchLabels: {ray.io/node-type: head}")],
        "network-policy",
        "the Job that cleans Redis up",
    ),
    "a policy on another port": (
        [("    - port: 6379\n---\n# Source: platform/templates/ray", "    - port: 80\n---\n# Ray")],
        "network-policy",
        "don't let the head and the Job",
    ),
    "the head on spot": (
        [("nodeSelector: {pool: on-demand}", "nodeSelector: {karpenter.sh/capacity-type: spot}")],
        "head-placement",
        "asks for spot",
    ),
    "the head tolerates everything": (
        [("nodeSelector: {pool: on-demand}", "tolerations: [{operator: Exists}]")],
        "head-placement",
        "tolerates spot",
    ),
    "the head anywhere": ([("        nodeSelector: {pool: on-demand}\n", "")], "head-placement", "which nodes"),
    "no priority": ([("        priorityClassName: ray-head\n", "")], "head-placement", "priority class"),
    "burstable": (
        [('requests: {cpu: "2", memory: 8Gi}', 'requests: {cpu: "2", memory: 4Gi}')],
        "head-placement",
        "Burstable",
    ),
    "best effort": (
        [
            ('            limits: {cpu: "2", memory: 8Gi}\n', ""),
            ('            requests: {cpu: "2", memory: 8Gi}\n', "            claims: []\n"),
        ],
        "head-placement",
        "BestEffort",
    ),
    "work on the head": ([('num-cpus: "0"', 'num-cpus: "4"')], "head-placement", "tasks and actors on the head"),
    "a time-out below the recovery": ([('value: "600"', 'value: "15"')], "head-recovery", "less than that"),
    "a time-out near the recovery": ([('value: "600"', 'value: "60"')], "head-recovery", "less than 3 times"),
    "a time-out that is no number": ([('value: "600"', 'value: "ten minutes"')], "head-recovery", "plain number"),
    "no clean-up": (
        [
            ("name: ENABLE_PROBES_INJECTION", "name: ENABLE_GCS_FT_REDIS_CLEANUP"),
            ('          value: "true"', '          value: "False"'),
        ],
        "redis-cleanup",
        "leaves the keys",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_names_its_item_alone(fault):
    changes, item, words = FAULTS[fault]
    found = judged(altered(*changes))
    assert list(outcomes(found)) == [item]
    [named] = [f for f in found if f.item == item]
    assert words in named.answer.reason
    assert named.answer.fix
    assert named.answer.evidence
    assert all(place.line is not None for place in named.answer.evidence if place.source == "all.yaml")


def test_evidence_is_the_line_that_says_it():
    [named] = [f for f in judged(altered(('value: "600"', 'value: "15"'))) if f.item == "head-recovery"]
    [place] = [p for p in named.answer.evidence if p.source == "all.yaml"]
    line = HEALTHY.splitlines()[place.line - 1]
    assert "RAY_gcs_rpc_server_reconnect_timeout_s" in line
    assert place.field == "spec.workerGroupSpecs[0].template.spec.containers[0].env[0]"


def test_quantities_are_compared_by_value():
    assert (
        outcomes(judged(altered(('requests: {cpu: "2", memory: 8Gi}', "requests: {cpu: 2000m, memory: 8192Mi}")))) == {}
    )


def test_without_fault_tolerance_only_that_is_said_of_redis_and_recovery():
    found = judged(HEALTHY.replace("gcsFaultToleranceOptions:", "somethingElse:"))
    assert outcomes(found) == {"ft-requirements": "broken"}
    assert {f.item for f in found} == {"ft-requirements", "head-placement", "actor-state"}


def test_the_annotation_form_is_read_as_well():
    text = altered(
        ("  name: models\n", '  name: models\n  annotations: {ray.io/ft-enabled: "true"}\n'),
        ("gcsFaultToleranceOptions:", "unused:"),
        (
            "        - name: ray-head\n",
            "        - name: ray-head\n          env:\n"
            "          - {name: RAY_REDIS_ADDRESS, value: 'redis.redis:6379'}\n"
            "          - {name: REDIS_PASSWORD, valueFrom: {secretKeyRef: {name: redis-auth, key: password}}}\n",
        ),
    )
    assert outcomes(judged(text)) == {}


def test_the_address_alone_is_refused():
    text = altered(
        ("gcsFaultToleranceOptions:", "unused:"),
        (
            "        - name: ray-head\n",
            "        - name: ray-head\n          env:\n"
            "          - {name: RAY_REDIS_ADDRESS, value: 'redis.redis:6379'}\n"
            "          - {name: REDIS_PASSWORD, valueFrom: {secretKeyRef: {name: redis-auth, key: password}}}\n",
        ),
    )
    found = judged(text)
    assert outcomes(found) == {"ft-requirements": "broken"}


def test_what_was_applied_and_is_not_there_was_pruned():
    applied = json.dumps({"spec": {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}})
    text = altered(
        (
            "  name: models\n",
            f"  name: models\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: '{applied}'\n",
        ),
        ("gcsFaultToleranceOptions:\n    redisAddress", "gone:\n    redisAddress"),
    )
    [named] = [f for f in judged(text) if f.item == "ft-requirements"]
    assert "pruned in silence" in named.answer.reason


def test_two_clusters_with_one_key_namespace():
    one = altered(("    redisPassword:", "    externalStorageNamespace: shared\n    redisPassword:"))
    ray = one[one.index("# Source: platform/templates/raycluster.yaml") :]
    assert outcomes(judged(one)) == {}
    found = judged(one + "---\n" + ray.replace("name: models", "name: others"))
    assert outcomes(found) == {"key-namespace": "broken"}
    assert len([f for f in found if str(f.answer.outcome) == "broken"]) == 2


def test_questions_left_open_are_unknown():
    found = judged(recovery=None, outside=None)
    assert outcomes(found) == {"head-recovery": "unknown", "actor-state": "unknown"}
    assert exit_code(found) == 2
    assert outcomes(judged(outside=False)) == {"actor-state": "broken"}
    assert exit_code(judged(outside=False)) == 1


def test_what_redis_says_of_itself():
    subject = "RayCluster serving/models"
    said = {"open": False, "shards": 1, "replicas": 2, "aof": True, "snapshots": False, "namespaces": {}}
    assert outcomes(judged(redis={subject: said})) == {}
    for change, item in (
        ({"open": True}, "redis-auth"),
        ({"shards": 2}, "ft-requirements"),
        ({"replicas": 0}, "redis-availability"),
        ({"aof": False}, "redis-availability"),
        ({"namespaces": {"gone": 7}}, "leftover-keys"),
    ):
        assert outcomes(judged(redis={subject: said | change})) == {item: "broken"}
    assert outcomes(judged(redis={subject: {"error": "no head is Ready"}})) == {"leftover-keys": "unknown"}


def test_rayjobs_and_rayservices_are_judged_too():
    ray = HEALTHY[HEALTHY.index("# Source: platform/templates/raycluster.yaml") :]
    spec = ray[ray.index("spec:\n") + len("spec:\n") :]
    for kind, field in (("RayJob", "rayClusterSpec"), ("RayService", "rayClusterConfig")):
        body = "".join(f"  {line}\n" for line in spec.splitlines())
        text = HEALTHY.replace(
            ray,
            f"apiVersion: ray.io/v1\nkind: {kind}\nmetadata: {{name: x, namespace: serving}}\nspec:\n  {field}:\n{body}",
        )
        found = judged(text)
        assert outcomes(found) == {}
        assert {f.subject for f in found} == {f"{kind} serving/x"}


def test_an_object_of_the_wrong_form_is_unknown_and_no_crash():
    found = judged(
        altered(
            ("          env:\n          - name: RAY_gcs", "          env:\n          - 7\n          - name: RAY_gcs")
        )
    )
    assert outcomes(found) == {}
    text = HEALTHY.replace("  workerGroupSpecs:\n  - groupName", "  workerGroupSpecs: 3\n  more:\n  - groupName")
    assert set(outcomes(judged(text)).values()) == {"unknown"}
