"""What the cluster is made from, and whose cluster it is. Docker and kind are fakes."""

import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from chaos.errors import BusyError, StackError
from chaos.process import Executed
from chaos.stack import kind as kinds
from chaos.stack.engine import FOLDER_LABEL, STACK_LABEL
from chaos.stack.kind import Kind, StackFolder

NODES = ("demo-worker2", "demo-control-plane", "demo-worker")


class FakeEngine:
    def __init__(self):
        self.nodes = ()
        self.running = ()
        self.networks = {}
        self.commands = []

    def docker(self, *args, timeout=60):
        self.commands.append(args)
        match args:
            case ["ps", "--all", *_]:
                return Executed(0, "\n".join(self.nodes).encode(), b"")
            case ["ps", *_]:
                return Executed(0, "\n".join(self.running).encode(), b"")
            case ["network", "create", *options, name]:
                labels = [o.removeprefix("--label=") for o in options if o.startswith("--label=")]
                self.networks[name] = dict(label.split("=") for label in labels)
            case ["network", "rm", name]:
                del self.networks[name]
            case ["rm", "--force", "--volumes", *names]:
                self.nodes = tuple(node for node in self.nodes if node not in names)
        return Executed(0, b"", b"")

    def inspect(self, what, name):
        return {"Labels": self.networks[name]} if name in self.networks else None


@pytest.fixture
def engine():
    return FakeEngine()


@pytest.fixture
def kind(engine, program):
    program(
        "kind",
        """
        if [ "$1" = get ]; then echo "$@" > "$0.asked"; echo a kubeconfig; exit; fi
        echo "$@" > "$0.called"; env > "$0.env"
        while [ "$1" != --kubeconfig ]; do shift; done; echo kinds > "$2"
        """,
    )
    return Kind("demo", engine, program("kind-path", 'exec kind "$@"'), program("kubectl", ""))


@pytest.fixture
def ours(engine):
    engine.nodes = engine.running = NODES
    engine.networks = {"demo-net": {STACK_LABEL: "demo"}}


@pytest.fixture
def created(kind, console, tmp_path):
    kind.create("node:1", console, meanwhile=lambda: None)
    read = lambda name: (tmp_path / "bin" / name).read_text()  # noqa: E731
    return SimpleNamespace(
        called=read("kind.called").split(),
        environment=read("kind.env").splitlines(),
        config=yaml.safe_load((kind.folder.root / "kind.yaml").read_text()),
        policy=yaml.safe_load((kind.folder.root / "audit-policy.yaml").read_text()),
    )


def test_the_private_files_are_their_owners_and_pods_of_any_user_may_append(tmp_path):
    folder = StackFolder(tmp_path / "stacks" / "demo")
    for _ in range(2):
        folder.create()
    assert stat.S_IMODE(folder.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.ledger.stat().st_mode) == 0o1777


def test_the_cluster_is_made_on_a_network_of_its_own_with_a_private_kubeconfig(created, engine, kind):
    assert engine.networks == {"demo-net": {STACK_LABEL: "demo", FOLDER_LABEL: str(kind.folder.root)}}
    assert "KIND_EXPERIMENTAL_DOCKER_NETWORK=demo-net" in created.environment
    assert created.called[:6] == ["create", "cluster", "--name", "demo", "--image", "node:1"]
    assert kind.folder.kubeconfig.read_text() == "a kubeconfig\n"
    assert stat.S_IMODE(kind.folder.kubeconfig.stat().st_mode) == 0o600
    theirs = Path(created.called[created.called.index("--kubeconfig") + 1])
    assert theirs.parent == kind.folder.root, "not the user's"
    assert not theirs.exists()


def test_what_is_done_meanwhile_begins_once_while_the_workers_are_joining(kind, program, console, tmp_path):
    program(
        "kind",
        """
        if [ "$1" = get ]; then echo a kubeconfig; exit; fi
        echo ' * Joining worker nodes'; echo ' * Joining worker nodes, still'
        for _ in $(seq 100); do [ -e "$(dirname "$0")/begun" ] && exit; sleep 0.1; done
        exit 1
        """,
    )
    seen = []

    def meanwhile():
        seen.append(kind.folder.kubeconfig.read_text())
        (tmp_path / "bin" / "begun").touch()

    kind.create("node:1", console, meanwhile=meanwhile)
    assert seen == ["a kubeconfig\n"]


def test_what_fails_meanwhile_is_raised_once_the_cluster_is_made(kind, console):
    def meanwhile():
        raise StackError("kubectl apply failed")

    with pytest.raises(StackError, match="kubectl apply failed"):
        kind.create("node:1", console, meanwhile=meanwhile)
    assert kind.folder.kubeconfig.exists()


def test_a_cluster_without_a_kubeconfig_is_told(kind, program, console):
    program("kind", '[ "$1" != get ] || { echo no such cluster >&2; exit 1; }')
    with pytest.raises(StackError, match="no such cluster"):
        kind.create("node:1", console, meanwhile=lambda: None)


def test_the_api_server_listens_on_loopback_and_no_other_cni_is_installed(created):
    assert created.config["networking"]["apiServerAddress"] == "127.0.0.1"
    assert created.config["networking"]["disableDefaultCNI"] is True


