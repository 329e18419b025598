"""A cluster of the user's: its file stays as it is, no other cluster is asked, and only our own namespaces are touched."""

import argparse
import datetime
import ipaddress
import json
import ssl
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from chaos import cli, signals
from chaos.console import Console
from chaos.errors import BusyError, FeatureMissing, NoEffect, NotAllowed, StackError, UsageError
from chaos.experiment import Declaration
from chaos.faults.base import Fault
from chaos.faults.delete_pod import DeletePod
from chaos.faults.kill_process import KillProcess
from chaos.faults.refuse_write import RefuseWrite
from chaos.faults.undo import Undo
from chaos.locks import hold
from chaos.run import Run
from chaos.settings import Level, Settings
from chaos.sharing import Member
from chaos.stack import stack
from chaos.stack.given import private_copy
from chaos.stack.stack import lock_path
from chaos.verdict import Outcome


class Server:
    """An API server over TLS that knows little, and remembers who came and what was asked."""

    def __init__(self, certificate):
        self.connections = 0
        self.requests = []  # (method, path)
        self.objects = {
            "/version": {"gitVersion": "v1.33.1-eks-1234"},
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayclusters.ray.io": {"metadata": {}},
        }
        self.lists = {"/apis/apps/v1/deployments": [operator("quay.io/kuberay/operator:v1.5.1")]}
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                path, _, query = self.path.partition("?")
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.requests.append((self.command, path))
                status, answer = server.answer(self.command, path, query, body)
                data = b"" if answer is None else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *args):
                pass

        class Counting(ThreadingHTTPServer):
            daemon_threads = True

            def process_request(self, *arguments):
                server.connections += 1
                super().process_request(*arguments)

        self._server = Counting(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, method, path, query, body):
        if "watch=true" in query:
            threading.Event().wait(0.1)
            return 200, None
        if method == "POST":
            made = json.loads(body)
            self.objects[f"{path}/{made['metadata']['name']}"] = made
            return 201, made
        if method == "DELETE":
            return (200, {}) if self.objects.pop(path, None) else (404, {})
        if path in self.objects:
            return 200, self.objects[path]
        plural = path.rpartition("/")[2]
        if plural in ("pods", "jobs", "events", "rayclusters", "rayjobs", "leases", "deployments"):
            return 200, {"metadata": {"resourceVersion": "1"}, "items": self.lists.get(path, [])}
        return 404, {"reason": "NotFound", "message": path}

    def namespace(self, name, **labels):
        self.objects[f"/api/v1/namespaces/{name}"] = {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}
        }

    def close(self):
        self._server.shutdown()
        self._server.server_close()


def operator(image):
    spec = {"template": {"spec": {"containers": [{"image": image}]}}}
    return {"metadata": {"name": "kuberay-operator"}, "spec": spec}


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A certificate for this machine's loopback address, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(True, False, False, False, False, True, False, False, False), critical=True
        )
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    (path.parent / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def servers(certificate):
    """The user's cluster, and the one that everything else on this machine points to."""
    both = [Server(certificate), Server(certificate)]
    yield both
    for each in both:
        each.close()


def kubeconfig(path, contexts, *, current):
    """A file with one cluster, one user and one context for each of ``contexts``: name to server."""
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": current,
                "contexts": [{"name": n, "context": {"cluster": f"at-{n}", "user": f"who-{n}"}} for n in contexts],
                "clusters": [
                    {"name": f"at-{n}", "cluster": {"server": url, "certificate-authority": "ca.pem"}}
                    for n, url in contexts.items()
                ],
                "users": [{"name": f"who-{n}", "user": {"token": f"token-{n}"}} for n in contexts],
            }
        )
    )  # fmt: skip
    return path


@pytest.fixture
def file(tmp_path, servers, certificate, monkeypatch):
    """The user's file, whose current context is the other cluster, as are the ambient ones."""
    mine, other = servers
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "home" / ".kube"):
        (folder / "ca.pem").write_bytes((certificate.parent / "ca.pem").read_bytes())
    kubeconfig(tmp_path / "home" / ".kube" / "config", {"other": other.url}, current="other")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "ambient", {"other": other.url}, current="other")))
    monkeypatch.setenv("KUBERAY_CHAOS_STATE", str(tmp_path / "state"))
    return kubeconfig(tmp_path / "mine", {"other": other.url, "mine": mine.url}, current="other")


