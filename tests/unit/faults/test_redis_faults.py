"""Faults on Redis against a server that answers as 7.0 does: what they set, what they take for proof, and what undo knows."""

import json
import shlex

import pytest

from chaos.errors import NoEffect, NoSteadyState, StackError
from chaos.faults import redis_failover, redis_member, redis_targets
from chaos.faults.base import Reach, Scope
from chaos.faults.redis_change_password import RedisChangePassword
from chaos.faults.redis_failover import RedisFailover
from chaos.faults.redis_fill_memory import RedisFillMemory
from chaos.faults.redis_lose_data import RedisLoseData
from chaos.faults.redis_pause import RedisPause
from chaos.faults.redis_read_only import RedisReadOnly
from chaos.faults.undo import perform
from chaos.process import Executed, run
from chaos.stack.redis import Member, RedisHealth

PASSWORD = "aB3-of_the-Secret"


def pod(name="redis-0", uid="u-0", ip="10.0.0.10", node="n1"):
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": uid},
        "spec": {"nodeName": node, "containers": [{"name": "redis"}, {"name": "sentinel"}]},
        "status": {"phase": "Running", "podIP": ip},
    }


class Server:
    """A Redis server in a pod, as far as these faults go."""

    def __init__(self):
        self.pod = pod()
        self.role = "master"
        self.settings = {"min-replicas-to-write": "0", "maxmemory": "0", "maxmemory-policy": "allkeys-lru"}
        self.stubborn = False  # takes settings and goes on as before
        self.keys = {}
        self.asked = []

    def get(self, resource, namespace, name):
        return self.pod

    def exec(self, namespace, pod, argv, *, container=None, stdin=None, timeout):
        assert argv[:3] == ["timeout", "5", "redis-cli"]
        assert container == "redis"
        self.asked.append(argv[5:])
        return Executed(0, f"{self.answer(*argv[5:])}\n".encode(), b"")

    def answer(self, command, *words):
        match command, *words:
            case ["config", "get", *names]:
                return "\n".join(f"{name}\n{self.settings[name]}" for name in reversed(names))
            case ["config", "set", *words]:
                self.settings |= dict(zip(words[::2], words[1::2], strict=True))
                return "OK"
            case ["set", *_]:
                return self.write()
            case ["eval", _, "1", key, prefix]:
                if self.role != "master":
                    return "READONLY You can't write against a read only replica."
                lost = [k for k in self.keys if k.startswith(prefix)]
                self.keys = {k: v for k, v in self.keys.items() if k not in lost}
                self.keys[key] = str(len([k for k in lost if not k.startswith("kuberay-chaos:")]))
                return self.keys[key]
            case ["get", key]:
                return self.keys.get(key, "")
        raise AssertionError(command)

    def write(self):
        if self.role != "master":
            return "READONLY You can't write against a read only replica."
        if int(self.settings["min-replicas-to-write"]) > 2 and not self.stubborn:
            return "NOREPLICAS Not enough good replicas to write."
        if 0 < int(self.settings["maxmemory"]) < 1_000_000 and not self.stubborn:
            return "OOM command not allowed when used memory > 'maxmemory'."
        return "OK"


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def reach(server, writer):
    return Reach(server, writer)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """What never comes isn't waited for."""
    for module in (redis_member, redis_failover):
        for name in ("_BITE_SECONDS", "RESTORE_SECONDS", "_SWITCH_SECONDS"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, 0.2)
    monkeypatch.setattr("chaos.faults.redis_lose_data._BITE_SECONDS", 0.2)


REFUSALS = [(RedisReadOnly, "NOREPLICAS"), (RedisFillMemory, "OOM")]


@pytest.mark.parametrize(("kind", "refusal"), REFUSALS)
def test_writes_are_refused_and_taken_again_with_the_settings_as_before(injector, server, reach, kind, refusal):
    before = dict(server.settings)
    injector.reach = reach
    with injector(kind.of(server.pod)):
        assert server.write().startswith(refusal)
    assert server.settings == before
    assert server.write() == "OK"


