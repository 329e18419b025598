"""Faults on the stack's Redis: each on the member that it names, and all is as before afterwards, also for a later process."""

import subprocess
import uuid

import pytest

from chaos.errors import NoEffect
from chaos.faults import redis_targets
from chaos.faults.redis_change_password import RedisChangePassword
from chaos.faults.redis_failover import RedisFailover
from chaos.faults.redis_fill_memory import RedisFillMemory
from chaos.faults.redis_lose_data import RedisLoseData
from chaos.faults.redis_member import ask
from chaos.faults.redis_pause import RedisPause
from chaos.faults.redis_read_only import RedisReadOnly
from chaos.faults.undo import Undo, UndoLog, heal, perform
from chaos.stack import redis
from chaos.waiting import until

SETTINGS = ("min-replicas-to-write", "maxmemory", "maxmemory-policy")
REFUSALS = [(RedisReadOnly, "NOREPLICAS"), (RedisFillMemory, "OOM")]


@pytest.fixture
def members(cluster):
    """The primary's pod, and a list of the replicas'; the stack's Redis is whole before and after."""
    redis.wait_agreed(cluster, 120)
    yield redis_targets.primary_and_replicas(cluster)
    redis.wait_agreed(cluster, 120)


def said(cluster, pod, *words):
    return ask(cluster, pod["metadata"]["namespace"], pod["metadata"]["name"], *words)


def settings(cluster, pod):
    words = said(cluster, pod, "config", "get", *SETTINGS).splitlines()
    return dict(zip(words[::2], words[1::2], strict=True))


def restarts(pod):
    return {status["name"]: status["restartCount"] for status in pod["status"]["containerStatuses"]}


def elsewhere(undo):
    """The same undo for a pod that has been replaced."""
    return Undo(undo.kind, {**undo.what, "uid": "00000000-0000-0000-0000-000000000000"})


@pytest.mark.parametrize(("kind", "refusal"), REFUSALS)
def test_one_member_refuses_writes_and_nothing_else(cluster, inject, members, kind, refusal):
    primary, replicas = members
    before = [settings(cluster, pod) for pod in (primary, *replicas)]
    with inject(kind.of(primary)):
        assert said(cluster, primary, "set", "kuberay-chaos:test", "1", "px", "1").startswith(refusal)
        assert said(cluster, primary, "get", "kuberay-chaos:test") == ""
        assert [settings(cluster, pod) for pod in replicas] == before[1:]
    assert [settings(cluster, pod) for pod in (primary, *replicas)] == before
    assert said(cluster, primary, "set", "kuberay-chaos:test", "1", "px", "1") == "OK"


@pytest.mark.level("core")
@pytest.mark.parametrize("kind", [kind for kind, _ in REFUSALS])
def test_a_later_process_heals_the_settings(cluster, inject, members, tmp_path, kind):
    primary, _ = members
    before = settings(cluster, primary)
    fault, log = kind.of(primary), UndoLog(tmp_path / "undo.jsonl")
    [undo] = fault.undo(inject.reach)
    log.append("dead-1", [undo])
    fault.apply(inject.reach)
    try:
        assert settings(cluster, primary) != before
        perform(cluster, elsewhere(undo))
        assert settings(cluster, primary) != before, "a successor would not be touched"
        healed, failed = heal(cluster, UndoLog(log.path))
        assert (len(healed), failed) == (1, [])
    finally:
        perform(cluster, undo)
    assert settings(cluster, primary) == before


def test_a_new_connection_with_the_old_password_is_refused_and_an_open_one_goes_on(cluster, inject, members):
    _, [replica, other] = members
    metadata = replica["metadata"]
    command = cluster.exec_command(
        metadata["namespace"], metadata["name"], ["redis-cli"], container="redis", stdin=True
    )
    held = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        held.stdin.write("client setname chaos-held\n")
        held.stdin.flush()
        until(lambda: "name=chaos-held" in said(cluster, replica, "client", "list"), what="an open one", deadline=15)
        with inject(RedisChangePassword.of(replica)):
            assert "NOAUTH" in said(cluster, replica, "ping")
            assert said(cluster, other, "ping") == "PONG"
            answers, _ = held.communicate("ping\n", timeout=15)
        assert answers.split() == ["OK", "PONG"]
    finally:
        held.kill()
        held.wait()
    assert said(cluster, replica, "ping") == "PONG"
    told = inject.log.path.read_text()
    assert "redis-password" in told
    assert not any(password in told for password in redis.passwords(cluster))


