"""The scripts that run inside Ray pods, run here against a Ray of their own on this machine."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos import workloads
from chaos.errors import NoSteadyState
from chaos.process import Executed
from chaos.stack.ray import RayClusterHandle
from chaos.workloads import probes
from chaos.workloads.service import ServiceClient

# Without the first, Ray writes a token into the home folder.
RAY_ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "120"}

INPOD = Path(workloads.__file__).parent / "inpod"

# Starts Ray, says where, and stays until its input closes.
SERVE_RAY = """
import sys, ray
context = ray.init(num_cpus=2, include_dashboard=False, _temp_dir=sys.argv[1], log_to_driver=False,
                   object_store_memory=80 * 1024 * 1024)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""


def script(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(INPOD / name), *arguments],
        env={**os.environ, **RAY_ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def answer(finished: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert finished.stdout, finished.stderr
    return dict(json.loads(finished.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def ray_address() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="ray-")  # short: Ray's sockets are below it
    with subprocess.Popen(
        [sys.executable, "-c", SERVE_RAY, folder],
        env={**os.environ, **RAY_ENVIRONMENT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        address = served.stdout.readline().strip()
        assert address
        yield address
        served.stdin.close()
        served.wait(30)
    shutil.rmtree(folder, ignore_errors=True)


def test_the_counter_goes_on_and_the_cluster_works(ray_address: str) -> None:
    started = answer(script("start_counter.py", RAY_ADDRESS=ray_address))
    assert started["count"] == 1
    probed = script(
        "functional.py", "--actor", "counter", "--seconds", "60", "--step-seconds", "30", RAY_ADDRESS=ray_address
    )
    report = answer(probed)
    assert probed.returncode == 0, report
    assert report["ok"]
    assert report["error"] is None
    assert report["actors"]["counter"] == {**started, "count": 2}
    [node] = report["nodes"]
    assert node["head"]
    assert report["task"]["node"] == node["id"]
    assert report["took"].keys() == {"connect", "kv", "task", "nodes", "actor:counter"}


def test_a_counter_with_a_file_goes_on_where_the_file_is(ray_address: str, tmp_path: Path) -> None:
    state = tmp_path / "count"
    state.write_text("41")
    started = answer(script("start_counter.py", "--name=keeper", f"--state={state}", RAY_ADDRESS=ray_address))
    assert started["count"] == 42
    assert state.read_text() == "42"


def test_the_chatter_talks_to_the_gcs_where_it_was_asked_to(ray_address: str) -> None:
    [node] = answer(script("functional.py", "--seconds", "60", "--step-seconds", "30", RAY_ADDRESS=ray_address))[
        "nodes"
    ]
    started = script("start_chatter.py", "--at", node["address"], "--seconds", "60", RAY_ADDRESS=ray_address)
    assert answer(started) == {"chatters": ["chatter-0"]}
    assert started.returncode == 0


def test_a_missing_actor_is_not_functional_and_the_rest_is_still_told(ray_address: str) -> None:
    probed = script(
        "functional.py", "--actor", "nobody", "--seconds", "60", "--step-seconds", "30", RAY_ADDRESS=ray_address
    )
    report = answer(probed)
    assert probed.returncode == 1
    assert not report["ok"]
    assert "actor:nobody" in report["error"]
    assert report["nodes"]


def test_the_probe_ends_by_itself_when_nothing_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        probed = script("functional.py", "--seconds", "3", RAY_ADDRESS=f"127.0.0.1:{silent.getsockname()[1]}")
    assert time.monotonic() - began < 10
    assert probed.returncode == 1
    assert "connect" in answer(probed)["error"]


def test_the_ledger_has_one_start_and_one_end_for_each_execution(ray_address: str, tmp_path: Path) -> None:
    ledger = tmp_path / "run" / "job.jsonl"
    environment = {
        "RAY_ADDRESS": ray_address,
        "CHAOS_LEDGER": str(ledger),
        "RAY_CLUSTER_NAME": "cluster-a",
        "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps({"metadata": {"job_submission_id": "job-1"}}),
    }
    assert script("ledger_job.py", "--seconds", "0", **environment).returncode == 0
    assert script("ledger_job.py", "--seconds", "0", "--exit-code", "3", **environment).returncode == 3
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["start", "end", "start", "end"]
    assert len({line["execution"] for line in lines}) == 2
    assert {(line["submission_id"], line["attempt"]) for line in lines} == {("job-1", "cluster-a")}


def test_work_in_steps_goes_on_behind_its_checkpoint(ray_address: str, tmp_path: Path) -> None:
    ledger, checkpoint = tmp_path / "job.jsonl", tmp_path / "job.checkpoint"
    environment = {"RAY_ADDRESS": ray_address, "CHAOS_LEDGER": str(ledger)}

    def steps(*options: str) -> list[int]:
        """The steps of another execution; the work is one run."""
        before = len(ledger.read_text().splitlines()) if ledger.exists() else 0
        assert script("ledger_job.py", "--seconds=1", "--steps", *options, **environment).returncode == 0
        lines = [json.loads(line) for line in ledger.read_text().splitlines()][before:]
        assert [lines[0]["event"], lines[-1]["event"]] == ["start", "end"]
        assert len({line["run"] for line in lines[1:-1]}) == len({line["execution"] for line in lines}) == 1
        return [line["step"] for line in lines[1:-1]]

    first, second, bare = steps(f"--checkpoint={checkpoint}"), steps(f"--checkpoint={checkpoint}"), steps()
    assert first == list(range(1, len(first) + 1))
    assert second == list(range(len(first) + 1, len(first) + len(second) + 1))
    assert bare[0] == 1
    assert checkpoint.read_text() == str(second[-1])


def test_a_key_is_taken_once(ray_address: str, tmp_path: Path) -> None:
    ledger = tmp_path / "job.jsonl"
    environment = {"RAY_ADDRESS": ray_address, "CHAOS_LEDGER": str(ledger)}
    for submission in ("a", "a", "b"):
        told = json.dumps({"metadata": {"job_submission_id": submission}})
        finished = script("ledger_job.py", "--seconds=0", "--keyed", **environment, RAY_JOB_CONFIG_JSON_ENV_VAR=told)
        assert finished.returncode == 0
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    written = {
        event: [line["submission_id"] for line in lines if line["event"] == event] for event in ("start", "keyed")
    }
    assert written == {"start": ["a", "a", "b"], "keyed": ["a", "b"]}


def test_an_execution_without_ray_is_in_the_ledger(tmp_path: Path) -> None:
    ledger = tmp_path / "job.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nowhere = f"127.0.0.1:{unused.getsockname()[1]}"
    with subprocess.Popen(
        [sys.executable, str(INPOD / "ledger_job.py")],
        env={**os.environ, **RAY_ENVIRONMENT, "CHAOS_LEDGER": str(ledger), "RAY_ADDRESS": nowhere},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as job:
        end = time.monotonic() + 30
        while not (ledger.exists() and ledger.read_text().endswith("\n")) and time.monotonic() < end:
            time.sleep(0.05)
        job.kill()
    [line] = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert line["event"] == "start"
    assert line["submission_id"] is None


def test_a_stubborn_execution_writes_on_when_it_is_told_to_stop(tmp_path: Path) -> None:
    ledger, release = tmp_path / "job.jsonl", tmp_path / "release"

    def events() -> list[str]:
        return [json.loads(line)["event"] for line in ledger.read_text().splitlines()] if ledger.exists() else []

    def wait_for(event: str, after: int) -> None:
        end = time.monotonic() + 30
        while event not in events()[after:] and time.monotonic() < end:
            time.sleep(0.05)
        assert event in events()[after:]

    with subprocess.Popen(
        [sys.executable, str(INPOD / "ledger_job.py"), "--stubborn", f"--release={release}", "--seconds=60"],
        env={**os.environ, "CHAOS_LEDGER": str(ledger)},
    ) as job:
        wait_for("write", 0)
        job.terminate()
        wait_for("sigterm", 0)
        wait_for("write", len(events()))
        release.touch()
        assert job.wait(30) == 0
    told = events()
    assert (told[0], told[-1], told.count("sigterm")) == ("start", "end", 1)


class Redis(threading.Thread):
    """Answers one client as a Redis that wants the password ``secret``, until it is told to stall or hang up."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.stalled = threading.Event()
        self.hung_up = threading.Event()
        self.go_on = threading.Event()

    def run(self) -> None:
        client, _ = self.server.accept()
        with client, self.server:
            known = False
            while asked := client.recv(1024):
                if b"AUTH" in asked:
                    known = b"secret" in asked
                    client.sendall(b"+OK\r\n" if known else b"-WRONGPASS no\r\n")
                    continue
                if self.hung_up.is_set():
                    return
                if self.stalled.is_set():
                    self.go_on.wait(10)
                    self.stalled.clear()
                client.sendall(b"+PONG\r\n" if known else b"-NOAUTH who are you\r\n")


@pytest.fixture
def redis_server() -> Iterator[Redis]:
    server = Redis()
    server.start()
    yield server
    server.go_on.set()
    server.join(10)


def hold(redis: Redis, *, seconds: float, password: str = "secret") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(INPOD / "held_connection.py"), "127.0.0.1", str(redis.port), f"--seconds={seconds}"],
        env={**os.environ, "REDISCLI_AUTH": password},
        stdout=subprocess.PIPE,
        text=True,
    )


def events(held: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    assert held.stdout is not None
    for line in held.stdout:
        yield json.loads(line)


def test_a_stall_of_an_open_connection_is_seen_while_it_lasts_and_when_it_ends(redis_server: Redis) -> None:
    with hold(redis_server, seconds=8) as held:
        seen = events(held)
        assert next(seen)["event"] == "connected"
        next(e for e in seen if e["event"] == "second" and e["answers"] > 0)
        redis_server.stalled.set()
        next(e for e in seen if e["event"] == "second" and e["waiting"] > 1)
        redis_server.go_on.set()
        slow = next(e for e in seen if e["event"] == "slow")
        assert slow["took"] > 1
        assert list(seen)[-1]["event"] == "end"
    assert held.returncode == 0


def test_the_end_of_an_open_connection_is_seen(redis_server: Redis) -> None:
    with hold(redis_server, seconds=30) as held:
        seen = events(held)
        assert next(seen)["event"] == "connected"
        redis_server.hung_up.set()
        assert list(seen)[-1]["event"] in ("closed", "error")
    assert held.returncode == 1


def test_a_wrong_password_is_not_a_held_connection(redis_server: Redis) -> None:
    with hold(redis_server, seconds=30, password="guess") as held:
        [refused] = events(held)
    assert refused["event"] == "error"
    assert held.returncode == 1


@pytest.fixture(scope="module")
def client_address(ray_address: str) -> Iterator[str]:
    """Of the server for Ray's clients that a head has."""
    port = free_port()
    options = [f"--address={ray_address}", "--host=127.0.0.1", f"--port={port}", "--mode=legacy"]
    with subprocess.Popen(
        [sys.executable, "-m", "ray.util.client.server", *options],
        env={**os.environ, **RAY_ENVIRONMENT},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        yield f"127.0.0.1:{port}"
        server.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def calling(address: str, start_up: float) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, str(INPOD / "call_service.py"), address, f"--start-up={start_up}"]
    with subprocess.Popen(command, env={**os.environ, **RAY_ENVIRONMENT}, stdout=subprocess.PIPE, text=True) as client:
        try:
            yield client
        finally:
            for caller in callers(client):
                os.kill(caller, signal.SIGKILL)
            client.kill()


def callers(client: "subprocess.Popen[str]") -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(client.pid)], capture_output=True, text=True, check=False)
    return [int(pid) for pid in listed.stdout.split()]


def test_a_service_is_made_by_its_client_and_found_again_by_the_next(client_address: str) -> None:
    with calling(client_address, 3) as client:
        seen = events(client)
        next(e for e in seen if e == {"event": "silence", "why": "the actor does not answer"})
        first = next(e for e in seen if e["event"] == "answer")
        second = next(e for e in seen if e["event"] == "answer")
        assert (first["count"], second["count"]) == (1, 2)
        [caller] = callers(client)
        os.kill(caller, signal.SIGKILL)
        assert next(e for e in seen if e["event"] == "silence")["why"] == "the connection is lost"
        third = next(e for e in seen if e["event"] == "answer")
    assert (third["born"], third["pid"]) == (first["born"], first["pid"])
    assert third["count"] > second["count"]


def test_a_caller_that_has_nothing_to_say_is_replaced(client_address: str) -> None:
    with calling(client_address, 0) as client:
        seen = events(client)
        next(e for e in seen if e["event"] == "answer")
        [caller] = callers(client)
        os.kill(caller, signal.SIGSTOP)
        assert next(e for e in seen if e["event"] == "silence")["why"] == "the connection is lost"
        next(e for e in seen if e["event"] == "answer")


def test_a_head_that_does_not_listen_is_waited_for() -> None:
    with calling(f"127.0.0.1:{free_port()}", 0) as client:
        told = next(events(client))
        assert told["event"] == "silence"
        assert "refused" in told["why"]
        assert callers(client) == []


def test_workers_are_asked_for(ray_address: str) -> None:
    assert script("request_workers.py", "2", "--seconds=60", RAY_ADDRESS=ray_address).returncode == 0


def test_a_request_that_nobody_hears_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        assert script("request_workers.py", "2", "--seconds=5", RAY_ADDRESS=where).returncode == 1


class FakePod:
    """A cluster in which every command is this one, on this machine."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.asked: list[str] = []

    def exec_command(self, namespace: str, pod: str, argv: list[str]) -> list[str]:
        self.asked = [namespace, pod, *argv]
        return [sys.executable, "-c", self.program]


class Told:
    """In the place of a history."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def write(self, what: str, **fields: Any) -> None:
        self.entries.append(fields)


ANSWERS = """
import sys
print('{"event": "silence", "why": "not yet"}')
print('{"event": "answer", "took": 0.2, "pid": 7, "born": "a", "count": 1}')
print('{"event": "answ', flush=True)
"""


def client_in(pod: FakePod, told: Told) -> ServiceClient:
    handle = RayClusterHandle("ns", "c", ft=True, workers=1)
    where = {"metadata": {"namespace": "ns", "name": "client"}}
    return ServiceClient(pod, told, where, handle, start_up=60)  # type: ignore[arg-type]


def test_what_a_client_says_is_in_the_history() -> None:
    pod, told = FakePod(ANSWERS), Told()
    client = client_in(pod, told)
    client.start()
    client._reader.join(10)
    assert pod.asked == ["ns", "client", "python", "/chaos/call_service.py", "c-head-svc:10001", "--start-up=60"]
    target = {"namespace": "ns", "cluster": "c"}
    value = {"pid": 7, "born": "a", "count": 1}
    assert told.entries == [
        {"probe": "client", "target": target, "ok": False, "took": 0.0, "value": {}, "error": "not yet"},
        {"probe": "client", "target": target, "ok": True, "took": 0.2, "value": value, "error": None},
    ]
    client.stop()
    client.stop()


def test_a_service_that_never_answers_is_no_baseline() -> None:
    client = client_in(FakePod("import time; time.sleep(60)"), Told())
    client.begins_within = 0.5
    with pytest.raises(NoSteadyState, match="the service in ns does not answer"):
        client.start()


def test_the_config_map_holds_the_scripts_as_they_are() -> None:
    data = workloads.configmap("ns")["data"]
    assert data.keys() == {path.name for path in INPOD.glob("*.py")}
    for name, text in data.items():
        assert text == (INPOD / name).read_text("utf-8")


def test_scripts_import_nothing_but_ray_the_standard_library_and_each_other() -> None:
    allowed = set(sys.stdlib_module_names) | {"ray"} | {path.stem for path in INPOD.glob("*.py")}
    for path in INPOD.glob("*.py"):
        imported = {
            line.split()[1].split(".")[0]
            for line in map(str.strip, path.read_text("utf-8").splitlines())
            if line.startswith(("import ", "from "))
        }
        assert imported <= allowed, path.name


class FakeCluster:
    """A cluster of one head pod in which every command ends the same way."""

    def __init__(self, executed: Executed, *, head: bool = True) -> None:
        self.executed = executed
        self.head = head

    def list(self, resource: str, namespace: str, labels: str) -> list[dict[str, Any]]:
        pod = {"metadata": {"name": "head", "namespace": namespace}, "spec": {"containers": [{"name": "ray-head"}]}}
        return [pod] if self.head and "=head" in labels else []

    def exec(self, *_: object, **__: object) -> Executed:
        return self.executed


@pytest.mark.parametrize(
    ("cluster", "ok", "error"),
    [
        (FakeCluster(Executed(0, b'noise\n{"ok": true, "error": null}\n', b"")), True, None),
        (FakeCluster(Executed(1, b'{"ok": false, "error": "kv: no answer"}\n', b"")), False, "kv: no answer"),
        (FakeCluster(Executed(None, b"", b"pod died\n")), False, "no end was seen: pod died"),
        (FakeCluster(Executed(137, b"", b"")), False, "exit code 137"),
        (FakeCluster(Executed(0, b"", b""), head=False), False, "there is no head pod"),
    ],
)
def test_the_functional_probe_always_answers(cluster: FakeCluster, ok: bool, error: str | None) -> None:
    handle = RayClusterHandle("ns", "c", ft=True, workers=2)
    report = probes.functional(cluster, handle)  # type: ignore[arg-type]
    assert report["ok"] is ok
    assert report["error"] == error


def test_what_the_gcs_remembers(ray_address: str) -> None:
    made = answer(script("metadata.py", "--make", "--bundles=1", "--seconds=60", RAY_ADDRESS=ray_address))
    assert made["ok"]
    assert made["value"]
    [node] = made["nodes"]
    assert made["nodes"][node] == "head"
    assert made["groups"] == {"group": {"state": "CREATED", "nodes": [node]}}
    again = answer(script("metadata.py", "--seconds=60", RAY_ADDRESS=ray_address))
    assert again == {**made, "actors": again["actors"]}


class OneCommand(threading.Thread):
    """A server that wants a password and then repeats the command it got."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.start()

    def run(self) -> None:
        known = False
        connection, _ = self.server.accept()
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                words = [lines.readline() and lines.readline().strip() for _ in range(int(line[1:]))]
                known = known or words == [b"AUTH", b"s3cret"]
                told = b"-NOAUTH" if not known else b"+OK" if words[0] == b"AUTH" else b"+" + b" ".join(words)
                connection.sendall(told + b"\r\n")


@pytest.mark.parametrize(("options", "told"), [([], "-NOAUTH"), (["--log-in"], "+SET a b")])
def test_a_knock_tells_the_answer(options: list[str], told: str) -> None:
    server = OneCommand()
    port = str(server.server.getsockname()[1])
    knocked = script("knock.py", *options, "127.0.0.1", port, "SET", "a", "b", REDIS_PASSWORD="s3cret")
    assert answer(knocked) == {"reached": True, "answer": told}


def test_a_knock_tells_why_there_was_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    assert answer(script("knock.py", "127.0.0.1", port, "PING")) == {"reached": False, "error": "ECONNREFUSED"}