@pytest.mark.parametrize("kind", [kind for kind, _ in REFUSALS])
def test_a_server_that_goes_on_taking_writes_is_no_effect(reach, server, kind):
    server.stubborn = True
    fault = kind.of(server.pod)
    fault.apply(reach)
    with pytest.raises(NoEffect, match="refused with"):
        fault.prove(reach, 0)


def test_a_replica_refuses_for_another_reason_which_is_no_effect(reach, server):
    server.role = "slave"
    fault = RedisReadOnly.of(server.pod)
    fault.apply(reach)
    with pytest.raises(NoEffect):
        fault.prove(reach, 0)


def test_a_successor_of_the_same_name_is_neither_hit_nor_set_back(reach, server):
    fault = RedisReadOnly.of(server.pod)
    [undo] = fault.undo(reach)
    server.pod = pod(uid="u-1")
    server.asked.clear()
    with pytest.raises(StackError, match="not the one it was"):
        fault.apply(reach)
    perform(server, undo)
    assert server.asked == []
    assert fault.relieved(reach) == {"write": "the pod is gone"}


def test_undo_is_json_and_can_be_done_twice_and_without_the_fault(reach, server):
    before = dict(server.settings)
    [undo] = RedisFillMemory.of(server.pod).undo(reach)
    assert json.loads(json.dumps(undo.what)) == undo.what
    perform(server, undo)
    perform(server, undo)
    assert server.settings == before


def test_relief_is_not_told_while_writes_are_refused(reach, server):
    server.settings["maxmemory"] = "1"
    with pytest.raises(StackError, match="OOM"):
        RedisFillMemory.of(server.pod).relieved(reach)


def test_a_member_demoted_meanwhile_is_relieved(reach, server):
    server.role = "slave"
    assert RedisReadOnly.of(server.pod).relieved(reach)["write"].startswith("READONLY")


# --- data -----------------------------------------------------------------------------------------------------------


def test_only_the_keys_of_one_ray_cluster_are_lost(reach, server):
    server.keys = {"RAYabc@KV": "1", "RAYabc@JOB": "1", "RAYab@KV": "1", "RAYabcd@KV": "1"}
    fault = RedisLoseData.of(server.pod, storage="abc")
    fault.apply(reach)
    assert fault.prove(reach, 0) == {"keys_lost": 2}
    assert {"RAYab@KV", "RAYabcd@KV"} < set(server.keys)
    assert not any(key.startswith("RAYabc@") for key in server.keys)
    assert fault.undo(reach) == []
    assert fault.target["keys"] == "RAYabc@*"


def test_all_keys_are_lost(reach, server):
    server.keys = {"RAYabc@KV": "1", "other": "1"}
    fault = RedisLoseData.of(server.pod)
    fault.apply(reach)
    assert fault.prove(reach, 0) == {"keys_lost": 2}


def test_nothing_to_lose_is_no_effect(reach, server):
    fault = RedisLoseData.of(server.pod, storage="abc")
    fault.apply(reach)
    with pytest.raises(NoEffect, match="held no key"):
        fault.prove(reach, 0)


def test_an_earlier_loss_proves_nothing(reach, server):
    server.keys = {"RAYabc@KV": "1"}
    RedisLoseData.of(server.pod).apply(reach)
    with pytest.raises(NoEffect):
        RedisLoseData.of(server.pod).prove(reach, 0)


def test_a_replica_does_not_lose_anything(reach, server):
    server.role = "slave"
    with pytest.raises(StackError, match="READONLY"):
        RedisLoseData.of(server.pod).apply(reach)


# --- password -------------------------------------------------------------------------------------------------------

# A redis-cli that keeps the server's password in a file, and writes down with what arguments it was called.
_REDIS_CLI = r"""
echo "redis-cli $*" >>%(log)s
password=$(cat %(state)s)
if [ "$REDISCLI_AUTH" != "$password" ]; then
  echo "AUTH failed: WRONGPASS invalid username-password pair or user is disabled." >&2
  echo "NOAUTH Authentication required."; exit 0
fi
if [ $# -gt 0 ] && [ "$1" = -p ]; then shift 2; fi
if [ "$*" = ping ]; then echo PONG; exit; fi
read -r config set requirepass value
[ "$config $set $requirepass" = "config set requirepass" ] || exit 1
printf %%s "$value" | tr -d '"' >%(state)s
echo OK
"""


