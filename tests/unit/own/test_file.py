"""One object is taken from a file as people have them; whatever is wrong with it is one error, and nothing is guessed."""

import pytest

from chaos import workloads
from chaos.errors import UsageError
from chaos.own.file import _TAKEN, Kind, read
from chaos.stack import redis

POD = "{template: {spec: {containers: [{name: ray, image: 'x/ray:2.60.0'}]}}}"
CLUSTER = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {{name: {name}}}\nspec: {{headGroupSpec: " + POD.replace(
    "{", "{{"
).replace("}", "}}") + "}}\n"  # fmt: skip
ONE = CLUSTER.format(name="one")
JOB = (
    f"apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {{name: j}}\nspec: {{rayClusterSpec: {{headGroupSpec: {POD}}}}}\n"
)


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "mine.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    "text",
    [
        ONE,
        f"---\n---\n{ONE}---\n# nothing\n",
        f"values: 3\n---\n{ONE}",
        f"{JOB}---\n{ONE}",
        ONE.replace("ray.io/v1", "ray.io/v1alpha1"),
        "apiVersion: v1\nkind: List\nitems:\n- " + ONE.replace("\n", "\n  "),
        '{"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "one"}, "spec": {"headGroupSpec": '
        '{"template": {"spec": {"containers": [{"name": "ray"}]}}}}}',
    ],
)
def test_the_one_object_of_its_kind_is_found(file, text):
    found = read(file(text), Kind.RAYCLUSTER)
    assert found.name == "one"
    assert found.document["kind"] == "RayCluster"


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("", Kind.RAYCLUSTER, "there is no RayCluster in"),
        ("hello", Kind.RAYCLUSTER, "there is no RayCluster in"),
        (JOB, Kind.RAYCLUSTER, "only RayJob"),
        (ONE, Kind.RAYJOB, "only RayCluster"),
        (f"{ONE}---\n{CLUSTER.format(name='two')}", Kind.RAYCLUSTER, "one in line 1, two in line 6"),
        (ONE.replace("ray.io/v1", "ray.io/v2"), Kind.RAYCLUSTER, "'ray.io/v2', which is not known"),
        (ONE.replace("ray.io/v1", "example.com/v1"), Kind.RAYCLUSTER, "make it ray.io/v1"),
        ("a: [", Kind.RAYCLUSTER, "no valid YAML"),
        (b"\xff\xfe\x00", Kind.RAYCLUSTER, "no valid YAML|not text"),
        ("a: !!python/object/apply:os.getcwd []\n", Kind.RAYCLUSTER, "no valid YAML"),
        ("kind: RayCluster\napiVersion: ray.io/v1\n", Kind.RAYCLUSTER, "has no spec.headGroupSpec.template.spec.containers"),
        (ONE.replace(POD, "7"), Kind.RAYCLUSTER, "describe a head"),
        (JOB.replace("spec: {", "spec: {clusterSelector: {a: b}, "), Kind.RAYJOB, "clusterSelector"),
        (f"{ONE}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: redis-auth}}\n", Kind.RAYCLUSTER, "another name"),
        (ONE + "x: &x [*x]\n", Kind.RAYCLUSTER, "contains itself"),
        (ONE + "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9) if n else 1}]\n" for n in range(9)), Kind.RAYCLUSTER,
         "more values than the API server takes"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_error(file, text, kind, said):
    with pytest.raises(UsageError, match=said) as raised:
        read(file(text), kind)
    assert raised.value.fix
    assert raised.value.exit_code == 3


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="can't be read"):
        read(tmp_path / "nowhere.yaml", Kind.RAYJOB)


def test_one_with_a_generated_name_gets_one(file):
    assert read(file(ONE.replace("name: one", "generateName: one-")), Kind.RAYCLUSTER).name == "ray"


def test_what_yaml_repeats_by_name_is_written_out_and_dates_and_keys_are_text(file):
    text = ONE.replace("spec: {", "spec: {a: &a {2: 2026-01-01, true: x}, b: *a, ", 1)
    spec = read(file(text), Kind.RAYCLUSTER).document["spec"]
    assert spec["a"] == spec["b"] == {"2": "2026-01-01", "true": "x"}
    assert spec["a"] is not spec["b"]


def test_the_names_that_are_needed_for_ours_are_those_in_use():
    assert {("ConfigMap", workloads.CONFIG_MAP), ("Secret", redis.SECRET)} == _TAKEN
