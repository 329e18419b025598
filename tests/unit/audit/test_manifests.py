"""Manifests as people have them, and the lines that are told of them."""

import json

import pytest

from chaos.errors import UsageError
from chaos.estate.manifests import parse, read

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"


def test_documents_comments_and_empty_ones():
    found = parse(f"# Source: x.yaml\n---\n\n---\n{POD}---\nreplicas: 3\n---\n{POD}".encode(), "f")
    assert [str(r) for r in found] == ["Pod a", "Pod a"]
    assert found[0].place("kind").line == 6


def test_lists_of_any_kind():
    items = "items:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: b\n"
    [one] = parse(f"apiVersion: v1\nkind: List\n{items}".encode(), "f")
    assert one.place("metadata", "name").line == 7
    [typed] = parse(b"apiVersion: ray.io/v1\nkind: RayClusterList\nitems:\n- metadata: {name: c}\n", "f")
    assert (typed.kind, typed.obj["apiVersion"]) == ("RayCluster", "ray.io/v1")


def test_json_with_tabs():
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    [pod] = parse(json.dumps(obj, indent="\t").encode(), "f.json")
    assert pod.place("metadata", "name").line == 5


def test_anchors_and_merges_lead_to_where_it_is_written():
    text = "apiVersion: v1\nkind: Pod\nx: &x\n  a: 1\n  b: 2\ny:\n  <<: *x\n  b: 3\n"
    [pod] = parse(text.encode(), "f")
    assert pod.get("y") == {"a": 1, "b": 3}
    assert (pod.place("y", "a").line, pod.place("y", "b").line) == (4, 8)


@pytest.mark.parametrize(
    ("data", "line", "fix"),
    [
        (b"kind: Pod\nmetadata: [a\n", 3, "correct"),
        (b"kind: Pod\na: b: c\n", 2, "correct"),
        (b"kind: {{ .Values.kind }}\n{{- if .Values.x }}\n", 2, "helm template"),
        (b"kind: Pod\nname: \xff\xfe\n", 2, "UTF-8"),
        (b"kind: Pod\nx: !!python/object/apply:os.system [id]\n", 2, "correct"),
    ],
)
def test_what_is_no_yaml_names_file_and_line(data, line, fix):
    with pytest.raises(UsageError) as raised:
        parse(data, "f.yaml")
    assert str(raised.value.args[0]).startswith(f"f.yaml:{line}: ")
    assert fix in raised.value.fix


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param(b"[" * 100000, "f", id="too deep"),
        pytest.param(b"a: &a\n  b: *a\n", "f:1: contains itself", id="in itself"),
        pytest.param(b"a: 1\nb: {c: 1,\n c: 2}\n", "f:3: c a second time", id="a key twice"),
        pytest.param("ä: ö\nb: \x07\n".encode(), "f:2: not text that YAML may have", id="a character"),
        pytest.param("a: 1\nb: ä\n".encode("latin-1"), "f:2: not text that YAML may have", id="no UTF-8"),
    ],
)
def test_what_no_server_would_take_is_refused(text, named):
    with pytest.raises(UsageError, match=named):
        parse(text, "f")


def test_a_bomb_of_aliases_is_refused_without_being_unfolded():
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    with pytest.raises(UsageError, match="more values than the API server takes"):
        parse(f"apiVersion: v1\nkind: Pod\n{bomb}".encode(), "f")


def test_what_is_repeated_by_name_is_read():
    [found] = parse(b"apiVersion: v1\nkind: Pod\na: &a {x: 1}\nb: *a\nc:\n  <<: *a\n  y: 2\n", "f")
    assert (found.obj["b"], found.obj["c"]) == ({"x": 1}, {"x": 1, "y": 2})


def test_folders(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "deep/a.yml").write_text(POD)
    (tmp_path / "b.json").write_text(json.dumps({"name": "package"}))
    (tmp_path / ".git/c.yaml").write_text("}{")
    (tmp_path / "notes.txt").write_text("}{")
    assert [str(r) for r in read([str(tmp_path)])] == ["Pod a"]


@pytest.mark.parametrize(
    ("file", "command"), [("kustomization.yaml", "kubectl kustomize"), ("Chart.yaml", "helm template")]
)
def test_folders_that_are_to_be_rendered_are_refused(tmp_path, file, command):
    (tmp_path / file).write_text("resources: []")
    with pytest.raises(UsageError) as raised:
        read([str(tmp_path)])
    assert f"{command} {tmp_path} | kuberay-chaos audit -" in raised.value.fix


def test_a_path_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="can't be read"):
        read([str(tmp_path / "no.yaml")])
