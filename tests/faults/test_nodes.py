"""Faults on nodes: what is said happens to this node, it comes back whole, and the stack is sealed as before."""

import pytest

from chaos.faults.delete_pod import DeletePod
from chaos.faults.image_cold import ImageCold
from chaos.faults.node_cordon import NodeCordon
from chaos.faults.node_disconnect import NodeDisconnect
from chaos.faults.node_drain import NodeDrain
from chaos.faults.node_stop import NodeStop
from chaos.faults.undo import Undo, UndoLog, heal, perform
from chaos.stack import kuberay
from chaos.waiting import until

GONE = "no-such-node"


def name(node):
    return node["metadata"]["name"]


def unschedulable(cluster):
    return {name(node) for node in cluster.list("nodes") if node["spec"].get("unschedulable")}


def kept_pods(cluster, node):
    """UIDs of DaemonSets' pods on a node."""
    return {
        pod["metadata"]["uid"]
        for pod in cluster.list("pods")
        if pod["spec"].get("nodeName") == node
        and any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", []))
    }


def mangle(cluster, node):
    """Chains and rules of the table that the fault uses, without counters."""
    listed = cluster.node_exec(node, ["iptables-save", "-t", "mangle"]).require("iptables-save").decode()
    return [line.split(" [")[0] for line in listed.splitlines() if line.startswith((":", "-"))]


def test_a_cold_image_is_unpacked_by_its_next_container(cluster, inject, nodes, namespace):
    """The operator's image where the operator isn't, since no other pod there keeps it unpacked."""
    operator = kuberay.operator_pod(cluster)
    [node] = [node for node in nodes if name(node) != operator["spec"]["nodeName"]]
    image = operator["spec"]["containers"][0]["image"]

    def unpacked():
        listed = cluster.node_exec(name(node), ["ctr", "-n", "k8s.io", "snapshots", "ls"]).require("ctr").decode()
        return {line.split()[0] for line in listed.splitlines() if line.startswith("sha256:")}

    def used_by(pod):
        container = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "args": ["--help"]}
        spec = {"nodeName": name(node), "restartPolicy": "Never", "containers": [container]}
        cluster.create("pods", namespace, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": spec})

        def ended():
            found = cluster.get("pods", namespace, pod)
            return found if found["status"].get("phase") in ("Succeeded", "Failed") else None

        return until(ended, what=f"the end of {pod}", deadline=60)

    with inject(DeletePod.of(used_by("warm"))):
        warm = unpacked()
    with inject(ImageCold.of(node, image)):
        assert unpacked() < warm
    used_by("cold")
    assert unpacked() == warm
    cluster.delete("pods", namespace, "cold")


def test_only_this_node_is_cordoned(cluster, inject, nodes):
    with inject(NodeCordon.of(nodes[0])):
        assert unschedulable(cluster) == {name(nodes[0])}
    assert unschedulable(cluster) == set()


@pytest.mark.level("core")
def test_a_later_process_uncordons(cluster, inject, nodes, tmp_path):
    fault, log = NodeCordon.of(nodes[0]), UndoLog(tmp_path / "undo.jsonl")
    [undo] = fault.undo(inject.reach)
    log.append("dead-1", [undo])
    fault.apply(inject.reach)
    try:
        perform(cluster, Undo(undo.kind, {**undo.what, "uid": "00000000-0000-0000-0000-000000000000"}))
        assert unschedulable(cluster) == {name(nodes[0])}, "another node of that name is not ours to open"
        healed, failed = heal(cluster, UndoLog(log.path))
        assert (len(healed), failed) == (1, [])
        assert unschedulable(cluster) == set()
    finally:
        perform(cluster, undo)
    perform(cluster, Undo(undo.kind, {**undo.what, "node": GONE}))


@pytest.mark.usefixtures("whole")
def test_a_drained_node_keeps_only_the_pods_of_daemonsets(cluster, inject, stand_in):
    pod = stand_in("drained")
    node = pod["spec"]["nodeName"]
    stay = kept_pods(cluster, node)
    assert stay
    with inject(NodeDrain.of(cluster.get("nodes", None, node))):
        assert cluster.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]) is None
        assert kept_pods(cluster, node) == stay
        assert unschedulable(cluster) == {node}
    assert unschedulable(cluster) == set()


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize(
    "at_once", [pytest.param(True, id="at once"), pytest.param(False, id="in order", marks=pytest.mark.level("core"))]
)
def test_a_stopped_node_is_started_and_ready(chaos_run, cluster, inject, nodes, at_once):
    with inject(NodeStop.of(nodes[0], at_once=at_once)):
        assert name(nodes[0]) not in chaos_run.stack.kind.running_nodes()
        assert name(nodes[1]) in chaos_run.stack.kind.running_nodes()
    assert name(nodes[0]) in chaos_run.stack.kind.running_nodes()


@pytest.mark.level("core")
@pytest.mark.usefixtures("whole")
def test_a_later_process_starts_the_control_plane(chaos_run, cluster, inject, tmp_path):
    """The API server goes with it, so neither the fault nor its undo may need that."""
    control_plane = chaos_run.stack.kind.control_plane
    fault, log = NodeStop(control_plane), UndoLog(tmp_path / "undo.jsonl")
    [undo] = fault.undo(inject.reach)
    log.append("dead-1", [undo])
    fault.apply(inject.reach)
    try:
        assert fault.prove(inject.reach, 0) == {"running": False}
        healed, failed = heal(cluster, UndoLog(log.path))
        assert (len(healed), failed) == (1, [])
        assert fault.relieved(inject.reach) == {"ready": True}
    finally:
        perform(cluster, undo)


@pytest.mark.parametrize("kind", ["node-start", "node-chain", "api-server-continue"])
def test_undoing_for_a_node_that_is_gone_is_no_error(cluster, kind):
    perform(cluster, Undo(kind, {"node": GONE}))


@pytest.mark.usefixtures("whole")
def test_a_node_out_of_reach_runs_on_and_is_in_reach_again(cluster, inject, stand_in):
    pod = stand_in("cut-off")
    metadata, node = pod["metadata"], pod["spec"]["nodeName"]
    [witness, *_] = [each for each in cluster.list("nodes") if name(each) != node]
    before = mangle(cluster, node)
    with inject(NodeDisconnect.of(cluster.get("nodes", None, node), witness)):
        assert not cluster.exec(metadata["namespace"], metadata["name"], ["true"], timeout=5).ok
        assert mangle(cluster, node) != before
    assert mangle(cluster, node) == before
    assert cluster.exec(metadata["namespace"], metadata["name"], ["true"], timeout=15).ok
    found = cluster.get("pods", metadata["namespace"], metadata["name"])
    assert found["metadata"]["uid"] == metadata["uid"]
    assert found["status"]["podIP"] == pod["status"]["podIP"]
    assert [status["restartCount"] for status in found["status"]["containerStatuses"]] == [0]


@pytest.mark.level("core")
@pytest.mark.usefixtures("whole")
def test_a_later_process_reconnects(cluster, inject, nodes, tmp_path):
    node, witness, *_ = nodes
    before = mangle(cluster, name(node))
    fault, log = NodeDisconnect.of(node, witness), UndoLog(tmp_path / "undo.jsonl")
    [undo] = fault.undo(inject.reach)
    log.append("dead-1", [undo])
    fault.apply(inject.reach)
    try:
        healed, failed = heal(cluster, UndoLog(log.path))
        assert (len(healed), failed) == (1, [])
    finally:
        perform(cluster, undo)
    assert mangle(cluster, name(node)) == before
    fault.relieved(inject.reach)