@pytest.mark.level("core")
def test_a_later_process_heals_the_password(cluster, inject, members, tmp_path):
    _, [replica, _] = members
    fault, log = RedisChangePassword.of(replica), UndoLog(tmp_path / "undo.jsonl")
    [undo] = fault.undo(inject.reach)
    log.append("dead-1", [undo])
    fault.apply(inject.reach)
    try:
        perform(cluster, elsewhere(undo))
        assert "NOAUTH" in said(cluster, replica, "ping"), "a successor would not be touched"
        healed, failed = heal(cluster, UndoLog(log.path))
        assert (len(healed), failed) == (1, [])
    finally:
        perform(cluster, undo)
    assert said(cluster, replica, "ping") == "PONG"


def test_a_paused_member_lets_wait_and_goes_on_by_itself(cluster, inject, members):
    _, [replica, other] = members
    with inject(RedisPause.of(replica)):
        assert said(cluster, other, "ping") == "PONG"
    assert said(cluster, replica, "ping") == "PONG"
    with pytest.raises(NoEffect), inject(RedisPause.of(other, milliseconds=1)):
        pass


def test_one_ray_clusters_keys_are_lost_on_every_member_and_no_others(cluster, inject, members):
    primary, replicas = members
    lost, kept = uuid.uuid4().hex, uuid.uuid4().hex
    for storage in (lost, kept):
        for table in ("KV", "JOB"):
            assert said(cluster, primary, "hset", f"RAY{storage}@{table}", "field", "value") == "1"
    try:
        with inject(RedisLoseData.of(primary, storage=lost)):
            pass
        effect = [e for e in inject.reach.writer.entries() if e["what"] == "fault" and e["step"] == "effect"][-1]
        assert effect["detail"]["keys_lost"] == 2
        for pod in replicas:
            until(
                lambda pod=pod: said(cluster, pod, "exists", f"RAY{lost}@KV", f"RAY{lost}@JOB") == "0",
                what="the loss on a replica", deadline=10,
            )  # fmt: skip
        assert said(cluster, primary, "exists", f"RAY{kept}@KV", f"RAY{kept}@JOB") == "2"
    finally:
        said(cluster, primary, "del", *(f"RAY{s}@{table}" for s in (lost, kept) for table in ("KV", "JOB")))


def test_a_single_redis_loses_everything(cluster, inject, chaos_run):
    chaos_run.lab.single_redis("lose-data")
    pod = chaos_run.lab.redis_single_pod(chaos_run.lab.namespace("lose-data"))
    assert said(cluster, pod, "mset", "a", "1", "b", "2") == "OK"
    with inject(RedisLoseData.of(pod)):
        assert said(cluster, pod, "exists", "a", "b") == "0"


def test_the_sentinels_name_another_primary_on_command(cluster, inject, members):
    before = redis.assert_agreed(cluster)
    with inject(RedisFailover.of(before)):
        pass
    after = redis.wait_agreed(cluster, 120)
    assert after.primary.pod != before.primary.pod
    assert after.primary.epoch > before.primary.epoch


@pytest.mark.level("core")
def test_an_isolated_primary_is_replaced_and_comes_back_as_a_replica(cluster, inject, members):
    primary, replicas = members
    address = primary["status"]["podIP"]
    names = {pod["metadata"]["name"] for pod in replicas}
    with inject(redis_targets.isolate_primary(cluster)):
        until(
            lambda: {m.names for m in redis.health(cluster).members if m.pod in names}.isdisjoint({address, None}),
            what="another primary by the word of both other Sentinels", deadline=60,
        )  # fmt: skip
    after = redis.wait_agreed(cluster, 120)
    assert after.primary.pod in names


@pytest.mark.level("core")
def test_a_stopped_primary_is_replaced_and_comes_back_as_a_replica(cluster, inject, members):
    _, replicas = members
    names = {pod["metadata"]["name"] for pod in replicas}
    with inject(redis_targets.stop_primary(cluster)):
        until(
            lambda: any(m.role == "master" for m in redis.health(cluster).members if m.pod in names),
            what="another primary", deadline=60,
        )  # fmt: skip
    # The old one answers as a primary until the Sentinels, some 10 s later, make it a replica.
    after = redis.wait_agreed(cluster, 120)
    assert after.primary.pod in names


def test_a_killed_primary_is_started_again_in_the_same_pod(cluster, inject, members):
    primary, _ = members
    metadata = primary["metadata"]
    with inject(redis_targets.kill_primary(cluster)):
        pass
    redis.wait_agreed(cluster, 120)
    before = restarts(primary)
    until(
        lambda: restarts(cluster.get("pods", metadata["namespace"], metadata["name"])) != before,
        what="the restart in the pod's status", deadline=30,
    )  # fmt: skip
    found = cluster.get("pods", metadata["namespace"], metadata["name"])
    assert found["metadata"]["uid"] == metadata["uid"]
    assert restarts(found) == {**before, "redis": before["redis"] + 1}