class Pod:
    """A pod whose commands run here, with the password in their environment."""

    def __init__(self, folder):
        self.pod = pod()
        self.state, self.log = folder / "password", folder / "log"
        self.state.write_text(PASSWORD)
        self.log.write_text("")
        self.programs = folder / "bin"
        self.programs.mkdir()
        script = _REDIS_CLI % {"log": shlex.quote(str(self.log)), "state": shlex.quote(str(self.state))}
        (self.programs / "redis-cli").write_text(f"#!/bin/sh\n{script}")
        (self.programs / "redis-cli").chmod(0o755)

    def get(self, resource, namespace, name):
        return self.pod

    def exec(self, namespace, pod, argv, *, container=None, stdin=None, timeout):
        assert PASSWORD not in " ".join(argv)
        env = {"REDISCLI_AUTH": PASSWORD, "PATH": f"{self.programs}:/usr/bin:/bin"}
        return run(argv, stdin=stdin, timeout=timeout, env=env, check=False)


def test_the_password_is_another_one_and_then_the_old_one_again(injector, writer, log, tmp_path):
    pod = Pod(tmp_path)
    injector.reach = Reach(pod, writer)
    with injector(RedisChangePassword.of(pod.pod)):
        other = pod.state.read_text()
        assert other not in ("", PASSWORD)
        [(_, _, undo)] = log.pending()
    assert pod.state.read_text() == PASSWORD
    perform(pod, undo)
    assert pod.state.read_text() == PASSWORD
    told = pod.log.read_text() + log.path.read_text() + (tmp_path / "history.jsonl").read_text()
    assert PASSWORD not in told
    assert other not in told


def test_a_password_that_still_opens_is_no_effect(writer, tmp_path, monkeypatch):
    monkeypatch.setattr("chaos.faults.redis_change_password._BITE_SECONDS", 0.2)
    pod = Pod(tmp_path)
    with pytest.raises(NoEffect, match="refusal of the old password"):
        RedisChangePassword.of(pod.pod).prove(Reach(pod, writer), 0)


def test_a_pod_that_was_replaced_has_the_old_password(writer, tmp_path):
    pod_ = Pod(tmp_path)
    fault = RedisChangePassword.of(pod_.pod)
    [undo] = fault.undo(Reach(pod_, writer))
    pod_.pod = pod(uid="u-1")
    perform(pod_, undo)
    assert pod_.log.read_text() == ""


def test_a_password_that_is_neither_cannot_be_undone(writer, tmp_path, monkeypatch):
    monkeypatch.setattr("chaos.faults.redis_change_password.RESTORE_SECONDS", 0.2)
    pod = Pod(tmp_path)
    [undo] = RedisChangePassword.of(pod.pod).undo(Reach(pod, writer))
    pod.state.write_text("somebody else's")
    with pytest.raises(StackError, match="old password"):
        perform(pod, undo)


# --- roles ----------------------------------------------------------------------------------------------------------


def health(primary, epoch, *, dissenting=0):
    """Three members of which ``primary`` is the one that their Sentinels name; some still name redis-0."""
    members = []
    for n in range(3):
        names, since = ("10.0.0.10", epoch - 1) if n < dissenting else (f"10.0.0.1{primary}", epoch)
        role, in_sync = ("master", 2) if n == primary else ("slave", None)
        members.append(Member(f"redis-{n}", f"10.0.0.1{n}", role, in_sync, names, since))
    return RedisHealth(tuple(members))


class Sentinel(Server):
    def answer(self, command, *words):
        assert (command, *words) == ("sentinel", "failover", "ray")
        return self.reply


def test_a_failover_is_proved_by_all_sentinels_word(server, writer, monkeypatch):
    sentinel = Sentinel()
    sentinel.reply = "OK"
    answers = [health(0, 3), health(1, 4, dissenting=1), health(1, 4)]
    monkeypatch.setattr(redis_failover.redis, "health", lambda cluster: answers.pop(0))
    monkeypatch.setattr(redis_failover, "_SWITCH_SECONDS", 5)
    fault, reach = RedisFailover.of(health(0, 3)), Reach(sentinel, writer)
    assert fault.undo(reach) == []
    fault.apply(reach)
    assert fault.prove(reach, 0) == {"primary": "redis-1", "address": "10.0.0.11", "epoch": 4}
    assert answers == []


