"""The tear-down: heals first, removes what it can within its time, and names the rest with the command that removes it."""

import io
import shlex
from types import SimpleNamespace

import pytest

from chaos.console import Console
from chaos.errors import StackError
from chaos.faults import undo
from chaos.faults.undo import Undo, UndoLog
from chaos.history.store import HistoryWriter
from chaos.lab import Lab
from chaos.process import Executed
from chaos.stack import leftovers, ray

UID = "11111111-2222-3333-4444-555555555555"
CLEANUP = "ray.io/gcs-ft-redis-cleanup-finalizer"


class FakeCluster:
    """A Ray cluster in a namespace; its clean-up ends when Redis can be reached, and leaves keys when told so."""

    def __init__(self):
        self.reachable = False  # Redis, for the clean-up
        self.keys = f"RAY{UID}@KV\nRAY{UID}@JOB\n"
        self.roles = {"redis-0": "slave", "redis-1": "master", "redis-2": "slave"}
        self.namespaces = {"chaos-a": {"labels": {"kuberay-chaos/owned": "true"}, "uid": "n1", "name": "chaos-a"}}
        self.ray = [{"metadata": {"name": "ray", "namespace": "chaos-a", "uid": UID, "finalizers": [CLEANUP]}}]
        self.asked = []
        self.answers = True
        self.pods_hang = False

    def _ask(self, *what):
        if not self.answers:
            raise StackError("the API server of demo did not answer")
        self.asked.append(what)

    def get(self, kind, namespace, name):
        self._ask("get", kind, name)
        found = self.namespaces.get(name)
        if found is None:
            return None
        conditions = [
            {"status": "True", "message": "Some resources are remaining: pods. has 1 resource instances"},
            {"status": "False", "message": "All content successfully deleted"},
        ]
        return {"metadata": found, "status": {"conditions": conditions if "deleted" in found else []}}

    def list(self, kind, namespace=None):
        self._ask("list", kind, namespace)
        return list(self.ray) if kind == "rayclusters" else []

    def delete(self, kind, namespace, name, *, uid=None):
        self._ask("delete", kind, name)
        if kind == "rayclusters" and self.reachable:
            self.ray, self.keys = [], ""
        elif kind == "namespaces" and not self.pods_hang:
            self.namespaces.pop(name)
        elif kind == "namespaces":
            self.namespaces[name]["deleted"] = "now"
        return True

    def exec(self, namespace, pod, argv, *, container, timeout):
        role = self.roles[pod]
        return Executed(0, f"{role}\n{self.keys}".encode(), b"") if role else Executed(1, b"", b"refused")

    def kubectl_command(self, argv):
        return ["kubectl", "--kubeconfig=/state/kubeconfig", *argv]

    def exec_command(self, namespace, pod, argv, *, container):
        return self.kubectl_command(["exec", f"--namespace={namespace}", pod, f"--container={container}", "--", *argv])


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("chaos.lab.REMOVAL_SECONDS", 0.4)


@pytest.fixture
def cluster(monkeypatch):
    def reach(cluster, what):
        cluster._ask("heal")
        cluster.reachable = True

    undo.load_faults()
    monkeypatch.setattr(undo, "_UNDOERS", {**undo._UNDOERS, "reach": undo._Registered(reach, {})})
    return FakeCluster()


@pytest.fixture
def close(cluster, tmp_path):
    """Close a lab that made the namespace; what it said."""
    log, said = UndoLog(tmp_path / "undo.jsonl"), io.StringIO()
    writer = HistoryWriter(tmp_path / "history.jsonl")

    def call():
        lab = Lab(
            cluster=cluster, writer=writer, injector=SimpleNamespace(log=log, injections=["black-hole-1"]),
            console=Console(said), images={}, ray_version="", ledger=tmp_path,
            other_operator=None,
        )  # fmt: skip
        lab._namespaces.append("chaos-a")
        lab.close()
        return said.getvalue()

    call.log = log
    yield call
    writer.close()


def test_a_fault_that_is_still_in_force_is_undone_before_anything_is_deleted(cluster, close):
    close.log.append("black-hole-1", [Undo("reach", {})])
    said = close()
    assert cluster.asked[0] == ("heal",)
    assert "healed: black-hole-1: reach undone" in said
    assert "still there" not in said
    assert (cluster.ray, cluster.namespaces, close.log.pending()) == ([], {}, [])


def test_what_another_experiment_has_in_force_is_left_to_it(cluster, close):
    close.log.append("of-another-1", [Undo("reach", {})])
    assert "healed" not in close()
    assert len(close.log.pending()) == 1


def test_a_clean_up_that_does_not_end_is_named_with_the_command_that_ends_it(cluster, close):
    said = close()
    assert f"still there: rayclusters/ray in chaos-a (held by {CLEANUP})" in said
    command = shlex.split(said.split("it is removed by: ")[1].splitlines()[0])
    assert command == [
        "kubectl", "--kubeconfig=/state/kubeconfig", "patch", "--namespace=chaos-a", "rayclusters", "ray", "--type=merge",
        '--patch={"metadata":{"finalizers":null}}',
    ]  # fmt: skip
    assert "chaos-a" in cluster.namespaces, "no Job of the clean-up could be made in a namespace that is being deleted"
    assert "keys" not in said, "the cluster is still there, so its keys are its own"


def test_keys_of_a_cluster_that_is_gone_are_named_with_the_command_for_the_primary(cluster, close):
    cluster.ray = []
    said = close()
    assert f"keys in Redis of the Ray cluster {UID}, which is no more" in said
    command = shlex.split(said.split("it is removed by: ")[1].splitlines()[0])
    assert command[:5] == [
        "kubectl", "--kubeconfig=/state/kubeconfig", "exec", "--namespace=kuberay-chaos-redis", "redis-1",
    ]  # fmt: skip
    assert command[-1] == UID
    assert UID not in command[-2], "the script takes it as an argument"


def test_a_redis_without_a_primary_is_said_to_hold_perhaps_keys(cluster, close):
    cluster.ray = []
    cluster.roles = {"redis-0": "slave", "redis-1": "", "redis-2": "slave"}
    assert "still there: perhaps keys in Redis, which has no primary that answers" in close()


def test_a_namespace_that_does_not_go_is_named_with_what_kubernetes_says(cluster, close):
    cluster.reachable = cluster.pods_hang = True
    said = close()
    assert "still there: namespaces/chaos-a (Some resources are remaining: pods. has 1 resource instances)" in said
    assert "delete pods --all --namespace=chaos-a --force" in said


def test_an_api_server_that_does_not_answer_is_told_and_ends_nothing_else(cluster, close):
    close.log.append("black-hole-1", [Undo("reach", {})])
    cluster.answers = False
    said = close()
    assert "not healed: black-hole-1" in said
    assert "namespaces/chaos-a (the API server of demo did not answer)" in said
    assert len(close.log.pending()) == 1


def test_a_namespace_that_is_not_ours_is_never_deleted(cluster):
    cluster.namespaces["chaos-a"]["labels"] = {}
    with pytest.raises(StackError, match="not ours"):
        ray.delete_namespace(cluster, "chaos-a", 1)
    assert not [what for what in cluster.asked if what[0] == "delete"]


def test_an_object_that_nothing_holds_is_deleted_by_its_name(cluster):
    item = {"metadata": {"name": "job", "namespace": "chaos-a"}}
    assert "delete --namespace=chaos-a rayjobs job" in leftovers.held_object(cluster, "rayjobs", item).remove
