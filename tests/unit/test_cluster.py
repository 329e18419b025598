"""The handle to a cluster: what refusals, time-outs and deaths on the way become."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos import signals
from chaos.errors import StackError
from chaos.process import Executed
from chaos.stack import cluster as module
from chaos.stack.cluster import RESOURCES, ApiError, Cluster


def kubeconfig(folder: Path, **of_cluster: object) -> Path:
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **of_cluster}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path


def kubectl(folder: Path, script: str) -> Path:
    """A stand-in for kubectl that runs a line of shell, with the arguments in ``$@``."""
    path = folder / "kubectl"
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster("c", kubeconfig(tmp_path), "kubectl")


class Refusing:
    """A connection pool that always gives the same answer, and remembers what it was asked."""

    def __init__(self, status: int, body: object) -> None:
        self.status = status
        self.data = json.dumps(body).encode()
        self.asked: dict[str, Any] = {}

    def request(self, method: str, url: str, **asked: Any) -> "Refusing":
        self.asked = {"method": method, "url": url, **asked}
        return self


def answering(cluster: Cluster, status: int, body: object) -> Refusing:
    pool = Refusing(status, body)
    cluster.api.rest_client.pool_manager = pool
    return pool


def test_a_kubeconfig_that_turns_verification_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="without verifying"):
        Cluster("c", kubeconfig(tmp_path, **{"insecure-skip-tls-verify": True}))


def test_a_kubeconfig_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="can't be used"):
        Cluster("c", tmp_path / "nothing")


def test_the_ambient_proxy_is_not_asked_for_a_cluster_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:1")
    assert Cluster("c", kubeconfig(tmp_path)).api.configuration.proxy is None


def test_paths() -> None:
    assert RESOURCES["pods"].path("pods", "ns", "p") == "/api/v1/namespaces/ns/pods/p"
    assert RESOURCES["pods"].path("pods", None) == "/api/v1/pods"
    assert RESOURCES["nodes"].path("nodes", None, "n") == "/api/v1/nodes/n"
    assert RESOURCES["rayjobs"].path("rayjobs", "ns", "j") == "/apis/ray.io/v1/namespaces/ns/rayjobs/j"


def test_what_is_not_there_is_none(cluster: Cluster) -> None:
    answering(cluster, 404, {"message": "no", "reason": "NotFound"})
    assert cluster.get("pods", "ns", "p") is None
    assert cluster.delete("pods", "ns", "p") is False


def test_a_deletion_by_uid_spares_the_namesake(cluster: Cluster) -> None:
    pool = answering(cluster, 409, {"message": "the UID differs", "reason": "Conflict"})
    assert cluster.delete("pods", "ns", "p", uid="u-1", grace=0) is False
    sent = json.loads(pool.asked["body"])
    assert sent["preconditions"] == {"uid": "u-1"}
    assert sent["gracePeriodSeconds"] == 0


def test_a_refusal_says_who_what_and_why(cluster: Cluster) -> None:
    answering(cluster, 403, {"message": "you may not", "reason": "Forbidden"})
    with pytest.raises(ApiError, match="GET /api/v1/namespaces/ns/pods/p: 403 Forbidden: you may not") as caught:
        cluster.get("pods", "ns", "p")
    assert caught.value.status == 403


def test_no_answer_is_a_stack_error(cluster: Cluster) -> None:
    with pytest.raises(StackError, match="did not answer"):
        cluster.list("nodes")


def test_patches_are_of_the_kind_that_the_body_is(cluster: Cluster) -> None:
    pool = answering(cluster, 200, {})
    cluster.patch("pods", "ns", "p", {"metadata": {"labels": {"a": None}}})
    assert pool.asked["headers"]["Content-Type"] == "application/merge-patch+json"
    cluster.patch("rayjobs", "ns", "j", [{"op": "remove", "path": "/status/reason"}], subresource="status")
    assert pool.asked["headers"]["Content-Type"] == "application/json-patch+json"
    assert pool.asked["url"].endswith("/rayjobs/j/status")
    assert pool.asked["headers"]["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("printf out", Executed(0, b"out", b"")),
        ("echo said >&2; echo 'command terminated with exit code 3' >&2; exit 3", Executed(3, b"", b"said\n")),
        (
            "echo 'error: unable to upgrade connection' >&2; exit 1",
            Executed(None, b"", b"error: unable to upgrade connection\n"),
        ),
        ("echo half; kill -9 $$", Executed(None, b"half\n", b"")),
    ],
)
def test_a_commands_own_exit_code_is_told_from_kubectls(tmp_path: Path, script: str, expected: Executed) -> None:
    handle = Cluster("c", kubeconfig(tmp_path), kubectl(tmp_path, script))
    assert handle.exec("ns", "p", ["true"], timeout=10) == expected


def test_a_command_that_hangs_is_left_at_the_time_out_with_what_it_said(tmp_path: Path) -> None:
    # The child keeps the output open, as a connection to a dead kubelet would.
    handle = Cluster("c", kubeconfig(tmp_path), kubectl(tmp_path, "echo begun; sleep 60 & wait"))
    began = time.monotonic()
    executed = handle.exec("ns", "p", ["true"], timeout=0.5)
    assert time.monotonic() - began < 5
    assert executed.code is None
    assert executed.stdout == b"begun\n"
    assert b"no end within 0.5 s" in executed.stderr


def test_exec_names_the_kubeconfig_the_container_and_the_input(tmp_path: Path) -> None:
    handle = Cluster("c", kubeconfig(tmp_path), kubectl(tmp_path, 'echo "$@"; cat'), context="c")
    executed = handle.exec("ns", "p", ["sh", "-c", "x y"], container="redis", stdin=b"in", timeout=10)
    line, rest = executed.stdout.split(b"\n", 1)
    assert f"--kubeconfig={tmp_path / 'kubeconfig'}".encode() in line
    assert b"--context=c exec --namespace=ns p --stdin --container=redis -- sh -c x y" in line
    assert rest == b"in"


def test_apply_passes_documents_on_standard_input_only(tmp_path: Path) -> None:
    handle = Cluster(
        "c", kubeconfig(tmp_path), kubectl(tmp_path, f'echo "$@" > {tmp_path}/args; cat > {tmp_path}/input')
    )
    handle.apply([{"kind": "Secret", "stringData": {"password": "s3cret"}}, {"kind": "Namespace"}])
    assert "s3cret" not in (tmp_path / "args").read_text()
    assert [d["kind"] for d in yaml.safe_load_all((tmp_path / "input").read_text())] == ["Secret", "Namespace"]


def test_a_failed_apply_says_why(tmp_path: Path) -> None:
    handle = Cluster("c", kubeconfig(tmp_path), kubectl(tmp_path, "echo no such kind >&2; exit 1"))
    with pytest.raises(StackError, match="kubectl apply: the command exited with 1: no such kind"):
        handle.apply([])


def test_a_foreign_clusters_nodes_cannot_be_entered(cluster: Cluster) -> None:
    with pytest.raises(StackError, match="not a cluster of ours"):
        cluster.node_exec("n", ["true"])
    with pytest.raises(StackError, match="not a cluster of ours"):
        cluster.node_control.stop("n", at_once=True)


@pytest.mark.parametrize(
    ("resource", "spec", "status", "missing"),
    [
        ("deployments", {"replicas": 2}, {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}, ""),
        ("deployments", {"replicas": 1}, {"replicas": 2, "updatedReplicas": 1, "readyReplicas": 2}, "2 replicas"),
        ("statefulsets", {"replicas": 3}, {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 2}, "2 ready"),
        ("daemonsets", {}, {}, "no node"),
        ("daemonsets", {}, {"desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberReady": 3}, ""),
    ],
)
def test_rolled_out(resource: str, spec: dict[str, Any], status: dict[str, Any], missing: str) -> None:
    found = {"metadata": {"generation": 1}, "spec": spec, "status": {"observedGeneration": 1, **status}}
    said = module._not_rolled_out(resource, found)
    assert missing in said
    assert bool(said) is bool(missing)


def test_an_older_generation_is_not_rolled_out() -> None:
    found = {"metadata": {"generation": 2}, "spec": {}, "status": {"observedGeneration": 1}}
    assert "newest" in module._not_rolled_out("deployments", found)


def test_a_kubectl_that_cannot_run_is_no_answer_of_the_pod(tmp_path: Path) -> None:
    handle = Cluster("c", kubeconfig(tmp_path), tmp_path / "missing")
    executed = handle.exec("ns", "p", ["true"], timeout=1)
    assert executed.code is None
    assert b"can't be run" in executed.stderr


def test_an_answer_is_not_waited_for_beyond_the_end(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "_state", signals._State())
    monkeypatch.setattr(signals, "END_SECONDS", 0.0)

    class Silent:
        @staticmethod
        def request(method: str, url: str, **options: Any) -> None:
            signals._state.asked = time.monotonic()
            time.sleep(30)

    cluster.api.rest_client.pool_manager = Silent()
    began = time.monotonic()
    with pytest.raises(StackError, match=r"did not answer GET .* before the end"):
        cluster.get("pods", "ns", "p")
    assert time.monotonic() - began < 5
