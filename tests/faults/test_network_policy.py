"""A NetworkPolicy denies new connections, and is no partition: an open one goes on."""

import pytest

from chaos.errors import NoEffect
from chaos.faults.network_policy import NetworkPolicy


def policies(cluster, namespace):
    return [found["metadata"]["name"] for found in cluster.list("networkpolicies", namespace)]


def test_ingress_is_denied_to_these_pods_and_an_open_connection_goes_on(
    cluster, inject, namespace, stand_in, connect, attempt
):
    server, other, client = stand_in("server", labels={"app": "denied"}), stand_in("other"), stand_in("client")
    before = policies(cluster, namespace)
    held = connect(client, server["status"]["podIP"])
    with inject(NetworkPolicy.ingress(server, 7000, probed_from=client)):
        assert attempt(client, server["status"]["podIP"]) != "connected"
        assert attempt(client, other["status"]["podIP"]) == "connected"
        assert attempt(server, other["status"]["podIP"]) == "connected", "only ingress is denied"
        assert held.exchanged_within(5)
    assert attempt(client, server["status"]["podIP"]) == "connected"
    assert policies(cluster, namespace) == before


def test_egress_is_denied_to_these_pods(cluster, inject, namespace, stand_in, attempt):
    denied, server, client = stand_in("denied", labels={"app": "denied-egress"}), stand_in("server"), stand_in("client")
    before = policies(cluster, namespace)
    with inject(NetworkPolicy.egress(denied, probed_to=server, port=7000)):
        assert attempt(denied, server["status"]["podIP"]) != "connected"
        assert attempt(client, server["status"]["podIP"]) == "connected"
        assert attempt(client, denied["status"]["podIP"]) == "connected", "only egress is denied"
    assert attempt(denied, server["status"]["podIP"]) == "connected"
    assert policies(cluster, namespace) == before


@pytest.mark.level("core")
def test_a_port_where_nobody_listens_proves_nothing(cluster, inject, namespace, stand_in):
    server, client = stand_in("server", labels={"app": "deaf"}), stand_in("client")
    before = policies(cluster, namespace)
    with pytest.raises(NoEffect, match="refused"), inject(NetworkPolicy.ingress(server, 7001, probed_from=client)):
        pytest.fail("the block must not run")
    assert policies(cluster, namespace) == before
