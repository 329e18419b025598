"""Faults on objects and containers: what is asked of the API server and the runtime, and what counts as proof."""

import pytest

from chaos.errors import NoEffect, StackError
from chaos.faults import network_policy, restart_container
from chaos.faults.delete_pod import DeletePod
from chaos.faults.network_policy import NetworkPolicy
from chaos.faults.restart_container import RestartContainer
from chaos.faults.undo import Undo, perform
from chaos.history.entry import What
from chaos.process import Executed


class ApiServer:
    """Objects by (resource, namespace, name); connections answer what ``policies`` make of them."""

    def __init__(self, *pods):
        self.objects = {("pods", p["metadata"]["namespace"], p["metadata"]["name"]): p for p in pods}
        self.without_policy, self.with_policy = "connected", "refused"
        self.deleted = []

    def get(self, resource, namespace, name):
        return self.objects.get((resource, namespace, name))

    def list(self, resource, namespace=None, labels=None):
        return [found for (kind, *_), found in self.objects.items() if kind == resource]

    def create(self, resource, namespace, body):
        body = {**body, "metadata": {**body["metadata"], "uid": "uid-made"}}
        self.objects[resource, namespace, body["metadata"]["name"]] = body
        return body

    def delete(self, resource, namespace, name, *, uid=None, grace=None, propagation="Background"):
        self.deleted.append((resource, name, uid))
        return self.objects.pop((resource, namespace, name), None) is not None

    def exec(self, namespace, pod, argv, *, container=None, stdin=None, timeout):
        if self.get("pods", namespace, pod) is None:
            return Executed(None, b"", b"pods not found")
        answer = self.with_policy if self.list("networkpolicies") else self.without_policy
        return Executed(0, f"{answer}\n".encode(), b"")


# --- delete-pod


