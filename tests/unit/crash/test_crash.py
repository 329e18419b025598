"""The crash tests tested: every fault has a row, pairs are what the seed says, death is where it was ordered."""

import inspect
import pkgutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from chaos import faults
from chaos.faults.base import Fault
from tests.crash import pairs, snapshot
from tests.crash.kinds import KINDS
from tests.crash.pairs import draw
from tests.crash.points import PENDING, Orders, points

ROOT = Path(__file__).parents[3]


def fault_classes():
    modules = [import_module(f"chaos.faults.{module.name}") for module in pkgutil.iter_modules(faults.__path__)]
    found = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    ours = {value for value in found if issubclass(value, Fault) and not inspect.isabstract(value)}
    return {value for value in ours if value.__module__.startswith("chaos.faults.")}


def test_every_fault_has_a_row_in_the_table():
    without = fault_classes() - {row.fault for row in KINDS.values()}
    assert not without, "make a row of tests/crash/kinds.py for each"
    assert len(fault_classes()) >= 5


# --- pairs ----------------------------------------------------------------------------------------------------------


def test_pairs_are_the_seeds_and_a_sample_is_the_beginning_of_the_whole():
    whole = draw("7", 200, list(KINDS))
    assert draw("7", 200, list(KINDS)) == whole
    assert draw("7", 20, list(KINDS)) == whole[:20]
    assert draw("8", 200, list(KINDS)) != whole


def test_kinds_take_turns_and_no_point_comes_again_before_all_have_come():
    light = {kind for kind, row in KINDS.items() if not row.heavy}
    assert len({pair.kind for pair in draw("1", pairs.SAMPLE, list(KINDS))}) == min(pairs.SAMPLE, len(light))
    whole = draw("1", pairs.WHOLE, list(KINDS))
    for kind, row in KINDS.items():
        drawn = [pair.point for pair in whole if pair.kind == kind]
        every = points(undone=row.undone)
        assert (1 <= len(drawn) <= 4) if row.heavy else len(drawn) >= 6
        assert len(set(drawn[: len(every)])) == min(len(drawn), len(every))


# --- death ----------------------------------------------------------------------------------------------------------

# The child's own parts, on a cluster of one file: what is applied is a line in it.
PLAY = """
import sys
from dataclasses import dataclass
from pathlib import Path
from chaos.faults import inject, undo
from chaos.faults.undo import Undo, UndoLog
from chaos.stack import cluster as clusters
from tests.crash import child
from tests.crash.points import Orders
from tests.unit.crash.test_crash import Scratch

class File:
    def __init__(self, name, kubeconfig, *rest, **more):
        self.path = kubeconfig
        self.api = None
    def node_exec(self, node, argv):
        with self.path.open("a") as file:
            file.write(argv + "\\n")

@undo.undoer("wipe", path=str)
def wipe(cluster, what):
    cluster.node_exec("n", "wiping")
    Path(what["path"]).write_text("")

class NoRecorder:
    def __init__(self, *arguments): ...
    def start(self): ...

child.MortalCluster.__bases__ = (File,)
child.Recorder = NoRecorder
child.main(Orders.load(Path(sys.argv[1])))
sys.exit("not reached")
"""


@dataclass(frozen=True)
class Scratch(Fault):
    """Writes two lines into a file."""

    path: str
    name = "scratch"

    @property
    def target(self):
        return {"path": self.path}

    def undo(self, reach):
        from chaos.faults.undo import Undo

        return [Undo("wipe", {"path": self.path})]

    def apply(self, reach):
        reach.cluster.node_exec("n", "first")
        reach.cluster.node_exec("n", "second")

    def prove(self, reach, since):
        return {"seen": True}


STATE = {  # what is in the file, and whether the log holds something to undo
    "before record": ("", False),
    "torn record": ("", False),
    "record": ("", True),
    "apply begins": ("", True),
    "apply call 1": ("first\n", True),
    "apply call 2": ("first\nsecond\n", True),
    "apply call 4": ("first\nsecond\n", True),
    "apply": ("first\nsecond\n", True),
    "prove": ("first\nsecond\n", True),
    "hold": ("first\nsecond\n", True),
    "undo begins": ("first\nsecond\n", True),
    "undo call 1": ("first\nsecond\nwiping\n", True),
    "undo": ("", True),
    "undo noted": ("", False),
    "verify": ("", False),
}


