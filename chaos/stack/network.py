"""The seal: nothing leaves the stack's own network, and that is proved at every `up`.

A service without endpoints does not refuse: its packets take the default route, out of the cluster, and whatever listens
there may answer. So every node loses its default route, from inside, by a unit that also runs when the node restarts; no
root on the host is needed, and the change goes with the node. CoreDNS answers cluster names only.

The proof has a control arm: the listener that sealed nodes must not reach is reached from an unsealed container beside them.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from chaos.errors import StackError
from chaos.stack.cluster import Cluster
from chaos.stack.engine import Engine
from chaos.waiting import until

SERVICE_CIDR = "10.96.0.0/16"  # kind's default

# `replace` makes it idempotent. The service range needs a route of its own: a node looks the route up before kube-proxy's
# rules translate the address.
_SCRIPT = f"""#!/bin/sh
set -eu
ip route replace {SERVICE_CIDR} dev eth0
ip route replace unreachable default
"""
_UNIT = """[Unit]
Description=Keep the node's traffic inside the stack's network
Before=kubelet.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/kuberay-chaos-seal
[Install]
WantedBy=multi-user.target
"""

# Two servers, since the order of plugins is fixed and `template` would answer before `kubernetes` is asked.
COREFILE = """cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       ttl 30
    }
    prometheus :9153
    reload
    loadbalance
}
.:53 {
    errors
    template ANY ANY {
       rcode NXDOMAIN
    }
}
"""

# In a stack that is just being stood up: until nodes are Ready, and images unpacked.
_POD_SECONDS = 120.0

# What bash can connect to is reached, whatever it then says. Refused, unreachable and silent are all the same: not reached.
_CONNECT = 'exec 3<>"/dev/tcp/$0/$1"'
_GREETING = "outside"
_CONNECT_AND_READ = _CONNECT + f' && read -r -t 3 word <&3 && test "$word" = {_GREETING}'


def seal(engine: Engine, nodes: list[str]) -> None:
    """Close every node's way out, all side by side; safe to repeat."""
    install = (
        "cat > /usr/local/sbin/kuberay-chaos-seal && chmod 755 /usr/local/sbin/kuberay-chaos-seal && kuberay-chaos-seal"
    )
    # Which makes systemd read its units anew as well.
    enable = (
        "cat > /etc/systemd/system/kuberay-chaos-seal.service && systemctl enable --quiet kuberay-chaos-seal.service"
    )

    def close(node: str) -> None:
        for script, text in ((install, _SCRIPT), (enable, _UNIT)):
            done = engine.exec(node, ["sh", "-c", script], stdin=text.encode())
            if not done.ok:
                raise StackError(f"node {node} could not be sealed: {done.error_text.strip()[-300:]}")

    with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        list(pool.map(close, nodes))


def answer_cluster_names_only(cluster: Cluster) -> None:
    """Take forwarding out of CoreDNS, before its pods start and read their configuration."""
    cluster.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "coredns", "namespace": "kube-system"},
                "data": {"Corefile": COREFILE},
            }
        ]
    )


def wait_for_names(cluster: Cluster, pod: tuple[str, str, str]) -> None:
    """Waits until the pod runs and is told names of the cluster. Raises `StackError`."""
    lookup = ["getent", "hosts", "kubernetes.default.svc.cluster.local"]
    until(
        lambda: _ok_in_pod(cluster, pod, lookup),
        what=f"an answer to the pod {pod[0]}/{pod[1]}, which asks for a name of the cluster",
        deadline=_POD_SECONDS, every=1, error=StackError,
    )  # fmt: skip


@dataclass(frozen=True)
class Leak:
    """A probe that got out."""

    source: str
    target: str