def test_the_same_primary_of_a_later_election_is_no_effect(server, writer, monkeypatch):
    monkeypatch.setattr(redis_failover.redis, "health", lambda cluster: health(0, 4))
    with pytest.raises(NoEffect, match="another primary than redis-0"):
        RedisFailover.of(health(0, 3)).prove(Reach(server, writer), 0)


def test_a_refused_failover_says_why(writer):
    sentinel = Sentinel()
    sentinel.reply = "NOGOODSLAVE No suitable replica to promote"
    with pytest.raises(StackError, match="NOGOODSLAVE"):
        RedisFailover.of(health(0, 3)).apply(Reach(sentinel, writer))


def test_no_failover_away_from_a_primary_that_is_disputed():
    with pytest.raises(NoSteadyState):
        RedisFailover.of(health(1, 4, dissenting=1))


class Members:
    """The members' pods and a client's, for choosing among them."""

    def list(self, resource, namespace=None, labels=None):
        if namespace is None:
            return [pod("head", "u-h", "10.0.1.1"), {**pod("starting", "u-s"), "status": {"phase": "Pending"}}]
        return [pod(f"redis-{n}", f"u-{n}", f"10.0.0.1{n}") for n in range(3)]


@pytest.fixture
def members(monkeypatch):
    monkeypatch.setattr(redis_targets.redis, "assert_agreed", lambda cluster: health(1, 3))
    return Members()


def test_the_primary_is_isolated_from_replicas_and_clients(members):
    fault = redis_targets.isolate_primary(members)
    assert fault.pod == "redis-1"
    assert set(fault.addresses) == {"10.0.0.10", "10.0.0.12", "10.0.1.1"}


def test_a_replica_is_isolated_from_the_others_and_clients(members):
    fault = redis_targets.isolate_replica(members)
    assert fault.pod == "redis-0"
    assert set(fault.addresses) == {"10.0.0.11", "10.0.0.12", "10.0.1.1"}


@pytest.mark.parametrize("choose", [redis_targets.kill_primary, redis_targets.stop_primary])
def test_the_primarys_server_is_hit_and_not_its_sentinel(members, choose):
    fault = choose(members)
    assert (fault.pod, fault.container, fault.process) == ("redis-1", "redis", "")


@pytest.mark.parametrize("kind", [RedisReadOnly, RedisFillMemory, RedisLoseData, RedisChangePassword, RedisFailover])
def test_what_all_namespaces_share_is_of_the_clusters_scope(kind):
    assert kind.scope is Scope.CLUSTER


class Pausing:
    """A server whose `redis-cli` answers after so many seconds, in a shell of this machine."""

    def __init__(self, folder, seconds):
        self.asked = []
        program = folder / "redis-cli"
        program.write_text(f"#!/bin/sh\nsleep {seconds}\necho PONG\n")
        program.chmod(0o755)
        self._path = folder

    def get(self, resource, namespace, name):
        return pod()

    def exec(self, namespace, pod, argv, *, container=None, stdin=None, timeout):
        if "redis-cli" in argv:
            self.asked.append(argv[5:])
            return Executed(0, b"OK\n", b"")
        return run(["env", f"PATH={self._path}:/usr/bin:/bin", *argv], timeout=timeout)


def test_a_pause_is_the_servers_and_is_felt_in_the_pod(tmp_path, writer):
    server = Pausing(tmp_path, 0.8)
    reach = Reach(server, writer)
    fault = RedisPause.of(pod(), milliseconds=900)
    assert fault.undo(reach) == []
    fault.apply(reach)
    assert server.asked == [["client", "pause", "900", "all"]]
    proof = fault.prove(reach, 0)
    assert proof["answer"] == "PONG"
    assert 0.8 <= proof["waited"] < 5


def test_a_server_that_answers_at_once_was_not_paused(tmp_path, writer):
    reach = Reach(Pausing(tmp_path, 0), writer)
    with pytest.raises(NoEffect, match="of 2500 ms"):
        RedisPause.of(pod()).prove(reach, 0)
