"""Packets that are lost or late, on one pod and no other."""

from chaos.faults.delay import Delay
from chaos.faults.loss import Loss
from chaos.waiting import until

# What TCP waits at least before it sends again.
_RETRANSMISSION_SECONDS = 0.2


def test_loss_makes_exchanges_wait_and_loses_none(inject, stand_in, connect, rules):
    server, lossy = stand_in("server"), stand_in("lossy")
    client = connect(lossy, server["status"]["podIP"])
    before, untouched = rules(lossy), rules(server)
    with inject(Loss.of(lossy, percent=30)):
        assert rules(server) == untouched
        since = len(client.took)
        until(
            lambda: max(client.took[since:], default=0) >= _RETRANSMISSION_SECONDS,
            what="an exchange that had to be repeated", deadline=60,
        )  # fmt: skip
    assert client.exchanged_within(60)
    assert client.error is None
    assert rules(lossy) == before


def test_what_a_pod_sends_waits_also_in_an_open_connection_which_goes_on(cluster, inject, stand_in, connect, rules):
    server, late, other = stand_in("server"), stand_in("late"), stand_in("other")
    client, prompt = (connect(pod, server["status"]["podIP"]) for pod in (late, other))
    before, processes = rules(late), on_node(cluster, late)
    with inject(Delay.of(late, milliseconds=300)):
        since, elsewhere = len(client.took) + 1, len(prompt.took) + 1
        until(lambda: len(client.took) > since + 3, what="exchanges that are late", deadline=30)
        assert min(client.took[since:]) >= 0.3
        assert min(prompt.took[elsewhere:]) < 0.3
    since = len(client.took) + 1
    until(lambda: min(client.took[since:], default=1) < 0.3, what="an exchange that is prompt again", deadline=30)
    assert client.error is None
    assert rules(late) == before
    assert on_node(cluster, late) == processes


def on_node(cluster, pod):
    """How many Python programs the pod's node runs of its own, outside of all pods."""
    script = "for p in $(grep -LE 'kubepods|kubelet-' /proc/[0-9]*/cgroup); do cat ${p%cgroup}comm; done | grep -c python; true"
    return cluster.node_exec(pod["spec"]["nodeName"], ["sh", "-c", script]).require("processes").strip()