def prove_sealed(
    engine: Engine, cluster: Cluster, *, network: str, nodes: list[str], image: str, pod: tuple[str, str, str]
) -> None:
    """Probe from every node and from one pod (namespace, name, container); raises StackError when anything gets out.

    Targets: a listener of ours on another Docker network, a service without endpoints, and an outside name.
    """
    wait_for_names(cluster, pod)  # before, it shows nothing that the pod is told no others
    with _outside_listener(engine, network) as (address, port):
        _require_control(engine, network, image, address, port)
        hole = _endpointless(cluster)
        targets = {"a listener on another Docker network": (address, port), "a service without endpoints": (hole, 6379)}
        probes: list[tuple[Leak, Callable[[], bool]]] = []
        for target, (host, target_port) in targets.items():
            connect = _connect(host, target_port)
            probes += [(Leak(node, target), partial(_ok_on_node, engine, node, connect)) for node in nodes]
            probes.append((Leak("a pod", target), partial(_ok_in_pod, cluster, pod, connect)))
        lookup = ["getent", "hosts", "example.com"]
        probes.append((Leak("a pod", "an outside name"), partial(_ok_in_pod, cluster, pod, lookup)))
        with ThreadPoolExecutor(max_workers=len(probes)) as pool:
            out = pool.map(lambda probe: probe[1](), probes)
            leaks = [leak for (leak, _), leaked in zip(probes, out, strict=True) if leaked]
    if leaks:
        listed = "; ".join(f"{leak.source} reached {leak.target}" for leak in leaks)
        raise StackError(
            f"the stack's network is not sealed: {listed}",
            fix="`make down`, then try again; or `--open-egress` if traffic may leave this machine",
        )


def _ok_on_node(engine: Engine, node: str, command: list[str]) -> bool:
    return engine.exec(node, command, timeout=15).ok


def _ok_in_pod(cluster: Cluster, pod: tuple[str, str, str], command: list[str]) -> bool:
    namespace, name, container = pod
    return cluster.exec(namespace, name, command, container=container, timeout=15).ok


def _connect(host: str, port: int, script: str = _CONNECT) -> list[str]:
    return ["timeout", "5", "bash", "-c", script, host, str(port)]


def _require_control(engine: Engine, network: str, image: str, address: str, port: int) -> None:
    knock = _connect(address, port, _CONNECT_AND_READ)
    control = engine.docker(
        "run", "--rm", f"--network={network}", f"--entrypoint={knock[0]}", image, *knock[1:], timeout=60, check=False
    )
    if not control.ok:
        raise StackError(
            "the seal can't be proved: an unsealed container doesn't reach the probe's listener either "
            f"({control.error_text.strip()[-200:] or f'exit code {control.code}'})",
            fix="a firewall on this host may drop what containers send to it; allow Docker's networks, or use --open-egress",
        )


def _endpointless(cluster: Cluster) -> str:
    """The address of a service that has no endpoints and never will."""
    cluster.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "kuberay-chaos-nowhere", "namespace": "default"},
                "spec": {"ports": [{"port": 6379, "protocol": "TCP"}]},
            }
        ]
    )
    service = cluster.get("services", "default", "kuberay-chaos-nowhere")
    assert service is not None
    return str(service["spec"]["clusterIP"])


@contextlib.contextmanager
def _outside_listener(engine: Engine, network: str) -> Iterator[tuple[str, int]]:
    """Greet whoever connects, on the gateway of a second Docker network: reachable on this machine only."""
    outside = f"{network}-outside"
    if engine.inspect("network", outside) is None:
        # Labelled as the network it stands beside: with that stack it is found, should this process be killed.
        ours = (engine.inspect("network", network) or {}).get("Labels") or {}
        owner = [f"--label={key}={value}" for key, value in ours.items()]
        engine.docker("network", "create", "--driver=bridge", *owner, outside)
    try:
        described = engine.inspect("network", outside)
        assert described is not None
        gateway = described["IPAM"]["Config"][0]["Gateway"]
        with socket.create_server((gateway, 0)) as server:
            greeter = threading.Thread(target=_greet, args=(server,), daemon=True)
            greeter.start()
            yield gateway, server.getsockname()[1]
    finally:
        engine.docker("network", "rm", outside, check=False)


def _greet(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:  # closed: the proof is over
            return
        with connection, contextlib.suppress(OSError):
            connection.sendall(f"{_GREETING}\n".encode())
