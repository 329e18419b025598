"""The stack's own promises: who may reach Redis, and that any one node may go."""

import time

import pytest

from chaos.stack import network, redis
from chaos.stack.components import wait_for_nodes

CONNECT = (
    "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 3); s.settimeout(3); "
    "s.sendall(b'PING\\r\\n'); print(s.recv(64).decode())"
)


def connect(cluster, pod, address, port):
    where = pod["metadata"]
    return cluster.exec(where["namespace"], where["name"], ["python3", "-c", CONNECT, address, str(port)], timeout=15)


@pytest.mark.parametrize("port", [6379, 26379])
def test_the_network_policy_lets_redis_clients_in_and_nobody_else(cluster, lab, port):
    address = lab.redis_primary()
    namespace = lab.namespace(f"policy-{port}")
    client = lab.witness(namespace)
    lab.let_in(client, address)
    answered = connect(cluster, client, address, port)
    assert answered.ok, answered.error_text
    assert "NOAUTH" in answered.text, "without a password even a client is refused"
    cluster.patch("pods", namespace, "witness", {"metadata": {"labels": {"kuberay-chaos/redis-client": None}}})
    deadline = time.monotonic() + 20
    while connect(cluster, client, address, port).ok:
        assert time.monotonic() < deadline, "the policy isn't enforced"


def members(chaos_run, nodes):
    """What the Redis servers on these nodes say of themselves, by node; asked past the API server, which may be away."""
    label = f"io.kubernetes.pod.namespace={redis.NAMESPACE}"
    script = f'crictl exec "$(crictl ps -q --name "^redis$" --label {label})" redis-cli info replication'
    said = {}
    for node in nodes:
        answer = chaos_run.stack.engine.exec(node, ["sh", "-c", script], timeout=15)
        said[node] = dict(line.split(":", 1) for line in answer.text.splitlines() if ":" in line)
    return said


@pytest.mark.level("core")
@pytest.mark.parametrize("index", [0, 1, 2])
def test_any_one_node_may_go_and_come_back(chaos_run, cluster, index):
    """Two members are left, one of them the primary with the other in step; afterwards all is whole and still sealed."""
    engine, nodes = chaos_run.stack.engine, chaos_run.stack.kind.nodes()
    stopped = nodes[index]
    rest = [node for node in nodes if node != stopped]
    engine.docker("stop", "--time=10", stopped, timeout=60)
    try:
        deadline = time.monotonic() + 90
        while True:
            said = members(chaos_run, rest)
            primaries = [m for m in said.values() if m.get("role") == "master" and m.get("connected_slaves") == "1"]
            if len(primaries) == 1:
                break
            assert time.monotonic() < deadline, f"no primary with a replica on {rest}: {said}"
            time.sleep(1)
    finally:
        engine.docker("start", stopped)
    wait_for_nodes(cluster, count=len(nodes), deadline=180)
    redis.wait_agreed(cluster, 120)
    if chaos_run.stack.record.sealed:
        network.prove_sealed(
            engine, cluster, network=chaos_run.stack.kind.network, nodes=nodes,
            image=chaos_run.stack.record.node_image, pod=redis.PROBE_POD,
        )  # fmt: skip
