"""`audit`, `diagnose` and `bundle` on the real cluster: each trouble is made and must be named; a healthy cluster has none."""

import argparse
import json

import pytest

from chaos.audit.command import audit
from chaos.diagnose.command import diagnose
from chaos.faults.head_away import HeadAway
from chaos.faults.kill_process import KillProcess
from chaos.lab import RUNNING_SECONDS
from chaos.snapshot import bundle, take
from chaos.stack import redis

TIMEOUT = "RAY_gcs_rpc_server_reconnect_timeout_s"
TRIES = {"RAY_redis_db_connect_retries": "12"}
WRONG = {
    "redis-password": {"gcsFaultToleranceOptions": {"redisPassword": {"valueFrom": None, "value": "not-the-password"}}},
    "redis-address": {"gcsFaultToleranceOptions": {"redisAddress": f"redis.{redis.NAMESPACE}.svc.cluster.local:6380"}},
    "redis-policy": {"headGroupSpec": {"template": {"metadata": {"labels": {redis.CLIENT_LABEL: None}}}}},
}
REFERENCE = {"secretKeyRef": {"name": redis.SECRET, "key": "password"}}
RIGHT = {
    "redis-password": {"gcsFaultToleranceOptions": {"redisPassword": {"valueFrom": REFERENCE, "value": None}}},
    "redis-address": {"gcsFaultToleranceOptions": {"redisAddress": redis.SENTINEL_ADDRESS}},
    "redis-policy": {"headGroupSpec": {"template": {"metadata": {"labels": {redis.CLIENT_LABEL: "true"}}}}},
    "redis-shards": {"gcsFaultToleranceOptions": {"redisAddress": redis.SENTINEL_ADDRESS}},
}


@pytest.fixture
def causes(lab, tmp_path):
    """The causes that are named for a cluster, from a bundle of the namespaces of the test."""

    def named(*handles):
        file = tmp_path / "bundle.tar.gz"
        bundle.write(take.whole(lab.cluster, [handle.namespace for handle in handles]), file)
        found = {}
        for handle in handles:
            words = [str(file), f"{handle.namespace}/{handle.name}"]
            report, _ = diagnose(argparse.Namespace(words=words, context=None, kubeconfig=None, format="json"))
            found[handle.arm] = [cause["cause"] for cause in json.loads(report)]
        secrets = [password.encode() for password in redis.passwords(lab.cluster)]
        assert all(secret not in data for data in bundle.read(file).logs.values() for secret in secrets)
        return found

    return named


@pytest.mark.level("full")
def test_what_keeps_a_head_from_redis_is_named(lab, causes):
    sound = lab.ray_cluster("sound", ft=True, workers=0, head_env=TRIES)
    wrong = {arm: lab.ray_cluster(arm, ft=True, workers=0, head_env=TRIES, spec=spec) for arm, spec in WRONG.items()}
    shards = lab.sharded_redis("redis-shards")
    wrong["redis-shards"] = lab.ray_cluster("redis-shards", ft=True, workers=0, head_env=TRIES, redis_address=shards)
    lab.ready(sound)
    for each in wrong.values():
        lab.head_restarts(each, 2, deadline=220)
    found = causes(sound, *wrong.values())
    for arm, each in wrong.items():
        lab.amend(each, RIGHT[arm])  # so that the clean-up of the deleted cluster gets through
    assert found == {"sound": [], **{arm: [arm] for arm in wrong}}


@pytest.mark.level("full")
def test_workers_that_gave_up_and_workers_that_were_forgotten(lab, causes):
    """One fault-tolerant cluster whose workers wait 20 s, one that isn't fault-tolerant; both are without a head for 40 s."""
    short = lab.ray_cluster("short", ft=True, workers=1, worker_env={TIMEOUT: "20"})
    plain = lab.ray_cluster("plain", ft=False, workers=1)
    lab.ready(short, plain)
    lab.start_chatter(short, plain)
    assert causes(short, plain) == {"short": [], "plain": []}
    with lab.inject(*(HeadAway.of(lab.head(each)) for each in (short, plain))) as away:
        away.hold(40)
    lab.ready(short, plain)
    lab.observe(75, why="a raylet whose GCS forgot it notices within 60 s")
    found = causes(short, plain)
    assert found["short"][0] == "worker-timeout"
    assert found["plain"] == ["ft-not-applied"]