@pytest.mark.parametrize("point", STATE)
def test_death_comes_at_the_point_and_not_before_or_after(tmp_path, point):
    from chaos.faults.undo import UndoLog

    scratch = tmp_path / "scratch"
    scratch.touch()
    scratch.chmod(0o600)
    orders = Orders(Scratch(str(scratch)), point, "demo", scratch, "kubectl", tmp_path)
    play = tmp_path / "play.py"
    play.write_text(PLAY)
    done = subprocess.run(
        [sys.executable, play, orders.save()], capture_output=True, text=True, check=False, cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert orders.marker.read_text() == point
    log = UndoLog(orders.undo_log)
    assert (scratch.read_text(), bool(log.pending()), log.unreadable()) == (*STATE[point], [])
    assert (point in PENDING) == STATE[point][1]
    assert set(STATE) | {"apply call 3", "undo call 2", "undo call 3", "undo call 4"} == set(points(undone=True))


def test_a_parent_whose_child_does_not_die_says_what_it_said(tmp_path):
    from tests.crash.parent import run_to_death

    orders = Orders(Scratch("/nowhere"), "hold", "demo", tmp_path / "no-kubeconfig", "kubectl", tmp_path)
    with pytest.raises(AssertionError, match="no-kubeconfig"):
        run_to_death(orders)


# --- snapshots ------------------------------------------------------------------------------------------------------

SAVED = """# Generated by iptables-save
*nat
:PREROUTING ACCEPT [12:720]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
COMMIT
*filter
:INPUT ACCEPT [5:300]
:FORWARD DROP [0:0]
:KUBERAY-CHAOS - [0:0]
-A INPUT -j KUBERAY-CHAOS
-A FORWARD -m comment --comment "cni" -j CNI-FORWARD
-A KUBERAY-CHAOS -s 10.244.1.7/32 -j DROP
COMMIT
"""


def test_the_ports_of_dockers_resolver_are_no_difference_and_others_are():
    rule = "-A DOCKER_OUTPUT -d 172.20.0.1/32 -p tcp -m tcp --dport {} -j DNAT --to-destination 127.0.0.11:{}"
    back = "-A DOCKER_POSTROUTING -s 127.0.0.11/32 -p tcp -m tcp --sport {} -j SNAT --to-source 172.20.0.1:53"
    ours = "-A KUBERAY-CHAOS -p tcp -m tcp --sport {} -j DROP"

    def saved(asked, port):
        return snapshot.rules(["*nat", rule.format(asked, port), back.format(port)])

    assert saved(53, 35869) == saved(53, 41874) != saved(54, 35869)
    assert snapshot.rules(["*filter", ours.format(1)]) != snapshot.rules(["*filter", ours.format(2)])


def test_rules_are_ours_and_other_peoples_but_not_those_that_come_and_go():
    assert snapshot.rules(SAVED.splitlines()) == [
        "filter -A INPUT -j KUBERAY-CHAOS",
        "filter -A KUBERAY-CHAOS -s 10.244.1.7/32 -j DROP",
        "filter chain FORWARD DROP",
        "filter chain KUBERAY-CHAOS -",
    ]
    untouched = "*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [9:9]\nCOMMIT\n"
    assert snapshot.rules(untouched.splitlines()) == snapshot.rules([]) == [], "a table that was only looked at"


def test_a_network_is_told_apart_by_its_rules_routes_and_queueing():
    text = (
        f"@@ rules\n{SAVED}@@ IPv6 rules\n@@ policy routing\n0:\tfrom all lookup local\n@@ routes\nlocal 127.0.0.1 dev lo\n"
        "@@ queueing\nqdisc noqueue 0: dev eth0 root refcnt 2\nqdisc netem 8001: dev eth0 root refcnt 2 delay 100ms\n"
    )
    found = snapshot.network(text)
    assert found["queueing"] == ["qdisc netem 8001: dev eth0 root refcnt 2 delay 100ms"]
    assert found["IPv6 rules"] == []
    clean = found | {"queueing": [], "rules": []}
    assert len(snapshot.differences(clean, found)) == 5


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"node": {"n1": {"labels": {"x": "1"}}}}, {"node": {"n1": {"labels": {}}}}, ['node n1 labels x is gone: 1']),
        ({"taints": []}, {"taints": [{"key": "k"}]}, ['taints has {"key": "k"}']),
        ({"r": ["a", "a"]}, {"r": ["a"]}, ["r lacks a"]),
        ({"r": ["a", "b"]}, {"r": ["b", "a"]}, ["r: the order changed"]),
        ({"replicas": 1}, {"replicas": 0}, ["replicas was 1 and is 0"]),
        ({"n1": {}}, {}, ["n1 is gone: {}"]),
        ({}, {"policy": {"a": 1}}, ['policy was not there: {"a": 1}']),
        ({"processes": ["a", "b"]}, {"processes": ["a", "c"]}, ["processes: c was not there"]),
    ],
)  # fmt: skip
def test_differences_are_sentences(before, after, said):
    assert snapshot.differences(before, after) == said
