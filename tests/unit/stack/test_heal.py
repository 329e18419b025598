"""Healing: what is there to heal, what keeps it from being healed, and one message for each. Docker and the cluster are fakes."""

from types import SimpleNamespace

import pytest

from chaos import cli
from chaos.errors import StackError
from chaos.faults import undo
from chaos.faults.undo import Undo, UndoLog
from chaos.paths import stack_dir
from chaos.process import Executed
from chaos.settings import Settings
from chaos.stack import stack
from chaos.stack.kind import StackFolder
from chaos.stack.record import GIVEN, StackRecord


class FakeCluster:
    def __init__(self):
        self.broken = {"a", "b"}
        self.answers = True

    def request(self, method, path, *, timeout):
        if not self.answers:
            raise StackError("the API server of demo did not answer GET /version: refused")


@pytest.fixture
def cluster(monkeypatch):
    fake = FakeCluster()

    def repair(cluster, what):
        cluster.request("PATCH", what["name"], timeout=30)
        cluster.broken.discard(what["name"])

    undo.load_faults()
    monkeypatch.setattr(undo, "_UNDOERS", {**undo._UNDOERS, "repair": undo._Registered(repair, {"name": str})})
    monkeypatch.setattr(stack, "Cluster", lambda *arguments, **options: fake)
    return fake


@pytest.fixture
def docker(monkeypatch):
    """What Docker answers; the nodes it has."""
    state = SimpleNamespace(answer=Executed(0, b"27", b""), nodes=["demo-control-plane"])
    monkeypatch.setattr(stack.docker_engine, "reachable", lambda: state.answer)
    monkeypatch.setattr(stack, "node_names", lambda engine, name: state.nodes)
    return state


@pytest.fixture
def log(cluster, docker):
    """The log of a run that died with two faults in force."""
    folder = StackFolder(stack_dir("demo"))
    folder.create()
    folder.kubeconfig.touch()
    log = UndoLog(folder.undo_log)
    for name in "ab":
        log.append(f"fault-{name}", [Undo("repair", {"name": name})])
    return log


@pytest.fixture
def heal(capfd):
    """The command: its exit code, and what it said."""

    def call():
        code = cli.main(["heal", "--name", "demo"])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return call


def test_what_a_dead_run_left_is_undone_and_told_and_a_second_time_there_is_nothing(cluster, log, heal):
    assert heal() == (0, "fault-b: repair undone\nfault-a: repair undone\n2 undone\n", "")
    assert not cluster.broken
    assert heal() == (0, "nothing to heal\n", "")


def test_a_line_that_cannot_be_read_is_told_and_fails_the_command_with_the_rest_healed(cluster, log, heal):
    with log.path.open("a") as file:
        file.write("edited by hand\n")
    code, out, err = heal()
    assert code == 4
    assert not cluster.broken
    assert "fault-a: repair undone" in out
    assert f"2 undone, not healed: line 3 of {log.path} can't be read: it is not JSON" in err
    code, out, err = heal()
    assert (code, out) == (4, "")
    assert "line 3" in err


def test_an_api_server_that_does_not_answer_is_told_once(cluster, log, heal):
    cluster.answers = False
    code, _, err = heal()
    assert code == 4
    assert err.count("did not answer") == 1
    assert "2 of 2 undos are left" in err
    assert len(err.splitlines()) == 2
    cluster.answers = True
    assert heal()[0] == 0


def test_without_docker_nothing_is_tried(cluster, docker, log, heal):
    docker.answer = Executed(1, b"", b"Cannot connect to the Docker daemon")
    code, out, err = heal()
    assert (code, out) == (4, "")
    assert "Cannot connect to the Docker daemon" in err
    assert "2 undos of the stack demo" in err
    assert len(log.pending()) == 2


@pytest.mark.parametrize("gone", ["nodes", "kubeconfig"])
def test_a_cluster_that_is_gone_needs_no_healing_but_removal(docker, log, heal, gone):
    if gone == "nodes":
        docker.nodes = []
    else:
        StackFolder(stack_dir("demo")).kubeconfig.unlink()
    code, _, err = heal()
    assert code == 4
    assert "is gone" in err
    assert "kuberay-chaos down" in err


@pytest.fixture
def given(log):
    """The stack is none of ours, but a cluster of the user's."""
    StackRecord("", "", GIVEN, {}, sealed=False, manifests="").save(stack.record_path(stack_dir("demo")))


@pytest.mark.usefixtures("given")
def test_a_cluster_of_the_users_is_healed_without_docker(cluster, docker, log, heal):
    docker.answer, docker.nodes = Executed(1, b"", b"no Docker"), []
    assert heal() == (0, "fault-b: repair undone\nfault-a: repair undone\n2 undone\n", "")
    assert not cluster.broken


@pytest.mark.usefixtures("given")
def test_what_is_kept_of_a_cluster_of_the_users_goes_once_it_is_healed(cluster, docker, log, heal, capfd):
    docker.answer = Executed(1, b"", b"no Docker")
    assert cli.main(["down", "--name", "demo"]) == 4
    assert "`kuberay-chaos heal --name demo` first" in capfd.readouterr().err
    assert len(log.pending()) == 2
    heal()
    assert cli.main(["down", "--name", "demo"]) == 0
    assert not stack_dir("demo").exists()


def test_nothing_is_asked_where_there_is_nothing_to_heal(docker):
    docker.answer = Executed(1, b"", b"no Docker")
    assert stack.heal_running(Settings(name="demo")) == ([], [])


# --- by `up` --------------------------------------------------------------------------------------------------------


@pytest.fixture
def kind(monkeypatch, cluster):
    """A stack that is up and of the same inputs; what is asked of it is noted in order."""
    kind = SimpleNamespace(
        name="demo", engine=None, folder=StackFolder(stack_dir("demo")), asked=[],
        nodes=lambda: ["demo-control-plane"], running_nodes=lambda: kind.asked.append("nodes") or ["demo-control-plane"],
    )  # fmt: skip
    record = stack.StackRecord("", "", "", {}, True, "")
    monkeypatch.setattr(stack.StackRecord, "load", lambda path: record)
    monkeypatch.setattr(stack, "_cluster", lambda kind, engine: cluster)
    monkeypatch.setattr(stack, "wait_for_nodes", lambda *a, **k: kind.asked.append(f"broken: {sorted(cluster.broken)}"))
    monkeypatch.setattr(stack.kuberay, "require_available", lambda cluster: None)
    monkeypatch.setattr(stack.redis, "assert_agreed", lambda cluster: None)
    monkeypatch.setattr(stack.redis, "wait_agreed", lambda cluster: kind.asked.append("Redis agrees"))
    kind.record = record
    return kind


def test_up_heals_before_it_judges_the_stacks_health(kind, log, console):
    assert stack._unusable(kind, kind.record, console) is None
    assert kind.asked == ["nodes", "Redis agrees", "broken: []"]
    kind.asked.clear()
    assert stack._unusable(kind, kind.record, console) is None
    assert kind.asked == ["nodes", "broken: []"], "where nothing was healed nothing is waited for"


def test_a_stack_that_cannot_be_healed_is_not_used_again(kind, cluster, log, console):
    with log.path.open("a") as file:
        file.write("edited by hand\n")
    assert "line 3" in stack._unusable(kind, kind.record, console)
    assert not cluster.broken
