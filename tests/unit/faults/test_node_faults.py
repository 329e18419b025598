"""Faults on nodes and the API server against a control plane that misbehaves as the real one does."""

import shutil
import signal
import subprocess
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaos.errors import NoEffect, StackError
from chaos.faults import api_server_pause, node_cordon, node_disconnect, node_drain, node_stop
from chaos.faults.api_server_pause import ApiServerPause
from chaos.faults.base import Reach, Scope
from chaos.faults.node_cordon import NodeCordon
from chaos.faults.node_disconnect import NodeDisconnect
from chaos.faults.node_drain import NodeDrain
from chaos.faults.node_stop import NodeStop
from chaos.faults.undo import Undo, perform
from chaos.process import Executed, run
from chaos.stack.cluster import ApiError, NodeState
from chaos.waiting import until

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def pod(name, *, owner="ReplicaSet", node="n1", annotations=None, phase="Running"):
    return {
        "metadata": {
            "namespace": "ns", "name": name, "uid": f"u-{name}", "annotations": annotations or {},
            "ownerReferences": [{"kind": owner, "controller": True}] if owner else [],
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }  # fmt: skip


class FakeCluster:
    """Two nodes with pods, behind an API server and on a machine; each can be told to misbehave."""

    def __init__(self):
        self.nodes = {name: self._node(name, f"172.18.0.{n}") for n, name in enumerate(("n1", "n2"), 2)}
        self.pods = []
        self.node_controller = True
        self.refusals = []  # names of pods whose eviction is refused once
        self.evicted = []
        self.states = {name: NodeState(True, NOON) for name in self.nodes}
        self.node_control = self
        self.on_node = None  # answers node_exec

    @staticmethod
    def _node(name, address):
        return {
            "metadata": {"name": name, "uid": f"u-{name}"},
            "spec": {},
            "status": {
                "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]
            },
        }

    def heard(self, node, moment, status="True"):
        """The kubelet's word at that moment."""
        stamp = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.nodes[node]["status"]["conditions"] = [{"type": "Ready", "status": status, "lastHeartbeatTime": stamp}]

    # the API server

    def get(self, resource, namespace, name):
        return self.nodes.get(name)

    def patch(self, resource, namespace, name, body):
        node = self.nodes.get(name)
        if node is None:
            raise ApiError("not found", status=404, reason="NotFound")
        if body["metadata"]["uid"] != node["metadata"]["uid"]:
            raise ApiError("the UID differs", status=409, reason="Conflict")
        node["spec"] = {key: value for key, value in {**node["spec"], **body["spec"]}.items() if value is not None}
        if self.node_controller:
            node["spec"]["taints"] = [TAINT] if node["spec"].get("unschedulable") else []

    def request(self, method, path, *, query=None, body=None):
        if method == "GET":
            node = query["fieldSelector"].removeprefix("spec.nodeName=")
            return {"items": [p for p in self.pods if p["spec"]["nodeName"] == node]}
        *_, name, subresource = path.split("/")
        assert subresource == "eviction"
        assert body["deleteOptions"]["preconditions"]["uid"] == f"u-{name}"
        if name in self.refusals:
            self.refusals.remove(name)
            raise ApiError("the disruption budget needs 2", status=429, reason="TooManyRequests")
        self.evicted.append(name)
        self.pods = [p for p in self.pods if p["metadata"]["name"] != name]

    def run_kubectl(self, argv, *, stdin=None, timeout):
        return self.answer

    # the machine

    def state(self, node):
        return self.states.get(node)

    def stop(self, node, *, at_once):
        self.states[node] = NodeState(False, self.states[node].started)

    def start(self, node):
        if not self.states[node].running:
            self.states[node] = NodeState(True, self.states[node].started + timedelta(minutes=1))

    def node_exec(self, node, argv, *, stdin=None, timeout=30):
        return self.on_node(node, argv)


@pytest.fixture
def cluster(cluster):
    return FakeCluster()


@pytest.fixture
def reach(cluster, writer):
    return Reach(cluster, writer)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """What never comes isn't waited for."""
    for module in (api_server_pause, node_cordon, node_disconnect, node_stop):
        for name in [name for name in vars(module) if name.endswith("_SECONDS") and name != "_SILENCE_SECONDS"]:
            monkeypatch.setattr(module, name, 0.2)


@pytest.mark.parametrize("kind", [NodeCordon, NodeDrain, NodeStop, NodeDisconnect])
def test_nodes_are_of_their_own_scope(kind):
    assert kind.scope is Scope.NODE
    assert ApiServerPause.scope is Scope.CLUSTER


# --- cordon and drain -----------------------------------------------------------------------------------------------


def test_a_node_is_cordoned_and_open_again(injector, cluster):
    with injector(NodeCordon.of(cluster.nodes["n1"])):
        assert cluster.nodes["n1"]["spec"]["unschedulable"] is True
        assert not cluster.nodes["n2"]["spec"]
    assert "unschedulable" not in cluster.nodes["n1"]["spec"]


def test_a_cordon_that_no_controller_sees_is_no_effect(injector, cluster):
    cluster.node_controller = False
    with pytest.raises(NoEffect, match="taint"), injector(NodeCordon.of(cluster.nodes["n1"])):
        pass
    assert cluster.nodes["n1"]["spec"] == {}


def test_somebody_elses_cordon_is_left_alone(reach, cluster):
    cluster.nodes["n1"]["spec"] = {"unschedulable": True}
    with pytest.raises(NoEffect, match="already"):
        NodeCordon.of(cluster.nodes["n1"]).undo(reach)


def test_uncordoning_twice_and_without_the_node_is_no_error(reach, cluster):
    [undo] = NodeCordon.of(cluster.nodes["n1"]).undo(reach)
    perform(cluster, undo)
    perform(cluster, undo)
    cluster.nodes["n1"] = {"metadata": {"name": "n1", "uid": "u-of-another"}, "spec": {"unschedulable": True}}
    perform(cluster, undo)
    assert cluster.nodes["n1"]["spec"] == {"unschedulable": True}, "another node of that name is not ours to open"
    del cluster.nodes["n1"]
    perform(cluster, undo)


def test_a_drain_evicts_what_can_go_and_asks_again_where_a_budget_refuses(injector, cluster):
    cluster.pods = [
        pod("worker"), pod("bare", owner=None), pod("elsewhere", node="n2"), pod("proxy", owner="DaemonSet"),
        pod("etcd", owner="Node", annotations={"kubernetes.io/config.mirror": "x"}), pod("done", phase="Succeeded"),
    ]  # fmt: skip
    cluster.refusals = ["worker"]
    with injector(NodeDrain.of(cluster.nodes["n1"])):
        assert sorted(cluster.evicted) == ["bare", "worker"]
        assert cluster.nodes["n1"]["spec"]["unschedulable"] is True
    assert "unschedulable" not in cluster.nodes["n1"]["spec"]


def test_a_budget_that_never_opens_is_told_and_the_node_is_open_again(injector, cluster, monkeypatch):
    monkeypatch.setattr(node_drain, "_EVICT_SECONDS", 0.2)
    cluster.pods, cluster.refusals = [pod("worker")], ["worker"] * 9
    with pytest.raises(StackError, match="disruption budget"), injector(NodeDrain.of(cluster.nodes["n1"])):
        pass
    assert "unschedulable" not in cluster.nodes["n1"]["spec"]


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_pod_that_stays_is_no_effect(injector, cluster, monkeypatch, phase):
    monkeypatch.setattr(node_drain, "_GONE_SECONDS", 0.2)
    leaving = pod("slow", phase=phase)
    leaving["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    cluster.pods = [leaving]
    with pytest.raises(NoEffect, match="end of all pods"), injector(NodeDrain.of(cluster.nodes["n1"])):
        pass
    assert cluster.evicted == [], "it is on its way already"


# --- stop -----------------------------------------------------------------------------------------------------------


def test_a_stopped_node_is_back_when_its_kubelet_says_so_after_the_start(injector, cluster):
    cluster.heard("n1", NOON + timedelta(minutes=2))
    with injector(NodeStop.of(cluster.nodes["n1"])):
        assert not cluster.states["n1"].running
        assert cluster.states["n2"].running
    assert cluster.states["n1"].running


@pytest.mark.parametrize(("after", "status"), [(30, "True"), (90, "Unknown"), (90, "False")])
def test_neither_an_old_word_nor_another_one_makes_it_ready(cluster, after, status):
    cluster.heard("n1", NOON + timedelta(seconds=after), status)
    cluster.stop("n1", at_once=True)
    with pytest.raises(StackError, match="n1 Ready"):
        perform(cluster, Undo("node-start", {"node": "n1"}))
    assert cluster.states["n1"].running, "it is started all the same"


def test_a_node_that_runs_on_is_no_effect(injector, cluster, monkeypatch):
    monkeypatch.setattr(cluster, "stop", lambda node, *, at_once: None)
    cluster.heard("n1", NOON + timedelta(seconds=1))
    with pytest.raises(NoEffect, match="end of node n1"), injector(NodeStop.of(cluster.nodes["n1"])):
        pass


def test_a_node_that_does_not_run_is_not_stopped(reach, cluster):
    cluster.stop("n1", at_once=True)
    with pytest.raises(NoEffect, match="does not run"):
        NodeStop.of(cluster.nodes["n1"]).undo(reach)


@pytest.mark.parametrize("kind", ["node-start", "node-chain", "api-server-continue"])
def test_a_node_that_is_gone_has_nothing_left_to_undo(cluster, kind):
    cluster.states.clear()
    perform(cluster, Undo(kind, {"node": "n1"}))


# --- disconnect -----------------------------------------------------------------------------------------------------


# A mangle table of one file a chain, under the folder TABLE.
_IPTABLES = r"""
[ "$1 $2 $3" = "-w -t mangle" ] || exit 2
shift 3; action=$1 chain=$TABLE/$2; shift 2
case $action in
-N) [ ! -e "$chain" ] && : >"$chain" ;;
-A | -I) echo "$*" >>"$chain" ;;
-D) grep -Fxq -e "$*" "$chain" && { grep -Fxv -e "$*" "$chain" >"$chain.new"; mv "$chain.new" "$chain"; } ;;
-nL) [ -e "$chain" ] ;;
-nvxL) sed 's/^-j DROP$/       3      180 DROP       0    --  */' "$chain" ;;
-F) : >"$chain" ;;
-X) ! grep -q -e "-j ${chain##*/}" "$TABLE"/P* && rm "$chain" ;;
*) exit 2 ;;
esac
"""


class Wire:
    """A node's packet filter, and what another node sees of it."""

    def __init__(self, folder):
        self.table, self.programs = folder / "table", folder / "bin"
        for place in (self.table, self.programs):
            place.mkdir()
        for chain in ("PREROUTING", "POSTROUTING"):
            (self.table / chain).write_text("-j SOMEBODY-ELSES\n")
        (self.programs / "iptables").write_text(f"#!/bin/sh\n{_IPTABLES}")
        (self.programs / "iptables").chmod(0o755)
        self.before = self.rules()
        self.leaky = False  # the rules are there, and packets pass

    def rules(self):
        return {chain.name: chain.read_text() for chain in self.table.iterdir()}

    def __call__(self, node, argv):
        if node == "n1":
            env = {"TABLE": str(self.table), "PATH": f"{self.programs}:/usr/bin:/bin"}
            return run(argv, env=env, check=False)
        assert argv[:4] == ["timeout", "2", "bash", "-c"]
        assert argv[5:] == ["172.18.0.2", "10250"]
        cut = "-i eth+ -j KUBERAY-CHAOS" in self.rules()["PREROUTING"]
        return Executed(1 if cut and not self.leaky else 0, b"", b"")


@pytest.fixture
def wire(cluster, tmp_path):
    cluster.on_node = Wire(tmp_path)
    return cluster.on_node


def test_a_node_is_cut_off_both_ways_and_nothing_of_it_is_left(injector, cluster, wire):
    with injector(NodeDisconnect.of(cluster.nodes["n1"], cluster.nodes["n2"])) as injected:
        rules = wire.rules()
        assert rules["KUBERAY-CHAOS"] == "-j DROP\n"
        assert "-i eth+ -j KUBERAY-CHAOS" in rules["PREROUTING"]
        assert "-o eth+ -j KUBERAY-CHAOS" in rules["POSTROUTING"]
        assert injected.fault.address == "172.18.0.2"
    assert wire.rules() == wire.before


def test_rules_that_let_packets_pass_are_no_effect(injector, cluster, wire):
    wire.leaky = True
    fault = NodeDisconnect.of(cluster.nodes["n1"], cluster.nodes["n2"])
    with pytest.raises(NoEffect, match="out of reach"), injector(fault):
        pass
    assert wire.rules() == wire.before


def test_reconnecting_twice_and_half_and_without_a_cut_is_no_error(reach, cluster, wire):
    undo = Undo("node-chain", {"node": "n1"})
    perform(cluster, undo)
    NodeDisconnect.of(cluster.nodes["n1"], cluster.nodes["n2"]).apply(reach)
    (wire.table / "POSTROUTING").write_text(wire.before["POSTROUTING"])  # it got half way
    perform(cluster, undo)
    perform(cluster, undo)
    assert wire.rules() == wire.before


def test_a_node_out_of_reach_before_is_no_effect(reach, cluster, wire):
    fault = NodeDisconnect.of(cluster.nodes["n1"], cluster.nodes["n2"])
    fault.apply(reach)
    with pytest.raises(NoEffect, match="as it is"):
        fault.undo(reach)


# --- API server -----------------------------------------------------------------------------------------------------


@pytest.fixture
def api_server(cluster, tmp_path, monkeypatch):
    """A process of this machine for an API server, under a name that no other process has; it answers unless it is stopped."""
    name = f"api-{uuid.uuid4().hex[:8]}"
    shutil.copy(shutil.which("sleep"), tmp_path / name)
    monkeypatch.setattr(api_server_pause, "_PROCESS", name)
    process = subprocess.Popen([tmp_path / name, "120"])
    until(lambda: Path(f"/proc/{process.pid}/comm").read_text().strip() == name, what="the stand-in", deadline=10)
    cluster.on_node = lambda node, argv: run(argv, check=False)
    monkeypatch.setattr(
        cluster, "run_kubectl", lambda argv, timeout: Executed(None if state(process) == "T" else 0, b"ok", b"")
    )
    yield process
    process.kill()
    process.wait()


def state(process):
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0]


def test_the_api_server_is_silent_and_answers_again(injector, cluster, api_server):
    with injector(ApiServerPause.of(cluster.nodes["n1"])):
        assert state(api_server) == "T"
    assert state(api_server) == "S"


def test_an_api_server_that_still_answers_is_no_effect(injector, cluster, api_server, monkeypatch):
    monkeypatch.setattr(cluster, "run_kubectl", lambda argv, timeout: Executed(0, b"ok", b""))
    with pytest.raises(NoEffect, match="silence"), injector(ApiServerPause.of(cluster.nodes["n1"])):
        pass
    assert state(api_server) == "S"


def test_an_api_server_that_is_away_but_not_stopped_is_no_effect(reach, cluster, api_server, monkeypatch):
    monkeypatch.setattr(cluster, "run_kubectl", lambda argv, timeout: Executed(1, b"", b"refused"))
    with pytest.raises(NoEffect, match="silence"):
        ApiServerPause.of(cluster.nodes["n1"]).prove(reach, 0)


def test_letting_it_go_on_twice_and_without_a_pause_is_no_error(cluster, api_server):
    undo = Undo("api-server-continue", {"node": "n1"})
    api_server.send_signal(signal.SIGSTOP)
    for _ in range(3):
        perform(cluster, undo)
        assert state(api_server) == "S"
    api_server.kill()
    api_server.wait()
    perform(cluster, undo)


def test_a_node_without_an_api_server_is_said(reach, cluster, monkeypatch):
    monkeypatch.setattr(api_server_pause, "_PROCESS", f"api-{uuid.uuid4().hex[:8]}")
    cluster.on_node = lambda node, argv: run(argv, check=False)
    with pytest.raises(StackError, match="there is none"):
        ApiServerPause.of(cluster.nodes["n1"]).apply(reach)
