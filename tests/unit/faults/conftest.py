"""A cluster of one dict and a kind of undo that acts on it; a node that is this machine; a pod's packet filter."""

import json

import pytest

from chaos.faults import undo
from chaos.faults.base import Reach
from chaos.faults.inject import Injector
from chaos.faults.undo import UndoLog
from chaos.history.store import HistoryWriter
from chaos.process import Executed, run

# Stands for a pod's UID or a container's ID: every process's control group has it in its path.
EVERYTHING = ":/"


class FakeCluster:
    """What is broken in it, by name; things in ``stuck`` can't be repaired."""

    name = "demo"

    def __init__(self):
        self.broken = set()
        self.stuck = set()
        self.repaired = []  # in the order of the attempts


class LocalNode:
    """A node that is this machine: what faults run there is run for real, on processes of the test's own.

    Only the container runtime is made up. Containers by name, each the number of its main process here; all have the ID
    ``identity``, and one that is stopped goes on.
    """

    def __init__(self, *, identity=EVERYTHING, **containers):
        self.identity = identity
        self.containers = containers
        self.stopped = []  # how the runtime was asked to

    def node_exec(self, node, argv, *, stdin=None, timeout=30):
        if argv[0] == "crictl" and "stop" in argv:
            self.stopped.append(argv)
            return Executed(0, b"", b"")
        if argv[:2] == ["crictl", "ps"]:
            name = argv[argv.index("--name") + 1].strip("^$")
            return Executed(0, self.identity.encode() if name in self.containers else b"", b"")
        if argv[:2] == ["crictl", "inspect"]:
            [pid] = self.containers.values()
            return Executed(0, json.dumps({"info": {"pid": pid}}).encode(), b"")
        return run(argv, stdin=stdin, timeout=timeout, check=False)

    def exec(self, namespace, pod, argv, *, container=None, stdin=None, timeout):
        return run(argv, stdin=stdin, timeout=timeout, check=False)


class PacketFilter:
    """A pod's filter table, as far as the rules of faults go, behind the node's programs; None when the pod is gone."""

    def __init__(self):
        self.there = True
        self.chains = {"INPUT": [], "OUTPUT": []}
        self.packets = {}  # rule → count
        self.foreign = "-s 192.0.2.1/32 -j ACCEPT"
        self.chains["INPUT"].append(self.foreign)

    def node_exec(self, node, argv, *, stdin=None, timeout=30):
        if argv[:2] == ["crictl", "pods"]:
            return Executed(0, b"sandbox\n" if self.there else b"", b"")
        if argv[:2] == ["crictl", "inspectp"]:
            return Executed(0, json.dumps({"info": {"pid": 1}}).encode(), b"")
        assert argv[:6] == ["nsenter", "--target", "1", "--net", "sh", "-c"]
        match argv[6].split()[0]:
            case "iptables-save":
                return Executed(0, self.saved().encode(), b"")
            case "iptables-restore":
                return self._restore(stdin.decode())
        raise AssertionError(argv)

    def saved(self):
        lines = ["*filter", *(f":{name} - [0:0]" for name in self.chains)]
        for name, rules in self.chains.items():
            lines += [f"[{self.packets.get(rule, 0)}:0] -A {name} {rule}" for rule in rules]
        return "\n".join([*lines, "COMMIT", ""])

    def _restore(self, text):
        """All lines or none, as the real one."""
        chains = {name: list(rules) for name, rules in self.chains.items()}
        try:
            for line in text.splitlines()[1:-1]:
                self._change(chains, line)
        except (KeyError, ValueError) as refused:
            return Executed(1, b"", f"iptables-restore: {refused}".encode())
        self.chains = chains
        return Executed(0, b"", b"")

    @staticmethod
    def _change(chains, line):
        if line.startswith(":"):
            chains[line[1:].split()[0]] = []
            return
        action, name, *rest = line.split(" ")
        match action:
            case "-A":
                chains[name].append(" ".join(rest))
            case "-I":
                if rest[-1] not in chains:
                    raise ValueError(f"no chain {rest[-1]}")
                chains[name].insert(int(rest[0]) - 1, " ".join(rest[1:]))
            case "-D":
                chains[name].remove(" ".join(rest))
            case "-F":
                chains[name].clear()
            case "-X":
                if chains[name] or any(rule.endswith(f"-j {name}") for rules in chains.values() for rule in rules):
                    raise ValueError(f"{name} is in use")
                del chains[name]


@pytest.fixture
def cluster(monkeypatch):
    def repair(cluster, what):
        cluster.repaired.append(what["name"])
        if what["name"] in cluster.stuck:
            raise RuntimeError(f"{what['name']} is stuck")
        cluster.broken.discard(what["name"])

    undo.load_faults()  # not later: what they register then would be lost with this copy
    monkeypatch.setattr(undo, "_UNDOERS", {**undo._UNDOERS, "repair": undo._Registered(repair, {"name": str})})
    return FakeCluster()


@pytest.fixture
def log(tmp_path):
    return UndoLog(tmp_path / "undo.jsonl")


@pytest.fixture
def writer(tmp_path):
    history = HistoryWriter(tmp_path / "history.jsonl")
    yield history
    history.close()


@pytest.fixture
def injector(cluster, writer, log):
    return Injector(cluster, writer, log)


@pytest.fixture
def local_node():
    return LocalNode


@pytest.fixture
def packet_filter():
    return PacketFilter()


@pytest.fixture
def reach(writer):
    """A function: what a fault on this cluster may touch."""
    return lambda cluster: Reach(cluster, writer)


@pytest.fixture
def pod():
    """A function that makes a pod as the API server describes it; it has all of this machine's processes."""
    return _pod


def _pod(name="p", uid=EVERYTHING, ip="10.0.0.1", **labels):
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {"podIP": ip},
    }
