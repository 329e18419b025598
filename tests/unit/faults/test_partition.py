"""Partitions and loss: which rules, that each injection has a chain of its own, and that undo removes that one alone."""

from dataclasses import replace

import pytest

from chaos.errors import NoEffect, StackError
from chaos.faults import addresses, chain
from chaos.faults.delay import Delay
from chaos.faults.loss import Loss
from chaos.faults.partition import Direction, Mode, Partition
from chaos.faults.undo import Undo, perform

DROPPED = """\
*filter
:INPUT ACCEPT [9:900]
:KUBERAY-CHAOS-aa - [0:0]
:KUBERAY-CHAOS-aab - [0:0]
[7:420] -A INPUT -j KUBERAY-CHAOS-aa
[7:420] -A INPUT -i eth0 -j KUBERAY-CHAOS-aa
[7:420] -A INPUT -j KUBERAY-CHAOS-aab
[5:300] -A KUBERAY-CHAOS-aa -p icmp -m icmp --icmp-type 3/3 -j RETURN
[3:180] -A KUBERAY-CHAOS-aa -s 10.0.0.2/32 -j REJECT --reject-with icmp-port-unreachable
[4:240] -A KUBERAY-CHAOS-aa -d 10.0.0.2/32 -j DROP
[99:99] -A KUBERAY-CHAOS-aab -d 10.0.0.2/32 -j DROP
COMMIT
"""


def test_packets_that_were_cut_are_counted_and_no_others():
    assert chain.hits(DROPPED, "KUBERAY-CHAOS-aa") == 7
    assert chain.hits(DROPPED, "KUBERAY-CHAOS-a") == 0
    assert chain.hits("", "KUBERAY-CHAOS-aa") == 0


def test_removal_names_every_jump_to_this_chain_and_to_no_other():
    assert chain.removal(DROPPED, "KUBERAY-CHAOS-aa") == [
        "-D INPUT -j KUBERAY-CHAOS-aa", "-D INPUT -i eth0 -j KUBERAY-CHAOS-aa",
        "-F KUBERAY-CHAOS-aa", "-X KUBERAY-CHAOS-aa",
    ]  # fmt: skip
    assert chain.removal(DROPPED, "KUBERAY-CHAOS-bb") == []


def test_names_of_chains_differ_and_fit():
    names = {chain.new_name() for _ in range(50)}
    assert len(names) == 50
    assert max(map(len, names)) <= 28
    assert all(name.startswith("KUBERAY-CHAOS-") for name in names)


@pytest.mark.parametrize(
    ("mode", "direction", "rules"),
    [
        (Mode.DROP, Direction.BOTH, ["-s 10.0.0.2 -j DROP", "-d 10.0.0.2 -j DROP"]),
        (Mode.DROP, Direction.IN, ["-s 10.0.0.2 -j DROP"]),
        (
            Mode.REJECT, Direction.OUT,
            ["-p icmp --icmp-type port-unreachable -j RETURN", "-d 10.0.0.2 -j REJECT --reject-with icmp-port-unreachable"],
        ),
        (
            Mode.RESET, Direction.IN,
            ["-p tcp --tcp-flags RST RST -j RETURN", "-s 10.0.0.2 -p tcp -j REJECT --reject-with tcp-reset"],
        ),
    ],
)  # fmt: skip
def test_rules(pod, mode, direction, rules):
    assert Partition.between(pod(), [pod(ip="10.0.0.2")], mode=mode, direction=direction).rules == rules


@pytest.mark.parametrize("address", ["fd00::1", "10.0.0.2\n-A INPUT -j DROP", "redis", ""])
def test_what_is_no_ipv4_address_never_becomes_a_rule(pod, address):
    with pytest.raises(StackError, match="IPv4"):
        Partition.between(pod(), [pod(ip=address)])


@pytest.mark.parametrize(
    "fault",
    [
        lambda pod, other: Partition.between(pod, [other]),
        lambda pod, other: Loss.of(pod, percent=5),
        lambda pod, other: Delay.of(pod, milliseconds=50),
    ],
    ids=["partition", "loss", "delay"],
)
def test_a_pod_in_the_network_of_its_node_is_refused(pod, fault):
    of_node = pod()
    of_node["spec"]["hostNetwork"] = True
    with pytest.raises(StackError, match="no network of its own"):
        fault(of_node, pod(ip="10.0.0.2"))


