"""What dead runs left: told from what lives, listed without being touched, removed when asked. Docker is a fake."""

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaos import cli
from chaos.errors import EngineError
from chaos.locks import abandoned, hold
from chaos.paths import stack_dir
from chaos.process import Executed
from chaos.stack import engine as docker_engine
from chaos.stack import orphans, stack
from chaos.stack.engine import FOLDER_LABEL, STACK_LABEL
from chaos.stack.images.bake import BAKE_LABEL
from chaos.stack.kind import CLUSTER_LABEL
from chaos.stack.record import GIVEN, StackRecord

DIES = """
import os, signal, sys
from pathlib import Path
from chaos.locks import hold
with hold(Path(sys.argv[1]), who="run x"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


class FakeEngine:
    """Containers and networks, each a name with its labels and hours of age."""

    def __init__(self):
        self.things = {"container": {}, "network": {}}
        self.commands = []
        self.in_use = set()

    def add(self, kind, name, hours=5.0, **labels):
        self.things[kind][name] = (labels, hours)

    def stack(self, name, folder=None):
        """The network and nodes of a stack that was stood up from the folder."""
        labels = {STACK_LABEL: name} | ({FOLDER_LABEL: str(folder)} if folder else {})
        self.add("network", f"{name}-net", **labels)
        for node in (f"{name}-control-plane", f"{name}-worker"):
            self.add("container", node, **{CLUSTER_LABEL: name})

    def docker(self, *args, timeout=60):
        self.commands.append(args)
        match args:
            case ["ps", "--all", "--filter", wanted, *_]:
                return self._listed("container", wanted)
            case ["network", "ls", "--filter", wanted, *_]:
                return self._listed("network", wanted)
            case ["rm", "--force", "--volumes", name]:
                del self.things["container"][name]
            case ["network", "rm", name]:
                if name in self.in_use:
                    raise EngineError(f"network {name} has active endpoints")
                del self.things["network"][name]
            case _:
                pytest.fail(f"docker {args}")
        return Executed(0, b"", b"")

    def _listed(self, kind, wanted):
        key, _, value = wanted.removeprefix("label=").partition("=")
        names = [n for n, (labels, _) in self.things[kind].items() if key in labels and value in ("", labels[key])]
        return Executed(0, "\n".join(names).encode(), b"")

    def inspect(self, kind, name):
        labels, hours = self.things[kind][name]
        created = (datetime.now(UTC) - timedelta(hours=hours)).isoformat().replace("+00:00", "123Z")  # nanoseconds
        return {"Created": created} | ({"Config": {"Labels": labels}} if kind == "container" else {"Labels": labels})


@pytest.fixture
def engine(monkeypatch):
    fake = FakeEngine()
    monkeypatch.setattr(docker_engine, "Engine", lambda: fake)
    monkeypatch.setattr(docker_engine, "reachable", lambda: Executed(0, b"27", b""))
    monkeypatch.setattr(docker_engine, "stop", lambda console: fake.commands.append("stop"))
    return fake


def folder_of(name, *, complete=True):
    folder = stack_dir(name)
    folder.mkdir(parents=True)
    if complete:
        stack.record_path(folder).write_text("{}")
    return folder


def names(engine):
    return [(orphan.kind, Path(orphan.name).name) for orphan in orphans.find(engine)]


def die_holding(path):
    """A process takes the lock and is killed."""
    subprocess.run([sys.executable, "-c", DIES, str(path)], check=False)


def test_a_stack_that_is_up_is_no_orphan(engine):
    engine.stack("demo", folder_of("demo"))
    engine.stack("older", None)  # made before networks had the label of their folder
    folder_of("older")
    assert names(engine) == []


def test_what_no_folder_knows_of_is_an_orphan_and_a_network_comes_after_its_containers(engine):
    engine.stack("demo", stack_dir("demo"))
    assert sorted(names(engine)) == [("network", "demo-net"), ("node", "demo-control-plane"), ("node", "demo-worker")]
    removed, failed = orphans.remove(engine, orphans.find(engine))
    assert (len(removed), failed) == (3, [])
    assert engine.commands[-1] == ("network", "rm", "demo-net")
    assert not stack.lock_path("demo").exists()


def test_a_stack_of_another_state_folder_is_judged_by_that_folder(engine, tmp_path):
    elsewhere = tmp_path / "other" / "stacks" / "demo"
    elsewhere.mkdir(parents=True)
    stack.record_path(elsewhere).touch()
    engine.stack("demo", elsewhere)
    assert names(engine) == []
    folder_of("demo")  # of this state folder, whose cluster is gone
    assert names(engine) == [("folder", "demo")]


def test_a_folder_whose_cluster_is_gone(engine):
    folder = folder_of("demo")
    assert names(engine) == [("folder", "demo")]
    orphans.remove(engine, orphans.find(engine))
    assert not folder.exists()


def test_a_stand_up_that_was_never_completed(engine):
    engine.stack("demo", folder_of("demo", complete=False))
    assert {kind for kind, _ in names(engine)} == {"node", "network", "folder"}


def test_a_foreign_cluster_of_the_same_name_is_left_alone(engine):
    folder_of("demo")
    engine.add("container", "demo-control-plane", **{CLUSTER_LABEL: "demo"})
    assert names(engine) == [("folder", "demo")]


def test_what_is_kept_of_a_cluster_of_the_users_is_no_orphan(engine):
    folder = folder_of("given-0123456789", complete=False)
    StackRecord("", "", GIVEN, {}, sealed=False, manifests="").save(stack.record_path(folder))
    assert names(engine) == []


@pytest.mark.parametrize("complete", [True, False])
def test_nothing_of_a_stack_is_an_orphan_while_a_run_holds_it(engine, complete):
    engine.stack("demo", folder_of("demo", complete=complete))
    engine.add("network", "demo-net-outside", **{STACK_LABEL: "demo", FOLDER_LABEL: str(stack_dir("demo"))})
    with hold(stack.lock_path("demo"), who="run"):
        assert names(engine) == []
    assert ("network", "demo-net-outside") in names(engine), "it lives no longer than the run"


def test_a_run_that_begins_meanwhile_keeps_its_stack(engine):
    engine.stack("demo", folder_of("demo", complete=False))
    folder_of("other")
    found = orphans.find(engine)
    with hold(stack.lock_path("demo"), who="run 7"):
        removed, failed = orphans.remove(engine, found)
    assert [orphan.stack for orphan in removed] == ["other"]
    assert len(failed) == 1
    assert "run 7" in failed[0]
    assert "demo-worker" in engine.things["container"]


def test_a_lock_whose_holder_died_is_listed_by_name_and_can_be_cleared(engine):
    engine.stack("demo", folder_of("demo"))
    die_holding(stack.lock_path("demo"))
    [found] = orphans.find(engine)
    assert found.kind == "lock"
    assert "run x" in str(found)
    orphans.remove(engine, [found])
    assert abandoned(stack.lock_path("demo")) is None
    assert orphans.find(engine) == []
    assert stack_dir("demo").exists(), "the stack itself is left"


def test_a_bake_is_an_orphan_by_age(engine):
    engine.add("container", "kuberay-chaos-bake-1", hours=0.2, **{BAKE_LABEL: "true"})
    engine.add("container", "kuberay-chaos-bake-2", hours=30, **{BAKE_LABEL: "true"})
    [found] = orphans.find(engine)
    assert str(found).startswith("container kuberay-chaos-bake-2, 30 h old: ")


def test_what_cannot_be_removed_keeps_nothing_else(engine):
    for name in ("a", "b"):
        engine.stack(name, stack_dir(name))
    engine.in_use = {"a-net"}
    removed, failed = orphans.remove(engine, orphans.find(engine))
    assert failed == ["a: network a-net has active endpoints"]
    assert {orphan.name for orphan in removed} == {
        "a-control-plane",
        "a-worker",
        "b-control-plane",
        "b-worker",
        "b-net",
    }


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def down(capfd):
    def call(*arguments):
        code = cli.main(["down", *arguments])
        return (code, *capfd.readouterr())

    return call


def test_listing_removes_nothing(engine, down):
    engine.stack("demo", stack_dir("demo"))
    before = json.dumps(engine.things)
    code, out, _ = down("--orphans")
    assert code == 0
    assert "node demo-worker, 5 h old: its stack's folder is gone\n" in out
    assert "3 left behind; `kuberay-chaos down --orphans --yes` removes them" in out
    assert json.dumps(engine.things) == before


def test_yes_removes_all_and_then_there_is_nothing(engine, down):
    engine.stack("demo", stack_dir("demo"))
    code, out, _ = down("--orphans", "--yes")
    assert (code, out.splitlines()[-1]) == (0, "3 removed")
    assert engine.things == {"container": {}, "network": {}}
    assert engine.commands[-1] == "stop", "an engine of ours that nothing runs in any more"
    assert down("--orphans")[1] == "no run that died has left anything\n"


def test_yes_alone_is_refused(engine, down):
    code, _, err = down("--yes")
    assert code == 3
    assert "--orphans" in err
    assert engine.commands == []


def test_without_docker_nothing_is_called_an_orphan(engine, down, monkeypatch):
    folder_of("demo")
    monkeypatch.setattr(docker_engine, "reachable", lambda: Executed(1, b"", b"Cannot connect"))
    code, out, err = down("--orphans", "--yes")
    assert (code, out) == (4, "")
    assert "Cannot connect" in err
    assert stack_dir("demo").exists()


def test_ages_are_read_as_docker_writes_them():
    assert orphans._since("not a time") == 0
    assert (
        3500 < orphans._since((datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.123456789Z")) < 3700
    )
    assert orphans._since(datetime.fromtimestamp(time.time() + 60, UTC).isoformat()) == 0, "a clock that was set back"
