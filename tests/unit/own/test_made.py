"""What the lab makes when the user gave a manifest: theirs in the place of ours, and of an arm's own what the arm asks for."""

import re

import pytest

from chaos.stack import ray, redis

IMAGE, RAY = "docker.io/rayproject/ray:2.60.0", "2.60.0"
TIMEOUT = "RAY_gcs_rpc_server_reconnect_timeout_s"


class FakeCluster:
    def __init__(self):
        self.created, self.applied = [], []

    def create(self, resource, namespace, body):
        self.created.append((resource, namespace, body))
        return body

    def apply(self, documents):
        self.applied += documents


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def make(own, cluster):
    def call(**more):
        handle = ray.create_ray_cluster(
            cluster, "ns", "ray", image=IMAGE, ray_version=RAY, own=own("RayCluster"), **{"ft": True, **more}
        )
        return handle, cluster.created[-1][2]

    return call


@pytest.fixture
def make_job(own, cluster):
    def call(**more):
        handle = ray.create_rayjob(
            cluster, "ns", "job", image=IMAGE, ray_version=RAY, entrypoint="python /chaos/ledger_job.py --seconds=9",
            ledger="/ledger/run/ns.jsonl", own=own("RayJob"), **{"ft": False, **more},
        )  # fmt: skip
        return handle, cluster.created[-1][2]

    return call


def env(group):
    entries = group["template"]["spec"]["containers"][0]["env"]
    assert len({entry["name"] for entry in entries}) == len(entries), "each is set once"
    return {entry["name"]: entry.get("value") for entry in entries}


def test_it_bears_the_users_name_in_a_namespace_of_ours_with_what_its_pods_refer_to(make, cluster):
    handle, document = make(workers=3, arm="a")
    assert (handle.namespace, handle.name, handle.workers, handle.arm) == ("ns", "models", 3, "a")
    assert document["metadata"]["name"] == "models"
    assert document["metadata"]["namespace"] == "ns"
    assert {(each["kind"], each["metadata"]["namespace"]) for each in cluster.applied} == {
        ("ConfigMap", "ns"), ("Secret", "ns"), ("Service", "ns"),
    }  # fmt: skip
    assert [group["replicas"] for group in document["spec"]["workerGroupSpecs"]] == [2, 1]


@pytest.mark.parametrize("ft", [True, False])
def test_fault_tolerance_is_as_the_arm_asks(make, ft):
    _, document = make(ft=ft, redis_address="another:6379")
    options = document["spec"].get("gcsFaultToleranceOptions")
    assert (options["redisAddress"] if ft else options) == ("another:6379" if ft else None)


def test_storage_and_fields_that_an_arm_sets_are_set(make):
    label = {"headGroupSpec": {"template": {"metadata": {"labels": {redis.CLIENT_LABEL: None}}}}}
    _, document = make(storage="own", spec=label)
    assert document["spec"]["gcsFaultToleranceOptions"]["externalStorageNamespace"] == "own"
    assert document["spec"]["headGroupSpec"]["template"]["metadata"]["labels"] == {"team": "models"}


def test_an_arms_environment_takes_the_place_of_the_users_and_may_unset_it(make):
    _, kept = make()
    _, replaced = make(head_env={"LOG_LEVEL": "info"}, worker_env={TIMEOUT: "20"})
    _, unset = make(worker_env={TIMEOUT: None})
    for document, level, timeout in ((kept, "debug", "120"), (replaced, "info", "20"), (unset, "debug", None)):
        assert env(document["spec"]["headGroupSpec"])["LOG_LEVEL"] == level
        assert env(document["spec"]["workerGroupSpecs"][0]).get(TIMEOUT) == timeout


def test_what_an_arm_sets_is_noted(make, make_job):
    notes = []
    make(ft=False, worker_env={TIMEOUT: "20"}, note=notes.append)
    make_job(ft=True, spec={"backoffLimit": 0}, note=notes.append)
    make_job(ft=True, note=notes.append)
    cluster, changed, same = notes
    assert cluster.startswith("RayCluster models of ")
    assert "is made in ns; set for it: spec." in cluster
    assert re.search(r"spec\.gcsFaultToleranceOptions: \{.* -> \(removed\)$", cluster)
    timeout = "spec.workerGroupSpecs[{}].template.spec.containers[worker].env[" + TIMEOUT + "]"
    assert f"{timeout.format('small')}.value: 120 -> 20" in cluster
    assert f"{timeout.format('gpu')}: (not set) -> 20" in cluster
    assert changed.endswith("; set for it: spec.backoffLimit: 3 -> 0")
    assert same.endswith("; set for it: nothing")


def test_an_arm_may_want_an_autoscaler_or_fault_tolerance_by_annotation(make):
    _, scaled = make(workers=1, most_workers=3)
    assert scaled["spec"]["enableInTreeAutoscaling"]
    assert [(g["replicas"], g["maxReplicas"]) for g in scaled["spec"]["workerGroupSpecs"]] == [(1, 3), (0, 3)]
    _, annotated = make(annotated=True)
    assert annotated["metadata"]["annotations"] == {"example.com/owner": "models", "ray.io/ft-enabled": "true"}
    assert "gcsFaultToleranceOptions" not in annotated["spec"]
    assert env(annotated["spec"]["headGroupSpec"])["RAY_REDIS_ADDRESS"] == redis.SENTINEL_ADDRESS


def test_a_rayjob_has_as_many_workers_as_an_arm_asks_for(make_job):
    for workers, cpus in ((0, "1"), (2, "0")):
        _, document = make_job(workers=workers)
        cluster = document["spec"]["rayClusterSpec"]
        assert [group["replicas"] for group in cluster["workerGroupSpecs"]] == [workers]
        assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == cpus


def test_without_a_ledger_on_the_nodes_none_is_mounted(make):
    _, document = make(ledger=False)
    assert "ledger" not in str(document)


def test_a_rayjob_keeps_what_no_arm_sets(make_job):
    handle, document = make_job()
    spec = document["spec"]
    assert (handle.name, spec["entrypoint"]) == ("nightly", "python /chaos/ledger_job.py --seconds=9")
    assert (spec["backoffLimit"], spec["submitterConfig"], spec["ttlSecondsAfterFinished"]) == (
        3,
        {"backoffLimit": 1},
        20,
    )
    assert env(spec["rayClusterSpec"]["headGroupSpec"])["CHAOS_LEDGER"] == handle.ledger


def test_and_what_an_arm_sets_is_set_or_taken_out(make_job):
    _, document = make_job(
        spec={"backoffLimit": 0, "submitterConfig": {"backoffLimit": 5}, "ttlSecondsAfterFinished": None}
    )
    assert (document["spec"]["backoffLimit"], document["spec"]["submitterConfig"]) == (0, {"backoffLimit": 5})
    assert "ttlSecondsAfterFinished" not in document["spec"]
