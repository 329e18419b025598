"""Light stand-ins: faults act on pods' networks, processes and objects, for which a pod that sleeps will do."""

import json
import subprocess
import threading
import time
import uuid

import pytest

from chaos.stack import kuberay, network, ray, redis
from chaos.stack.components import wait_for_nodes
from chaos.stack.images import catalogue
from tests.crash.kinds import KINDS, missing_feature
from tests.crash.pairs import DEFAULT_SEED, WHOLE

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


@pytest.fixture
def inject(chaos_run):
    return chaos_run.lab.injector


@pytest.fixture(scope="session")
def namespace(chaos_run):
    """A namespace of the tests' own, removed with the session."""
    name = f"chaos-faults-{uuid.uuid4().hex[:6]}"
    ray.ensure_namespace(chaos_run.stack.cluster, name)
    yield name
    ray.delete_namespace(chaos_run.stack.cluster, name, 60)


@pytest.fixture
def nodes(cluster):
    """The workers as the API server describes them."""
    return [node for node in cluster.list("nodes") if CONTROL_PLANE not in node["metadata"]["labels"]]


@pytest.fixture
def whole(chaos_run, cluster):
    """Afterwards: all nodes Ready, the stack's own parts at work, nothing leaves its network."""
    yield
    stack = chaos_run.stack
    wait_for_nodes(cluster, count=len(stack.kind.nodes()), deadline=180)
    cluster.wait_rolled_out("deployments", kuberay.NAMESPACE, kuberay.DEPLOYMENT, 120)
    redis.wait_agreed(cluster, 180)
    if stack.record.sealed:
        network.prove_sealed(
            stack.engine, cluster, network=stack.kind.network, nodes=stack.kind.nodes(), image=stack.record.node_image,
            pod=redis.PROBE_POD,
        )  # fmt: skip


@pytest.fixture
def stand_in(chaos_run, namespace):
    """A function that starts a pod, on a node by choice, which listens on port 7000 and echoes; returns it when it is Ready."""
    lab, cluster = chaos_run.lab, chaos_run.stack.cluster
    made = []
    echo = (
        "import socketserver\n"
        "class Echo(socketserver.StreamRequestHandler):\n"
        "    def handle(self):\n"
        "        for line in self.rfile: self.wfile.write(line)\n"
        "class Server(socketserver.ThreadingTCPServer): allow_reuse_address = daemon_threads = True\n"
        "Server(('0.0.0.0', 7000), Echo).serve_forever()\n"
    )

    def start(name, *, restart="Always", labels=None, on=None):
        name = f"{name}-{uuid.uuid4().hex[:5]}"
        since = lab.now()
        cluster.create(
            "pods", namespace,
            {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}},
                "spec": {
                    "terminationGracePeriodSeconds": 1, "restartPolicy": restart, **({"nodeName": on} if on else {}),
                    "containers": [{
                        "name": "main", "image": catalogue.ray_image(chaos_run.settings.versions.ray),
                        "imagePullPolicy": "IfNotPresent", "command": ["python3", "-c", echo],
                        "readinessProbe": {"tcpSocket": {"port": 7000}, "periodSeconds": 1},
                    }],
                },
            },
        )  # fmt: skip
        made.append(name)
        entry = lab.seen(
            lambda e: e["what"] == "object" and e["name"] == name and ray.is_ready(e["object"]),
            what=f"{name} Ready", deadline=60, since=since,
        )  # fmt: skip
        return entry["object"]

    yield start
    for name in made:
        cluster.delete("pods", namespace, name, grace=0)


_CLIENT = """
import socket, sys, time, json
s = socket.create_connection((sys.argv[1], 7000), timeout=5); s.settimeout(None)
f = s.makefile("rw")
try:
    while True:
        began = time.monotonic(); f.write("x\\n"); f.flush(); f.readline()
        print(json.dumps({"took": time.monotonic() - began}), flush=True); time.sleep(0.1)
except OSError as error:
    print(json.dumps({"error": type(error).__name__}), flush=True)
"""
_ATTEMPT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 7000), timeout=3).close()
    print("connected")
except OSError as error:
    print(type(error).__name__)
"""


class Client:
    """Exchanges lines over one connection from a pod to an address, and keeps how long each took, and how it broke."""

    def __init__(self, cluster, pod, address):
        where = pod["metadata"]
        command = cluster.exec_command(where["namespace"], where["name"], ["python3", "-c", _CLIENT, address])
        self.took = []
        self.error = None
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            said = json.loads(line)
            if "error" in said:
                self.error = said["error"]
            else:
                self.took.append(said["took"])

    def exchanged_within(self, seconds):
        """Whether another exchange completes within that time."""
        seen, end = len(self.took), time.monotonic() + seconds
        while time.monotonic() < end:
            if len(self.took) > seen:
                return True
            time.sleep(0.05)
        return False

    def close(self):
        self.process.kill()
        self.process.wait()
        self._reader.join(5)
        self.process.stdout.close()


@pytest.fixture
def connect(cluster):
    """A function that opens a connection from a pod to port 7000 of an address, and keeps it in use."""
    clients = []

    def start(pod, address):
        clients.append(Client(cluster, pod, address))
        assert clients[-1].exchanged_within(20)
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def attempt(cluster):
    """A function that says what becomes of one new connection: ``connected``, or the name of the error."""

    def connection(pod, address):
        where = pod["metadata"]
        argv = ["python3", "-c", _ATTEMPT, address]
        return cluster.exec(where["namespace"], where["name"], argv, timeout=20).require("an attempt").decode().strip()

    return connection


@pytest.fixture
def rules(cluster):
    """A function that gives a pod's own packet filter, as text without counters."""

    def read(pod):
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        found = cluster.node_exec(node, ["crictl", "pods", "-q", "--label", f"io.kubernetes.pod.uid={uid}"])
        described = cluster.node_exec(node, ["crictl", "inspectp", found.text.split()[0]])
        pid = json.loads(described.stdout)["info"]["pid"]
        listed = cluster.node_exec(node, ["nsenter", "-t", str(pid), "-n", "iptables-save", "-t", "filter"])
        lines = listed.require("iptables-save").decode().splitlines()
        return [line for line in lines if line.startswith(("-", "*", ":KUBERAY"))]

    return read


def container_status(cluster, pod):
    """The main container's status as it is now."""
    found = cluster.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    return found["status"]["containerStatuses"][0]


# --- crash points ---------------------------------------------------------------------------------------------------

_CRASHES = pytest.StashKey["CrashReport"]()


class CrashReport:
    """What came of the pairs of a fault and a crash point, told at the end."""

    def __init__(self, seed):
        self.seed = seed
        self.passed = 0

    def lines(self):
        yield (
            f"crash points: {self.passed} pairs of a fault and a point left no difference (seed {self.seed}; level full "
            f"tries {WHOLE})"
        )
        for kind, row in KINDS.items():
            if feature := missing_feature(row):
                yield f"not tried, for lack of {feature} in this kernel: {kind}"


@pytest.fixture(scope="session")
def crash_report(pytestconfig):
    return pytestconfig.stash.setdefault(_CRASHES, CrashReport(pytestconfig.getoption("chaos_seed") or DEFAULT_SEED))


def pytest_terminal_summary(terminalreporter, config):
    report = config.stash.get(_CRASHES, None)
    if report is not None:
        for line in report.lines():
            terminalreporter.write_line(line)
