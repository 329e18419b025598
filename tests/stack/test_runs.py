"""Runs as processes of their own on this stack: two at once, one that is interrupted, killed, or on a cluster of the user's.

They have a state folder of their own, in which the stack is the same: this session holds its lock in the other.
"""

import http.server
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from chaos.faults.undo import UndoLog
from chaos.paths import stack_dir
from chaos.settings import Source
from chaos.stack import orphans, ray
from chaos.stack.engine import labels
from chaos.waiting import until

pytestmark = pytest.mark.level("core")

ROOT = Path(__file__).parents[2]
END_SECONDS, HEAL_SECONDS = 15, 10
# Imports, the images, and a look at the stack, on a busy machine.
_START_SECONDS = 120
_NAMESPACE = "chaos-on-its-own-arm"

EXPERIMENT = """
from chaos.checks.head_kept import head_kept
from chaos.experiment import experiment
from chaos.faults.api_server_pause import ApiServerPause
from chaos.faults.delay import Delay
from chaos.faults.delete_pod import DeletePod
from chaos.faults.node_cordon import NodeCordon
from chaos.faults.stop_process import StopProcess
from chaos.settings import Level

@experiment(("FT-2", "arm"), seconds=60, level=Level.SMOKE)
def test_on_its_own(lab):
    pod = lab.witness(lab.namespace("arm"))
    {body}
"""
PAUSED = """
    with lab.inject(ApiServerPause("{control_plane}")):
        lab.cluster.list("pods")
"""
HELD = """
    node = next(node for node in lab.cluster.list("nodes") if node["metadata"]["name"] == pod["spec"]["nodeName"])
    with lab.inject(NodeCordon.of(node), Delay.of(pod, milliseconds=100), StopProcess.of(pod)) as fault:
        fault.hold(600)
"""
DELETED = """
    with lab.inject(DeletePod.of(pod)):
        pass
"""


class Process:
    """A run in a folder of its own."""

    def __init__(self, folder, body, options, **environment):
        self.folder = folder
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_it.py").write_text(EXPERIMENT.format(body=body.strip()))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "--chaos-level=smoke",
            *options,
            "test_it.py",
        ]
        self._output = (folder / "output").open("w")
        self.process = subprocess.Popen(
            command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT), **environment},
            stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    @property
    def output(self):
        return (self.folder / "output").read_text(errors="replace")

    def sees(self, step, *, times=1):
        """Wait until the history tells of that step so often."""

        def seen():
            assert self.process.poll() is None, self.output
            texts = [path.read_text() for path in self.folder.glob("results/*/history.jsonl")]
            return sum(text.count(f'"step":"{step}"') for text in texts) >= times

        until(seen, what=f"{step}, {times} times", deadline=_START_SECONDS, every=0.1)

    def ends(self, within):
        return self.process.wait(within)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
        self._output.close()


@pytest.fixture
def options(chaos_run):
    """What makes a run find this very stack."""
    settings, source = chaos_run.settings, chaos_run.stack.record.source
    versions = settings.versions
    chosen = [f"--chaos-archive={settings.archive}"] if source == Source.ARCHIVE else [f"--chaos-images={source}"]
    return [
        f"--chaos-name={settings.name}", f"--chaos-kuberay={versions.kuberay}", f"--chaos-ray={versions.ray}",
        f"--chaos-kubernetes={versions.kubernetes}", "--chaos-keep", *chosen,
    ]  # fmt: skip


@pytest.fixture
def elsewhere(chaos_run, tmp_path):
    """The environment in which this stack is held by nobody."""
    stacks = tmp_path / "state" / "stacks"
    stacks.mkdir(parents=True)
    (stacks / chaos_run.settings.name).symlink_to(stack_dir(chaos_run.settings.name))
    return {"KUBERAY_CHAOS_STATE": str(tmp_path / "state")}


@pytest.fixture
def start(chaos_run, tmp_path, options, elsewhere):
    """A function that starts a run; it is ended with the test, and its namespace goes."""
    started = []

    def begin(body, **environment):
        started.append(Process(tmp_path, body, options, **elsewhere, **environment))
        return started[-1]

    yield begin
    for each in started:
        each.close()
    ray.delete_namespace(chaos_run.stack.cluster, _NAMESPACE, 60)


