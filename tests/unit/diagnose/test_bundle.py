"""Bundles: what goes in comes out, secrets don't, bytes stay bytes, and what vanished is a note."""

import copy
import io
import json
import tarfile
from pathlib import Path

import pytest
import urllib3

from chaos import cli
from chaos.errors import UsageError
from chaos.snapshot import bundle, take
from chaos.snapshot.secrets import found, redacted
from chaos.snapshot.snapshot import LogOf, Snapshot
from chaos.stack.cluster import Cluster

from .conftest import World  # type: ignore[import-not-found]


@pytest.fixture
def world():
    return World()


def test_what_goes_in_comes_out(world, tmp_path):
    world.log(world.head, "hello")
    of = LogOf("serving", "models-worker-0", "ray", previous=True)
    world.logs[of] = b"\xff\xfe not text \x00"
    taken = world.snapshot()
    bundle.write(taken, tmp_path / "b.tar.gz")
    back = bundle.read(tmp_path / "b.tar.gz")
    assert back.objects == taken.objects
    assert back.logs == taken.logs
    assert back.ray == taken.ray
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    assert bundle.read(tmp_path / "bundle").logs[of] == b"\xff\xfe not text \x00"
    assert bundle.read(tmp_path).objects == taken.objects


def test_secrets_are_taken_out_wherever_they_are(world, tmp_path):
    options = world.cluster["spec"]["gcsFaultToleranceOptions"]
    options["redisPassword"] = {"value": "hunter2-secret"}
    applied = json.dumps({"spec": {"env": [{"name": "API_TOKEN", "value": "tok-abcdef"}]}})
    world.cluster["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = applied
    world.head["spec"]["containers"][0]["env"] += [
        {"name": "DB_PASSWORD", "value": "pw"},
        {"name": "USE_TOKEN_AUTH", "value": "true"},
        {"name": "URL", "value": "redis://user:in-the-url@redis:6379"},
    ]
    world.objects["configmaps"] = [
        {"metadata": {"name": "c"}, "data": {"redis.conf": 'requirepass "of-the-config"\nsave 60 1'}}
    ]
    world.log(
        world.head,
        "auth hunter2-secret tok-abcdef",
        "Authorization: Bearer abcdefghijklmnopqrstuv",
        "redis://:of-a-log@x",
    )
    bundle.write(world.snapshot(), tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        everything = b"".join(archive.extractfile(m).read() for m in archive.getmembers())
    secrets = (
        b"hunter2-secret",
        b"tok-abcdef",
        b"in-the-url",
        b"of-the-config",
        b"abcdefghijklmnopqrstuv",
        b"of-a-log",
    )
    for secret in (*secrets, b'"pw"'):
        assert secret not in everything
    assert b"redis-auth" in everything
    assert b"save 60 1" in everything
    assert redacted(world.snapshot()).objects["pods"][0]["status"] == world.head["status"]


@pytest.mark.parametrize(
    "text",
    [
        "requirepass swordfish",
        'requirepass "swordfish"',
        "masterauth swordfish",
        "sentinel auth-pass ray swordfish",
        "ray start --redis-password=swordfish --block",
        "ray start --redis-password swordfish --block",
        "redis-cli AUTH swordfish",
        "password: swordfish",
        "password='swordfish'",
        '{"password": "swordfish"}',
        "export REDIS_PASSWORD=swordfish",
    ],
)
def test_a_secret_in_a_text_is_found(text):
    assert set(found({"data": text})) == {"swordfish"}


@pytest.mark.parametrize(
    "text",
    [
        "authOptions",
        "authentication:\n  anonymous: false",
        "--authorization-mode=Node",
        "certificate-authority-data: abcdef",
        "if not password:\n    return",
        'password = (os.environ.get("X") or "")',
        "password = get_password()",
        "sentinel auth-pass ray $PASSWORD",
    ],
)
def test_what_only_looks_like_one_is_left(text):
    assert list(found({"data": text})) == []


def test_a_password_that_is_a_part_of_a_fields_name_takes_nothing_from_it(world):
    """Nor does the name of KubeRay's field ``authOptions``, which a bundle lists, make ``Options`` a secret."""
    world.cluster["spec"]["authOptions"] = {"mode": "token"}
    world.cluster["spec"]["gcsFaultToleranceOptions"]["redisPassword"] = {"value": "Tolerance"}
    [cluster] = redacted(world.snapshot()).objects["rayclusters"]
    assert cluster["spec"]["gcsFaultToleranceOptions"]["redisPassword"] == {"value": "[redacted]"}


def test_what_is_no_bundle_is_said(tmp_path):
    (tmp_path / "x.tar.gz").write_bytes(b"no archive")
    with pytest.raises(UsageError, match="no bundle"):
        bundle.read(tmp_path / "x.tar.gz")
    with tarfile.open(tmp_path / "y.tar", "w"):
        pass
    with pytest.raises(UsageError, match="no bundle"):
        bundle.read(tmp_path / "y.tar")
    with pytest.raises(UsageError, match="can't be written"):
        bundle.write(World().snapshot(), Path("/proc/nowhere.tar.gz"))


def test_an_archive_can_name_no_place_to_write_to(world, tmp_path):
    bundle.write(world.snapshot(), tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as old, tarfile.open(tmp_path / "evil.tar", "w") as new:
        for member in old.getmembers():
            new.addfile(member, old.extractfile(member))
        new.addfile(tarfile.TarInfo("../../outside"))
        link = tarfile.TarInfo("bundle/objects/link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        new.addfile(link)
    assert "link" not in bundle.read(tmp_path / "evil.tar").objects


class Answers:
    """A transport that answers by pod."""

    def __init__(self, by_pod):
        self.by_pod = by_pod
        self.queries = []

    def get(self, path, query, *, connect, read):
        self.queries.append((path, query))
        status, body = self.by_pod[path.split("/")[-2]]
        if status is None:
            raise urllib3.exceptions.ReadTimeoutError(None, path, "too slow")
        return urllib3.HTTPResponse(body=io.BytesIO(body), status=status, preload_content=False)

    def close(self):
        pass


def test_logs_are_capped_with_a_note_and_pods_that_vanish_survive(world, monkeypatch):
    from .conftest import restarted

    restarted(world.head)
    transport = Answers(
        {
            "models-head-x": (200, b"x" * 50 + b"the end"),
            "models-worker-0": (404, b"gone"),
            "models-worker-1": (None, b""),
        }
    )
    monkeypatch.setattr(take, "Transport", lambda api: transport)
    monkeypatch.setattr(take, "objects", lambda cluster, namespaces: world.snapshot())
    monkeypatch.setattr(take, "_asked", lambda cluster, raycluster, pods: {"error": "no head is Ready"})
    world.redis = []
    taken = take.whole(type("C", (), {"api": None})(), limit=20)
    assert set(taken.logs) == {LogOf("serving", "models-head-x", "ray", p) for p in (True, False)}
    for log in taken.logs.values():
        assert log.startswith(b"[kuberay-chaos] cut here")
        assert log.endswith(b"the end")
    assert len(taken.notes) == 2
    assert all("no log of serving/models-worker" in note for note in taken.notes)


def test_what_may_not_be_listed_is_missing_and_what_is_not_there_is_none(tmp_path):
    from chaos.stack.cluster import ApiError

    class Some(Cluster):
        def __init__(self):
            self.name, self.context = "c", "ctx"

        def list(self, resource, namespace=None, labels=None):
            if resource == "nodes":
                raise ApiError("no", status=403, reason="Forbidden")
            if resource == "rayservices":
                raise ApiError("no", status=404, reason="NotFound")
            return [{"metadata": {"name": resource, "namespace": "n"}}]

        def get(self, resource, namespace, name):
            return None

    taken = take.objects(Some())
    assert taken.missing == {"nodes": "this account may not list them"}
    assert "rayservices" not in taken.objects
    estate = taken.estate()
    assert not estate.knows("Node")
    assert estate.knows("RayService")
    assert isinstance(taken, Snapshot)


def test_the_pods_of_redis_are_read_whatever_namespaces_are_named(world):
    class Live(Cluster):
        def __init__(self):
            self.name, self.context = "c", "ctx"

        def list(self, resource, namespace=None, labels=None):
            listed = copy.deepcopy(world.snapshot().objects.get(resource, []))
            return [o for o in listed if namespace in (None, o["metadata"].get("namespace"))]

        def get(self, resource, namespace, name):
            return None

    pods = take.objects(Live(), ["serving"]).objects["pods"]
    assert {p["metadata"]["namespace"] for p in pods} == {"serving", "redis"}
    assert len(pods) == 6


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def told(capfd, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBERAY_CHAOS_STATE", str(tmp_path / "state"))

    def call(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return call


def test_a_bundle_is_diagnosed(world, told, tmp_path):
    file = tmp_path / "b.tar.gz"
    bundle.write(world.snapshot(), file)
    code, out, _ = told("diagnose", file)
    assert (code, out.strip()) == (0, "RayCluster serving/models: nothing wrong was found")
    world.cluster["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json.dumps(
        {"spec": {"gcsFaultToleranceOptions": {}}}
    )
    del world.cluster["spec"]["gcsFaultToleranceOptions"]
    bundle.write(world.snapshot(), file)
    code, out, _ = told("diagnose", file, "models", "--format", "json")
    assert code == 1
    [cause] = json.loads(out)
    assert (cause["subject"], cause["cause"]) == ("RayCluster serving/models", "ft-not-applied")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nothing.tar.gz"], "nothing.tar.gz"),
        (["BUNDLE", "other"], "serving/models"),
        (["BUNDLE", "rayjob"], "rayjob"),
        (["BUNDLE", "rayjob", "none"], "there is no RayJob none"),
        (["BUNDLE", "models", "more"], "'models more'"),
        (["models"], "no stack is up"),
    ],
)
def test_usage(world, told, tmp_path, words, named):
    bundle.write(world.snapshot(), tmp_path / "b.tar.gz")
    code, _, err = told("diagnose", *(str(tmp_path / "b.tar.gz") if w == "BUNDLE" else w for w in words))
    assert code == 3
    assert named in err


def rewritten(file, change):
    """The bundle with its members changed; None takes one out."""
    with tarfile.open(file) as archive:
        members = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}
    with tarfile.open(file, "w:gz") as archive:
        for name, data in {**members, **change(members)}.items():
            if data is not None:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize(
    ("part", "data", "named"),
    [
        ("objects/rayclusters.json", b'{"a": 1}', "objects/rayclusters.json is no list"),
        ("objects/rayclusters.json", b"5", "objects/rayclusters.json is no list"),
        ("objects/rayclusters.json", b"[1, null]", "objects/rayclusters.json has another form"),
        ("objects/rayclusters.json", b'[{"spec": 7}]', "spec in objects/rayclusters.json has another form"),
        ("objects/pods.json", b'[{"metadata": 5}]', "metadata in objects/pods.json has another form"),
        ("objects/pods.json", b"[" * 200000, "recursion"),
        ("about.json", b"[1]", "no bundle"),
        ("about.json", b'{"taken": "x", "missing": [1], "notes": []}', "no bundle"),
        ("about.json", b'{"taken": "x", "missing": {}, "notes": [1]}', "about.json has another form"),
        ("objects/pods.json", None, "damaged: "),
    ],
    ids=range(10),
)
def test_a_bundle_of_another_form_is_no_bundle(world, tmp_path, part, data, named):
    file = tmp_path / "b.tar.gz"
    bundle.write(world.snapshot(), file)
    rewritten(file, lambda members: {f"bundle/{part}": data})
    with pytest.raises(UsageError, match=named):
        bundle.read(file)


def test_a_bundle_that_is_large_once_it_is_unpacked_is_none(world, tmp_path, monkeypatch):
    file = tmp_path / "b.tar.gz"
    bundle.write(world.snapshot(), file)
    rewritten(file, lambda members: {f"bundle/logs/n/p/{n}.log": b"0" * 1000 for n in range(3)})
    monkeypatch.setattr(bundle, "_LARGEST", 2500)
    with pytest.raises(UsageError, match="holds more than"):
        bundle.read(file)
