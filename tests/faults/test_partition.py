"""Partitions by mode and direction, proved on connections open before and made anew, and undone without a trace."""

import pytest

from chaos.errors import NoEffect
from chaos.faults.addresses import of_api_server, of_service
from chaos.faults.partition import Direction, Mode, Partition
from chaos.stack import kuberay
from chaos.waiting import until


def test_drop_stalls_an_open_connection_and_no_other(inject, stand_in, connect, rules):
    server, cut, free = stand_in("server"), stand_in("cut"), stand_in("free")
    address = server["status"]["podIP"]
    stalls, goes_on = connect(cut, address), connect(free, address)
    before = rules(cut)
    with inject(Partition.between(cut, [server])):
        assert not stalls.exchanged_within(5)
        assert goes_on.exchanged_within(5)
    assert stalls.exchanged_within(30), "the same connection must go on when the packets do"
    assert max(stalls.took) >= 5
    assert rules(cut) == before


def test_reject_refuses_new_connections_while_an_open_one_stalls(inject, stand_in, connect, attempt, rules):
    server, cut, free = stand_in("server"), stand_in("cut"), stand_in("free")
    address = server["status"]["podIP"]
    stalls = connect(cut, address)
    before = rules(cut)
    with inject(Partition.between(cut, [server], mode=Mode.REJECT)):
        assert attempt(cut, address) == "ConnectionRefusedError"
        assert attempt(free, address) == "connected"
        assert not stalls.exchanged_within(3)
        assert stalls.error is None
    assert stalls.exchanged_within(30)
    assert attempt(cut, address) == "connected"
    assert rules(cut) == before


@pytest.mark.parametrize("direction", [Direction.BOTH, pytest.param(Direction.OUT, marks=pytest.mark.level("core"))])
def test_reset_breaks_an_open_connection_and_refuses_new_ones(inject, stand_in, connect, attempt, rules, direction):
    server, cut, free = stand_in("server"), stand_in("cut"), stand_in("free")
    address = server["status"]["podIP"]
    breaks, goes_on = connect(cut, address), connect(free, address)
    before = rules(cut)
    with inject(Partition.between(cut, [server], mode=Mode.RESET, direction=direction)):
        until(lambda: breaks.error, what="the end of the connection", deadline=10)
        assert breaks.error == "ConnectionResetError"
        assert attempt(cut, address) == "ConnectionRefusedError"
        assert goes_on.exchanged_within(5)
    assert attempt(cut, address) == "connected"
    assert rules(cut) == before


@pytest.mark.level("core")
def test_inwards_alone_refuses_those_who_come_and_answers_nobody_within(inject, stand_in, connect, attempt, rules):
    cut, other = stand_in("cut"), stand_in("other")
    breaks = connect(other, cut["status"]["podIP"])
    before = rules(cut)
    with inject(Partition.between(cut, [other], mode=Mode.RESET, direction=Direction.IN)):
        until(lambda: breaks.error, what="the end of the connection", deadline=10)
        assert attempt(other, cut["status"]["podIP"]) == "ConnectionRefusedError"
        # What it asks gets out, and the answer is refused to the one who gave it.
        assert attempt(cut, other["status"]["podIP"]) == "TimeoutError"
    assert attempt(other, cut["status"]["podIP"]) == "connected"
    assert attempt(cut, other["status"]["podIP"]) == "connected"
    assert rules(cut) == before


def test_a_service_is_cut_off_by_its_own_address_and_by_those_behind_it(
    cluster, inject, stand_in, connect, attempt, rules
):
    server, cut, free = stand_in("server", labels={"app": "behind-service"}), stand_in("cut"), stand_in("free")
    namespace = server["metadata"]["namespace"]

    service = cluster.create(
        "services", namespace,
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "service"},
            "spec": {"selector": {"app": "behind-service"}, "ports": [{"port": 7000}]},
        },
    )  # fmt: skip
    try:
        own, behind = service["spec"]["clusterIP"], server["status"]["podIP"]
        # A node's proxy learns of it by itself: that one pod is answered tells nothing about another node's.
        for pod in (cut, free):
            until(lambda pod=pod: attempt(pod, own) == "connected", what="the Service answers", deadline=60)
        by_service, by_pod, goes_on = connect(cut, own), connect(cut, behind), connect(free, own)
        before = rules(cut)
        # Endpoints and what the nodes go by are written by two controllers.
        until(lambda: behind in of_service(cluster, namespace, "service"), what="the Service's endpoints", deadline=30)
        addresses = of_service(cluster, namespace, "service")
        assert addresses == (own, behind)
        with inject(Partition.of(cut, addresses)):
            assert not by_service.exchanged_within(5)
            assert not by_pod.exchanged_within(1)
            assert goes_on.exchanged_within(5)
        assert by_service.exchanged_within(30)
        assert by_pod.exchanged_within(30)
        assert rules(cut) == before
    finally:
        cluster.delete("services", namespace, "service")


def test_the_operator_is_cut_off_from_the_api_server(cluster, inject, rules):
    """Shorter than what it takes to lose the lease; it renews that every two seconds, so packets are cut at once."""
    operator = kuberay.operator_pod(cluster)
    before = rules(operator)
    fault = Partition.of(operator, of_api_server(cluster))
    control_plane = [
        address["address"] for node in cluster.list("nodes", labels="node-role.kubernetes.io/control-plane")
        for address in node["status"]["addresses"] if address["type"] == "InternalIP" and "." in address["address"]
    ]  # fmt: skip
    assert fault.addresses[0] == cluster.get("services", "default", "kubernetes")["spec"]["clusterIP"]
    assert list(fault.addresses[1:]) == control_plane
    with inject(fault) as injected:
        assert rules(operator) != before
    assert injected.fault is fault
    assert rules(operator) == before
    kuberay.require_available(cluster)


@pytest.mark.level("core")
def test_two_on_one_pod_and_each_is_undone_by_itself(inject, stand_in, connect, rules):
    one, other, cut = stand_in("one"), stand_in("other"), stand_in("cut")
    to_one, to_other = (connect(cut, server["status"]["podIP"]) for server in (one, other))
    before = rules(cut)
    with inject(Partition.between(cut, [one])):
        with inject(Partition.between(cut, [other])):
            assert not to_one.exchanged_within(2)
            assert not to_other.exchanged_within(2)
        assert to_other.exchanged_within(30)
        assert not to_one.exchanged_within(2)
    assert to_one.exchanged_within(30)
    assert rules(cut) == before


@pytest.mark.level("core")
def test_a_partition_between_pods_that_do_not_talk_is_no_effect_and_leaves_nothing(inject, stand_in, rules):
    server, idle = stand_in("server"), stand_in("idle")
    before = rules(idle)
    with pytest.raises(NoEffect, match="cut packets"), inject(Partition.between(idle, [server])):
        pytest.fail("the block must not run")
    assert rules(idle) == before