def test_every_node_has_the_ledger_and_only_the_control_plane_the_audit_log(created, kind):
    control_plane, *workers = created.config["nodes"]
    assert [node["role"] for node in created.config["nodes"]] == ["control-plane", "worker", "worker"]
    for node in created.config["nodes"]:
        assert {"hostPath": str(kind.folder.ledger), "containerPath": kinds.NODE_LEDGER} in node["extraMounts"]
    assert [len(node["extraMounts"]) for node in workers] == [1, 1]
    assert str(kind.folder.audit) in [mount["hostPath"] for mount in control_plane["extraMounts"]]


def kubeadm(created, kind):
    (found,) = [patch for patch in map(yaml.safe_load, created.config["kubeadmConfigPatches"]) if patch["kind"] == kind]
    return found


def test_the_api_server_is_patched_from_a_folder_that_the_control_plane_sees(created, kind):
    inside = {mount["containerPath"]: mount for mount in created.config["nodes"][0]["extraMounts"]}
    folder = inside[kubeadm(created, "InitConfiguration")["patches"]["directory"]]
    assert folder["readOnly"] is True
    (patch,) = Path(folder["hostPath"]).iterdir()
    assert patch.name == "kube-apiserver+strategic.yaml", "kubeadm goes by the name"
    (container,) = yaml.safe_load(patch.read_text())["spec"]["containers"]
    assert (container["name"], [variable["name"] for variable in container["env"]]) == ("kube-apiserver", ["GOGC"])


def test_the_api_server_reads_the_policy_and_writes_the_log_where_they_are_mounted(created, kind):
    patch = kubeadm(created, "ClusterConfiguration")
    arguments = patch["apiServer"]["extraArgs"]
    inside = {mount["hostPath"]: mount for mount in created.config["nodes"][0]["extraMounts"]}
    policy, log = inside[str(kind.folder.root / "audit-policy.yaml")], inside[str(kind.folder.audit)]
    assert arguments["audit-policy-file"] == policy["containerPath"]
    assert policy["readOnly"] is True
    assert arguments["audit-log-path"] == f"{log['containerPath']}/{kind.folder.audit_log.name}"
    into_the_pod = {volume["mountPath"]: volume for volume in patch["apiServer"]["extraVolumes"]}
    assert set(into_the_pod) == {policy["containerPath"], log["containerPath"]}
    assert not into_the_pod[log["containerPath"]].get("readOnly")


def level(policy, verb, group, resource):
    """The audit level of a request: the first rule that matches, as the API server decides it."""
    for rule in policy["rules"]:
        if verb not in rule.get("verbs", [verb]):
            continue
        kinds_ = rule.get("resources")
        if kinds_ and not any(
            k.get("group", "") == group and resource in (k.get("resources") or [resource]) for k in kinds_
        ):
            continue
        return rule["level"]
    return "None"


@pytest.mark.parametrize(
    ("verb", "group", "resource", "expected"),
    [
        ("create", "batch", "jobs", "Metadata"),
        ("update", "ray.io", "rayjobs/status", "Metadata"),
        ("create", "", "secrets", "Metadata"),
        ("delete", "", "pods", "Metadata"),
        ("get", "batch", "jobs", "None"),
        ("watch", "", "pods", "None"),
        ("update", "coordination.k8s.io", "leases", "None"),
        ("create", "", "events", "None"),
        ("create", "events.k8s.io", "events", "None"),
        ("create", "authorization.k8s.io", "subjectaccessreviews", "None"),
    ],
)
def test_the_audit_log_holds_writes_and_never_a_body(created, verb, group, resource, expected):
    assert level(created.policy, verb, group, resource) == expected
    assert {rule["level"] for rule in created.policy["rules"]} == {"None", "Metadata"}


@pytest.mark.parametrize(("may", "gates"), [(True, None), (False, {"KubeletInUserNamespace": True})])
def test_the_kubelet_goes_on_where_it_may_not_raise_limits(kind, monkeypatch, may, gates):
    monkeypatch.setattr(kinds, "may_raise_limits", lambda: may)
    assert kind._config().get("featureGates") == gates


def test_kinds_own_words_are_in_the_error(engine, program, console):
    failing = Kind("demo", engine, program("kind", 'echo "ERROR: no room" >&2; exit 1'), program("kubectl", ""))
    with pytest.raises(StackError, match="ERROR: no room") as failed:
        failing.create("node:1", console, meanwhile=lambda: None)
    assert "kind.log" in failed.value.fix


@pytest.mark.usefixtures("ours")
def test_nodes_are_listed_control_plane_first(kind):
    assert kind.nodes() == ["demo-control-plane", "demo-worker", "demo-worker2"]
    assert kind.owned()


@pytest.mark.usefixtures("ours")
def test_deletion_takes_nodes_network_and_files_and_may_be_repeated(kind, engine):
    for _ in range(2):
        kind.delete()
    assert engine.nodes == ()
    assert engine.networks == {}
    assert not kind.folder.root.exists()


@pytest.mark.parametrize("networks", [{}, {"demo-net": {STACK_LABEL: "another"}}, {"demo-net": None}])
def test_a_cluster_of_somebody_else_is_neither_used_nor_removed(kind, engine, console, networks):
    engine.nodes, engine.networks = NODES, networks
    with pytest.raises(BusyError, match="isn't ours"):
        kind.create("node:1", console, meanwhile=lambda: None)
    with pytest.raises(StackError, match="isn't ours"):
        kind.delete()
    assert engine.nodes == NODES
    assert not [command for command in engine.commands if command[0] == "rm"]