def test_a_partition_from_nothing_is_refused(pod):
    with pytest.raises(StackError, match="no address"):
        Partition.between(pod(), [])


@pytest.mark.parametrize(
    ("spec", "endpoints", "expected"),
    [
        (
            {"clusterIPs": ["10.96.0.1"]},
            {"subsets": [{"addresses": [{"ip": "10.0.0.2"}], "notReadyAddresses": [{"ip": "10.0.0.3"}]}]},
            ["10.96.0.1", "10.0.0.2", "10.0.0.3"],
        ),
        ({"clusterIPs": ["None"]}, {"subsets": [{"addresses": [{"ip": "10.0.0.2"}] * 2}]}, ["10.0.0.2"]),
        ({"clusterIPs": ["10.96.0.1"]}, {"subsets": None}, ["10.96.0.1"]),
        ({"clusterIPs": ["10.96.0.1"]}, None, ["10.96.0.1"]),
    ],
)
def test_a_service_is_its_cluster_ip_and_what_is_behind_it(spec, endpoints, expected):
    assert addresses.addresses({"spec": spec}, endpoints) == tuple(expected)


def test_two_on_one_pod_do_not_collide_and_each_undo_removes_its_own(pod, packet_filter, reach):
    before = packet_filter.saved()
    first = Partition.between(pod(), [pod(ip="10.0.0.2")])
    second = Loss.of(pod(), percent=5)
    undos = {fault: fault.undo(reach(packet_filter)) for fault in (first, second)}
    first.apply(reach(packet_filter))
    alone = packet_filter.saved()
    second.apply(reach(packet_filter))
    for undo in undos[second]:
        perform(packet_filter, undo)
    assert packet_filter.saved() == alone
    second.relieved(reach(packet_filter))
    with pytest.raises(StackError, match="still there"):
        first.relieved(reach(packet_filter))
    for _ in range(2):
        for undo in undos[first]:
            perform(packet_filter, undo)
    assert packet_filter.saved() == before


def test_the_proof_is_packets_that_were_cut(pod, packet_filter, reach, monkeypatch):
    monkeypatch.setattr(Partition, "bite_seconds", 0.2)
    fault = Partition.between(pod(), [pod(ip="10.0.0.2")])
    fault.apply(reach(packet_filter))
    with pytest.raises(NoEffect, match="cut packets"):
        fault.prove(reach(packet_filter), 0)
    packet_filter.packets["-d 10.0.0.2 -j DROP"] = 3
    assert fault.prove(reach(packet_filter), 0) == {"packets": 3}


def test_undo_is_content_when_the_pod_is_gone_and_touches_no_foreign_chain(pod, packet_filter, reach):
    fault = Partition.between(pod(), [pod(ip="10.0.0.2")])
    [undo] = fault.undo(reach(packet_filter))
    packet_filter.there = False
    perform(packet_filter, undo)
    fault.relieved(reach(packet_filter))
    with pytest.raises(StackError, match="not a chain of ours"):
        perform(packet_filter, Undo("pod-chain", {**undo.what, "chain": "INPUT"}))
    with pytest.raises(StackError, match="no sandbox"):
        fault.apply(reach(packet_filter))


def test_a_chain_that_could_not_be_made_leaves_nothing(pod, packet_filter, reach):
    before = packet_filter.saved()
    del packet_filter.chains["OUTPUT"]
    with pytest.raises(StackError, match="iptables-restore"):
        Partition.between(pod(), [pod(ip="10.0.0.2")]).apply(reach(packet_filter))
    packet_filter.chains["OUTPUT"] = []
    assert packet_filter.saved() == before


@pytest.mark.parametrize("percent", [0, -1, 100.5])
def test_loss_of_no_share_is_refused(pod, percent):
    with pytest.raises(StackError, match="percent"):
        Loss.of(pod(), percent=percent)


def test_loss_spares_the_loopback_and_drops_at_random(pod):
    loss = Loss.of(pod(), percent=2.5)
    assert loss.rules == [
        "-i lo -j RETURN", "-o lo -j RETURN", "-m statistic --mode random --probability 0.025000 -j DROP",
    ]  # fmt: skip
    assert replace(loss).chain == loss.chain
