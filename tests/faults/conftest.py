"""Light stand-ins: faults act on pods' networks, processes and objects, for which a pod that sleeps will do."""

import uuid

import pytest

from chaos.stack import ray
from chaos.stack.images import catalogue
from tests.crash.pairs import DEFAULT_SEED, WHOLE


@pytest.fixture(scope="session")
def cluster(chaos_run):
    return chaos_run.stack.cluster


@pytest.fixture
def inject(chaos_run):
    return chaos_run.lab.inject


@pytest.fixture(scope="session")
def namespace(chaos_run):
    """A namespace of the tests' own, removed with the session."""
    name = f"chaos-faults-{uuid.uuid4().hex[:6]}"
    ray.ensure_namespace(chaos_run.stack.cluster, name)
    yield name
    ray.delete_namespace(chaos_run.stack.cluster, name, 60)


@pytest.fixture
def stand_in(chaos_run, namespace):
    """A function that starts a pod which listens on port 7000 and echoes, and returns it when it is Ready."""
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

    def start(name, *, restart="Always", labels=None):
        name = f"{name}-{uuid.uuid4().hex[:5]}"
        since = lab.now()
        cluster.create(
            "pods", namespace,
            {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}},
                "spec": {
                    "terminationGracePeriodSeconds": 1, "restartPolicy": restart,
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
        self.progress = None  # once one was tried
        self.not_offered = {}  # kind → the kernel feature that is missing

    def lines(self):
        now, earlier = len(self.progress.now), len(self.progress.earlier)
        yield (
            f"crash points: {now + earlier} pairs of a fault and a point left no difference, {earlier} of them in earlier "
            f"runs (seed {self.seed}; level full tries {WHOLE})"
        )
        for kind, feature in self.not_offered.items():
            yield f"not tried, for lack of {feature} in this kernel: {kind}"


@pytest.fixture(scope="session")
def crash_report(pytestconfig):
    return pytestconfig.stash.setdefault(_CRASHES, CrashReport(pytestconfig.getoption("chaos_seed") or DEFAULT_SEED))


def pytest_terminal_summary(terminalreporter, config):
    report = config.stash.get(_CRASHES, None)
    if report is not None and report.progress is not None:
        for line in report.lines():
            terminalreporter.write_line(line)