def command(*words, timeout=60, **environment):
    """The command's exit code, what it said, and the seconds that it took."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "chaos", *words], env=os.environ | {"PYTHONPATH": str(ROOT), **environment},
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr, time.monotonic() - began


def test_a_second_run_is_refused_or_waits_and_is_told_by_whom(chaos_run):
    name = chaos_run.settings.name
    code, said, took = command("up", "--name", name)
    assert (code, f"in use by run {chaos_run.id} (process {os.getpid()}," in said) == (4, True), said
    assert took < 15
    code, said, waited = command("up", "--name", name, "--wait", "5")
    assert code == 4
    assert f"waiting up to 5 s for run {chaos_run.id}" in said
    assert waited >= 5
    code, said, _ = command("heal", "--name", name)
    assert (code, f"run {chaos_run.id}" in said) == (4, True), said


def test_an_interrupt_while_the_api_server_is_paused_ends_in_time_with_all_undone(chaos_run, cluster, start):
    run = start(PAUSED.format(control_plane=chaos_run.stack.kind.control_plane))
    run.sees("effect")
    time.sleep(1)  # a request is under way, which nobody answers
    began = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    assert run.ends(60) == 130, run.output
    assert time.monotonic() - began <= END_SECONDS
    assert cluster.get("namespaces", None, "default") is not None
    assert UndoLog(chaos_run.stack.folder.undo_log).pending() == []
    [history] = run.folder.glob("results/2*/history.jsonl")
    assert '"step":"undone"' in history.read_text()


def test_heal_undoes_in_time_what_a_killed_run_had_in_force(chaos_run, cluster, start, elsewhere):
    run, name = start(HELD), chaos_run.settings.name
    run.sees("effect", times=3)
    run.process.kill()
    run.ends(10)
    assert any(node["spec"].get("unschedulable") for node in cluster.list("nodes"))
    code, said, took = command("heal", "--name", name, **elsewhere)
    assert code == 0, said
    assert said.endswith("4 undone\n") or said.endswith("3 undone\n"), said
    assert took <= HEAL_SECONDS
    assert not any(node["spec"].get("unschedulable") for node in cluster.list("nodes"))
    assert command("heal", "--name", name, **elsewhere)[:2] == (0, "nothing to heal\n")


# --- a cluster of the user's ----------------------------------------------------------------------------------------


@pytest.fixture
def other_cluster(tmp_path):
    """What the user's own KUBECONFIG points to; whoever connects is remembered."""
    came = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def setup(self):
            came.append(self.client_address)
            super().setup()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = tmp_path / "ambient"
        cluster = {"name": "c", "cluster": {"server": f"https://127.0.0.1:{server.server_address[1]}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [cluster],
                    "contexts": [context], "users": [{"name": "u", "user": {"token": "t"}}],
                }
            )
        )  # fmt: skip
        yield path, came
        server.shutdown()


def outside(cluster):
    """What there is beyond namespaces of ours, by UID."""
    return {
        item["metadata"]["uid"]
        for resource in ("namespaces", "nodes", "deployments", "statefulsets", "daemonsets", "clusterroles", "pods")
        for item in cluster.list(resource)
        if not (item["metadata"].get("namespace") or item["metadata"]["name"]).startswith("chaos-")
    }


def test_a_cluster_of_the_users_is_used_by_its_file_and_context_alone(chaos_run, cluster, other_cluster, tmp_path):
    """This stack plays the user's cluster: it is known by nothing but a kubeconfig."""
    ambient, came = other_cluster
    file = tmp_path / "theirs"
    shutil.copy(chaos_run.stack.folder.kubeconfig, file)
    [context] = [each["name"] for each in yaml.safe_load(file.read_text())["contexts"]]
    before, others = outside(cluster), (ambient.read_bytes(), file.read_bytes())
    run = Process(
        tmp_path, DELETED, [f"--chaos-kubeconfig={file}", f"--chaos-context={context}"], KUBECONFIG=str(ambient),
        KUBERAY_CHAOS_STATE=str(tmp_path / "own-state"),
        PATH=f"{chaos_run.stack.folder.root}:{os.environ['PATH']}",
    )  # fmt: skip
    try:
        assert run.ends(2 * _START_SECONDS) == 2, run.output  # nothing was expected, so nothing is judged
    finally:
        run.close()
    [history] = run.folder.glob("results/2*/history.jsonl")
    assert '"step":"effect"' in history.read_text()
    assert (ambient.read_bytes(), file.read_bytes()) == others
    assert came == []
    assert before <= outside(cluster)
    assert cluster.get("namespaces", None, _NAMESPACE) is None, "what it made is gone"


# --- orphans --------------------------------------------------------------------------------------------------------


def test_what_dead_runs_left_is_listed_and_removed_and_nothing_else(chaos_run, tmp_path):
    engine, image = chaos_run.stack.engine, chaos_run.stack.record.node_image
    of_stack, of_this = (
        labels("dead-run", tmp_path / "dead-run"),
        labels(chaos_run.settings.name, chaos_run.stack.folder.root),
    )
    names = {"dead-run-net", "dead-run-probe", "dead-proxy"}
    engine.docker("network", "create", *of_stack, "dead-run-net")
    try:
        engine.docker("create", *of_stack, "--network=dead-run-net", "--name=dead-run-probe", image)
        engine.docker("create", *of_this, "--name=dead-proxy", image)
        code, said, _ = command("down", "--orphans")
        assert code == 0
        assert "container dead-run-probe, 0 min old: its stack's folder is gone" in said
        assert "network dead-run-net" in said
        assert "dead-proxy" not in said, "the stack is held by a run, to which it may belong"
        assert chaos_run.stack.kind.control_plane not in said
        mine = [orphan for orphan in orphans.find(engine) if orphan.name in names]
        removed, failed = orphans.remove(engine, mine)
        assert ({orphan.name for orphan in removed}, failed) == ({"dead-run-net", "dead-run-probe"}, [])
        assert engine.inspect("network", "dead-run-net") is None
        assert set(chaos_run.stack.kind.running_nodes()) == set(chaos_run.stack.kind.nodes())
    finally:
        for container in ("dead-run-probe", "dead-proxy"):
            engine.docker("rm", "--force", container, check=False)
        engine.docker("network", "rm", "dead-run-net", check=False)