@pytest.fixture
def kubectl(tmp_path, monkeypatch, servers):
    """A kubectl that notes how it was called; what it is asked to apply, the server then has."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/kubectl-calls\ncat > /dev/null\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return tmp_path / "kubectl-calls"


def settings(file, *, context="mine", allow=(), **more):
    return Settings.from_args(
        argparse.Namespace(
            kubeconfig=str(file), context=context, allow_fault=list(allow), results=str(file.parent / "results"), **more
        )
    )


@pytest.fixture
def console(tmp_path):
    with (tmp_path / "said").open("w") as out:
        yield Console(out)


@pytest.fixture
def run(file, console, kubectl, monkeypatch):
    monkeypatch.setattr(signals, "_state", signals._State())
    with Run(settings(file), console) as opened:
        yield opened


def test_neither_the_file_nor_any_other_cluster_is_touched(file, servers, console, kubectl, monkeypatch):
    monkeypatch.setattr(signals, "_state", signals._State())
    mine, other = servers
    before, at = file.read_bytes(), file.stat().st_mtime_ns
    with Run(settings(file), console) as run:
        lab = run.begin("it", Declaration((("FT-2", "gcs-ft"),), Level.SMOKE, 1))
        namespace = lab.namespace("arm")
        mine.namespace(namespace, **{"kuberay-chaos/owned": "true"})
        run.end(lab)
    assert mine.connections > 0
    assert other.connections == 0
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, at)
    assert sorted(path.name for path in (file.parent / "home" / ".kube").iterdir()) == ["ca.pem", "config"]
    private = file.parent / "state" / "stacks" / run.settings.name / "kubeconfig"
    assert private.stat().st_mode & 0o777 == 0o600
    assert "token-other" not in private.read_text()
    for call in kubectl.read_text().splitlines():
        assert f"--kubeconfig={private} " in call
    writes = [(method, path) for method, path in mine.requests if method != "GET"]
    assert all(path.startswith(f"/api/v1/namespaces/{namespace}") for _, path in writes), writes
    assert ("DELETE", f"/api/v1/namespaces/{namespace}") in writes, "what we made is removed again"


def test_the_run_says_what_it_ran_on(file, console, kubectl, servers, monkeypatch):
    monkeypatch.setattr(signals, "_state", signals._State())
    with Run(settings(file, ray="2.50.0"), console) as run:
        pass
    told = json.loads((run.folder / "run.json").read_text())
    assert told["given"] == servers[0].url
    assert told["versions"] == {"kuberay": "1.5.1", "ray": "2.50.0", "kubernetes": "1.33.1"}
    assert "make down" not in (file.parent / "said").read_text()


def test_another_ray_is_judged_as_itself_for_a_while(run):
    own = run.versions
    with run.ray("2.46.0"):
        assert run.versions == {**own, "ray": "2.46.0"}
    assert run.versions == own


@pytest.mark.parametrize(
    "image", ["registry.example.org/operator@sha256:1234", "registry.example.org:5000/operator:nightly"]
)
def test_an_operator_whose_image_does_not_tell_its_version_is_judged_as_asked_for(
    file, console, servers, image, kubectl
):
    servers[0].lists["/apis/apps/v1/deployments"] = [operator(image)]
    with Run(settings(file, kuberay="1.4.2"), console) as run:
        assert run.versions["kuberay"] == "1.4.2"
    assert f"{image} does not tell KubeRay's version; judged as 1.4.2" in (file.parent / "said").read_text()


def test_a_cluster_without_kuberay_is_no_stack(file, console, servers):
    del servers[0].objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayclusters.ray.io"]
    with pytest.raises(StackError, match="KubeRay is not installed"), Run(settings(file), console):
        pass


def test_what_such_a_cluster_has_not_got_is_unknown_with_the_reason(run, servers):
    lab = run.begin("it", Declaration((("FT-2", "gcs-ft"),), Level.SMOKE, 1))
    for ask in (lambda: lab.ray_cluster("gcs-ft", ft=True), lambda: lab.rayjob("arm")):
        with pytest.raises(FeatureMissing, match="of ours"):
            ask()
    with pytest.raises(StackError, match="not a cluster of ours"):
        run.stack.cluster.node_exec("node", ["true"])
    lab.phase("error", error="FeatureMissing: it needs what only a stack of ours has")
    (verdict,) = run.end(lab)
    assert verdict.verdict is Outcome.UNKNOWN
    assert "only a stack of ours has" in verdict.reason
    assert not any(method != "GET" for method, _ in servers[0].requests)


BEYOND = [
    RefuseWrite("kuberay-operator", "system:serviceaccount:x:y", "ray.io", "rayjobs/status"),
    DeletePod("kuberay-system", "operator", "uid"),
    DeletePod("chaos-of-somebody-else", "pod", "uid"),
    DeletePod("default", "pod", "uid"),
    KillProcess("kuberay-system", "operator", "uid", "node", "manager"),
]


@pytest.mark.parametrize("fault", BEYOND, ids=lambda fault: f"{fault.name} {fault.target.get('namespace', '')}")
def test_a_fault_beyond_our_namespaces_is_refused(run, servers, fault):
    servers[0].namespace("chaos-of-somebody-else")
    servers[0].namespace("default", **{"kuberay-chaos/owned": "true"})
    with pytest.raises(NotAllowed, match=f"{fault.name} was not injected") as refused, run.lab.inject(fault):
        pytest.fail("it was injected")
    assert f"--allow-fault {fault.name}" in refused.value.fix
    assert not any(method != "GET" for method, _ in servers[0].requests)
    assert run.stack.undo_log.pending() == []


@dataclass(frozen=True)
class Touch(Fault):
    """Does nothing, there."""

    namespace: str
    name = "touch"

    @property
    def target(self):
        return {"namespace": self.namespace}

    def apply(self, reach):
        pass

    def prove(self, reach, since):
        return {"seen": True}


def test_a_fault_in_a_namespace_of_ours_goes_on(run, servers):
    servers[0].namespace("chaos-it", **{"kuberay-chaos/owned": "true"})
    with run.lab.inject(Touch("chaos-it")) as injected:
        assert injected.id == "touch-1"


def test_a_fault_that_is_allowed_by_name_goes_on(file, console, kubectl):
    with (
        Run(settings(file, allow=["delete-job,refuse-write"]), console) as run,
        pytest.raises(NoEffect, match="there is no ClusterRole"),
        run.lab.inject(BEYOND[0]),
    ):
        pass


def test_a_fault_that_there_is_not_can_not_be_allowed(file, console, servers):
    with (
        pytest.raises(UsageError, match="no fault named 'refuse-wriet'") as wrong,
        Run(settings(file, allow=["refuse-wriet"]), console),
    ):
        pass
    assert "did you mean refuse-write?" in wrong.value.fix
    assert servers[0].connections == 0


def test_what_a_dead_run_left_is_undone_first(file, console, kubectl, servers):
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kuberay-operator"
    asked = settings(file)
    folder = file.parent / "state" / "stacks" / asked.name
    folder.mkdir(parents=True)
    undo = {"kind": "cluster-role-rules", "what": {"name": "kuberay-operator", "rules": []}}
    (folder / "undo.jsonl").write_text(json.dumps({"injection": "refuse-write-1", "index": 0, **undo}) + "\n")
    with Run(asked, console) as run:
        assert ("GET", role) in servers[0].requests
        assert run.stack.undo_log.pending() == []
    assert "healed what a run left behind: refuse-write-1" in (file.parent / "said").read_text()


def test_what_a_dead_run_left_is_undone_by_name_without_docker_and_without_the_users_file(
    file, console, kubectl, servers, monkeypatch, capfd
):
    monkeypatch.setattr(stack.docker_engine, "reachable", lambda: pytest.fail("Docker was asked"))
    with Run(settings(file), console) as run:
        log, name = run.stack.undo_log, run.settings.name
    log.append("refuse-write-1", [Undo("cluster-role-rules", {"name": "kuberay-operator", "rules": []})])
    file.unlink()
    assert cli.main(["heal", "--name", name]) == 0
    assert "refuse-write-1: cluster-role-rules undone" in capfd.readouterr().out
    assert log.pending() == []
    assert servers[1].connections == 0


def test_two_runs_on_one_cluster_exclude_each_other_whatever_the_file(file, tmp_path, servers, console):
    again = kubeconfig(tmp_path / "again", {"theirs": servers[0].url}, current="theirs")
    first, second = settings(file), settings(again, context="theirs")
    assert first.name == second.name
    with hold(lock_path(first.name), who="the first"), pytest.raises(BusyError, match="in use by the first"):
        Run(second, console).__enter__()


@pytest.mark.parametrize(
    ("kubeconfig_", "context", "said"),
    [
        ("mine", None, "--kubeconfig and --context go together"),
        (None, "mine", "--kubeconfig and --context go together"),
        ("missing", "mine", "there is no file"),
        (".", "mine", "is not a file"),
        ("mine", "nowhere", "has no context 'nowhere'"),
        ("text", "mine", "is not a kubeconfig"),
        ("binary", "mine", "is not a kubeconfig"),
        ("tagged", "mine", "is not a kubeconfig"),
        ("dangling", "mine", "names the cluster 'gone', which is not in it"),
    ],
)
def test_a_file_or_context_that_is_wrong_is_one_clear_message(file, tmp_path, monkeypatch, kubeconfig_, context, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("just text")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "tagged").write_text("!!python/object/apply:os.getcwd []")
    dangling = {"contexts": [{"name": "mine", "context": {"cluster": "gone"}}], "clusters": []}
    (tmp_path / "dangling").write_text(yaml.safe_dump(dangling))
    with pytest.raises(UsageError) as wrong:
        Settings.from_args(argparse.Namespace(kubeconfig=kubeconfig_, context=context))
    assert said in wrong.value.args[0]
    assert "\n" not in wrong.value.args[0]
    assert wrong.value.fix


@pytest.mark.parametrize(
    "option", [{"name": "x"}, {"recreate": True}, {"remove": True}, {"kubernetes": "1.34.1"}, {"images": "build"}]
)
def test_options_that_are_about_a_stack_of_ours_are_refused(file, option):
    with pytest.raises(UsageError, match="does not go with --kubeconfig"):
        settings(file, **option)


def test_allowing_a_fault_needs_a_cluster_of_the_users():
    with pytest.raises(UsageError, match="--allow-fault goes with --kubeconfig"):
        Settings.from_args(argparse.Namespace(allow_fault=["refuse-write"]))


def test_the_private_copy_has_the_one_context_and_absolute_paths(tmp_path):
    path = tmp_path / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "contexts": [
                    {"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "n"}},
                    {"name": "b", "context": {"cluster": "d", "user": "v"}},
                ],
                "clusters": [
                    {"name": "c", "cluster": {"server": "https://c", "certificate-authority": "pki/ca.pem"}},
                    {"name": "d", "cluster": {"server": "https://d"}},
                ],
                "users": [
                    {
                        "name": "u",
                        "user": {
                            "client-certificate": "/abs/cert.pem", "client-key": "key.pem",
                            "exec": {"command": "./bin/login", "args": ["x"]},
                        },
                    },
                    {"name": "v", "user": {"token": "secret", "exec": {"command": "login"}}},
                ],
            }
        )
    )  # fmt: skip
    given = Settings.from_args(argparse.Namespace(kubeconfig=str(path), context="a")).given
    copy = private_copy(given)
    assert copy["current-context"] == "a"
    assert copy["contexts"] == [{"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "n"}}]
    assert copy["clusters"] == [
        {"name": "c", "cluster": {"server": "https://c", "certificate-authority": f"{tmp_path}/pki/ca.pem"}}
    ]
    assert copy["users"] == [
        {
            "name": "u",
            "user": {
                "client-certificate": "/abs/cert.pem", "client-key": f"{tmp_path}/key.pem",
                "exec": {"command": f"{tmp_path}/bin/login", "args": ["x"]},
            },
        }
    ]  # fmt: skip


def test_of_several_processes_only_the_first_heals_since_by_then_others_have_faults_in_force(
    file, console, kubectl, servers
):
    asked = settings(file)
    with Run(asked, console, Member("all", "gw0", 1)) as first:
        first.stack.undo_log.append("in-force", [Undo("cluster-role-rules", {"name": "kuberay-operator", "rules": []})])
        with Run(asked, console, Member("all", "gw1", 1)) as second:
            assert {first.folder.name, second.folder.name} == {"all-gw0", "all-gw1"}
            assert [injection for injection, _, _ in second.stack.undo_log.pending()] == ["in-force"]
    with Run(asked, console) as later:
        assert later.stack.undo_log.pending() == []