def test_a_pod_that_is_terminating_is_never_deleted_again(pod, reach):
    going = pod()
    going["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    server = ApiServer(going)
    with pytest.raises(StackError, match="being deleted already"):
        DeletePod.of(going).apply(reach(server))
    assert server.deleted == []


def test_a_successor_that_is_terminating_is_not_mistaken_for_the_pod(pod, reach):
    successor = pod(uid="other")
    successor["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    server = ApiServer(successor)
    DeletePod.of(pod(uid="mine")).apply(reach(server))
    assert server.deleted == [("pods", "p", "mine")], "with a precondition, which fails there"


# --- network-policy


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(network_policy, "_ENFORCED_SECONDS", 0.3)


@pytest.fixture
def two(pod):
    return pod("server", uid="s", ip="10.0.0.2", app="server"), pod("client", uid="c", ip="10.0.0.3")


def test_a_policy_denies_is_proved_and_its_undo_removes_it(two, reach):
    server, client = two
    here = reach(ApiServer(server, client))
    fault = NetworkPolicy.ingress(server, 7000, probed_from=client)
    [undo] = fault.undo(here)
    fault.apply(here)
    [made] = here.cluster.list("networkpolicies")
    assert made["spec"] == {"podSelector": {"matchLabels": {"app": "server"}}, "policyTypes": ["Ingress"]}
    assert fault.prove(here, 0) == {"connection": "refused", "address": "10.0.0.2:7000"}
    perform(here.cluster, undo)
    assert here.cluster.list("networkpolicies") == []
    assert here.cluster.deleted == [("networkpolicies", fault.policy, "uid-made")]
    perform(here.cluster, undo)
    assert fault.relieved(here)["connection"] == "connected"


def test_egress_is_probed_from_the_selected_pod(two):
    server, client = two
    fault = NetworkPolicy.egress(server, probed_to=client, port=7000)
    assert (fault.client, fault.address, fault.document["spec"]["policyTypes"]) == ("server", "10.0.0.3", ["Egress"])


def test_what_could_not_connect_before_proves_nothing(two, reach):
    server, client = two
    here = reach(ApiServer(server, client))
    here.cluster.without_policy = "refused"
    with pytest.raises(NoEffect, match="without the policy: refused"):
        NetworkPolicy.ingress(server, 7000, probed_from=client).undo(here)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("answer", ["connected", "no route to host"])
def test_a_policy_that_nobody_enforces_is_no_effect(two, reach, answer):
    server, client = two
    here = reach(ApiServer(server, client))
    here.cluster.with_policy = answer
    fault = NetworkPolicy.ingress(server, 7000, probed_from=client)
    fault.apply(here)
    with pytest.raises(NoEffect, match="a denied connection"):
        fault.prove(here, 0)


@pytest.mark.usefixtures("quick")
def test_relief_is_a_new_connection_or_a_pod_that_is_gone(two, reach):
    server, client = two
    here = reach(ApiServer(server, client))
    here.cluster.without_policy = "timed out"
    fault = NetworkPolicy.ingress(server, 7000, probed_from=client)
    with pytest.raises(StackError, match="a new connection"):
        fault.relieved(here)
    for gone in two:
        assert fault.relieved(reach(ApiServer(*(p for p in two if p is not gone))))["connection"] == "one end is gone"


def test_a_policy_needs_labels_and_a_foreign_one_is_left_alone(pod, two, reach):
    server, client = two
    with pytest.raises(StackError, match="no labels"):
        NetworkPolicy.ingress(client, 7000, probed_from=server)
    here = reach(ApiServer())
    here.cluster.create("networkpolicies", "ns", {"metadata": {"name": "theirs"}})
    with pytest.raises(StackError, match="not ours"):
        perform(here.cluster, Undo("network-policy", {"namespace": "ns", "name": "theirs"}))
    assert here.cluster.deleted == []


# --- restart-container


def running(pod, identity, restarts=0, ended=None):
    """The pod with its container's state."""
    last = {"terminated": {"exitCode": 137, "finishedAt": "…", "containerID": f"containerd://{ended}"}} if ended else {}
    status = {
        "name": "main", "state": {"running": {}}, "lastState": last, "restartCount": restarts,
        "containerID": f"containerd://{identity}",
    }  # fmt: skip
    return {**pod, "status": {"containerStatuses": [status]}}


def seen(writer, pod):
    metadata = pod["metadata"]
    writer.write(
        What.OBJECT, change="MODIFIED", resource="pods", uid=metadata["uid"], namespace="ns", name=metadata["name"],
        rv="1", listed=False, object=pod,
    )  # fmt: skip


def test_a_restart_is_proved_by_the_end_of_this_container_and_another_in_the_same_pod(pod, reach, writer, monkeypatch):
    monkeypatch.setattr(restart_container, "_RESTART_SECONDS", 0.2)
    fault = RestartContainer.of(running(pod(), "one"))
    here = reach(None)
    seen(writer, running(pod(), "one"))
    seen(writer, running(pod(uid="other"), "two", restarts=1, ended="one"))
    seen(writer, running(pod(), "two", restarts=1, ended="zero"))
    with pytest.raises(NoEffect, match="a restart of main"):
        fault.prove(here, 0)
    seen(writer, running(pod(), "two", restarts=1, ended="one"))
    proof = fault.prove(here, 0)
    assert (proof["container_id"], proof["exit_code"], proof["restarts"], proof["entry"]) == ("two", 137, 1, 3)


def test_the_container_that_was_chosen_is_stopped_and_no_successor(pod, local_node, reach):
    node = local_node(identity="one", main=1)
    RestartContainer.of(running(pod(), "one"), grace=3).apply(reach(node))
    assert node.stopped == [["crictl", "--timeout", "23s", "stop", "--timeout", "3", "one"]]
    with pytest.raises(StackError, match="isn't the one"):
        RestartContainer.of(running(pod(), "former")).apply(reach(node))
    assert len(node.stopped) == 1


def test_a_container_that_does_not_run_can_not_be_restarted(pod):
    with pytest.raises(StackError, match="not running"):
        RestartContainer.of(pod())