@pytest.mark.level("full")
def test_a_single_redis_that_was_lost(lab, causes):
    address = lab.single_redis("single")
    single = lab.ray_cluster("single", ft=True, workers=1, redis_address=address)
    lab.ready(single)
    assert causes(single) == {"single": []}
    pod = lab.redis_single_pod(single.namespace)
    lab.cluster.delete("pods", single.namespace, pod["metadata"]["name"], grace=0)
    lab.head_restarts(single, 1, deadline=120)
    lab.ready(single)
    assert causes(single) == {"single": ["redis-single-point"]}


@pytest.mark.level("full")
def test_an_actor_that_lost_its_process(lab, causes):
    held = lab.ray_cluster("actor", ft=True, workers=2)
    lab.ready(held)
    lab.start_actor(held)
    lab.steady({held: ["counter"]})
    assert causes(held) == {"actor": []}
    with lab.inject(lab.delete_worker_of(held, "counter")):
        lab.functional_again({held: ["counter"]})
    assert causes(held) == {"actor": ["actor-state"]}


@pytest.mark.level("full")
def test_a_rayjob_in_its_second_attempt_after_an_operator_crash(lab, tmp_path):
    job = lab.rayjob("second", exit_code=1, backoff_limit=1)
    lab.ray_job_runs(job)
    first = lab.cluster_of(job).name
    lab.release(job)
    since = lab.now()
    lab.rayjob_reaches(job, "Retrying", deadline=RUNNING_SECONDS)
    with lab.inject(KillProcess.of(lab.operator())):
        lab.operator_leads_again(since)
    lab.rayjob_reaches(job, "Initializing", deadline=RUNNING_SECONDS, since=since)
    file = tmp_path / "bundle.tar.gz"
    bundle.write(take.whole(lab.cluster, [job.namespace]), file)
    report, _ = diagnose(
        argparse.Namespace(words=[str(file), "rayjob", job.name], context=None, kubeconfig=None, format="json")
    )
    told = json.loads(report)
    facts = "\n".join(told["steps"][0]["facts"])
    assert "attempt 2 of at most 2; 1 failed" in facts
    assert first not in facts
    assert len(told["steps"]) == 4
    assert told["next"]


@pytest.mark.level("core")
def test_the_checklist_on_a_live_cluster_changes_nothing_and_asks_redis(lab):
    """Our own test rig is no production: its head is not protected. What Redis says of itself is right."""
    sound = lab.ray_cluster("audited", ft=True, workers=0)
    lab.ready(sound)
    before = lab.raycluster(sound)["metadata"]["resourceVersion"]
    report, code = audit(
        argparse.Namespace(
            paths=[], context=None, kubeconfig=lab.cluster.kubeconfig, redis=True, measured=None,
            state_outside="yes", kuberay=None, format="json",
        )
    )  # fmt: skip
    subject = f"RayCluster {sound.namespace}/{sound.name}"
    found = {f["item"]: f for f in json.loads(report) if f["subject"] == subject}
    assert code == 1
    assert found["head-placement"]["verdict"] == "broken"
    for item in (
        "ft-requirements",
        "redis-availability",
        "redis-auth",
        "network-policy",
        "redis-cleanup",
        "key-namespace",
    ):
        assert found[item]["verdict"] == "holds", found[item]["reason"]
    assert found["leftover-keys"]["verdict"] in {"holds", "broken"}
    assert lab.raycluster(sound)["metadata"]["resourceVersion"] == before
