"""The command: formats, exit codes, and what makes CI show it."""

import io
import json
import types
from pathlib import Path

import pytest

from chaos import cli

FILE = Path(__file__).parent / "healthy.yaml"


@pytest.fixture
def told(capfd):
    def call(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return call


@pytest.fixture
def measured(tmp_path):
    verdict = {"claim": "FT-2", "role": "claim", "recovery_seconds": {"ready": 20.5, "functional": 23.0}}
    (tmp_path / "verdicts.json").write_text(json.dumps([verdict]))
    return tmp_path


def test_exit_codes(told, measured, tmp_path):
    complete = ["audit", FILE, "--state-outside", "yes", "--measured", measured]
    assert told(*complete)[0] == 0
    assert told("audit", FILE)[0] == 2
    bad = tmp_path / "bad.yaml"
    bad.write_text(FILE.read_text().replace("replicas: 3", "replicas: 1"))
    code, out, _ = told("audit", bad)
    assert code == 1
    assert "BROKEN   redis-availability: Redis is a single server" in out
    assert f"at {bad}:" in out
    assert "fix: run a primary" in out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "one of them"),
        ([FILE, "--context", "c"], "one of them"),
        ([FILE, "--redis"], "--redis"),
        ([FILE, "--measured", "nowhere"], "nowhere"),
        ([FILE, "--kuberay", "new"], "'new'"),
        (["/nowhere.yaml"], "/nowhere.yaml"),
        (["--context", "c", "--kubeconfig", "/nowhere"], "/nowhere"),
    ],
)
def test_usage(told, arguments, named):
    code, out, err = told("audit", *arguments)
    assert (code, out) == (3, "")
    assert named in err


def test_nothing_to_judge_is_said(told, tmp_path):
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
    code, _, err = told("audit", tmp_path)
    assert code == 3
    assert "no RayCluster" in err


def test_standard_input(told, monkeypatch):
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(FILE.read_bytes())))
    code, out, _ = told("audit", "-")
    assert code == 2
    assert "<stdin>:" in out


def test_a_missing_operator_can_be_said(told, tmp_path):
    ray = FILE.read_text().partition("---\n# Source: platform/templates/namespaces.yaml")[2]
    (tmp_path / "a.yaml").write_text(ray)
    of = {f["item"]: f["verdict"] for f in json.loads(told("audit", tmp_path, "--format", "json")[1])}
    assert of["ft-requirements"] == "unknown"
    of = {f["item"]: f for f in json.loads(told("audit", tmp_path, "--format", "json", "--kuberay", "1.2.2")[1])}
    assert of["ft-requirements"]["verdict"] == "broken"
    assert "pruned in silence" in of["ft-requirements"]["reason"]


def test_json_is_a_list_of_objects(told):
    found = json.loads(told("audit", FILE, "--format", "json")[1])
    assert {tuple(sorted(f)) for f in found} == {("evidence", "fix", "item", "reason", "subject", "title", "verdict")}
    assert {f["verdict"] for f in found} <= {"holds", "broken", "unknown"}
    assert all({"source", "line", "object", "field", "shows"} == set(e) for f in found for e in f["evidence"])


def test_sarif_has_what_the_standard_requires(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b.yaml").write_text(FILE.read_text().replace("replicas: 3", "replicas: 1"))
    log = json.loads(told("audit", "a b.yaml", "--format", "sarif")[1])
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    [run] = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "kuberay-chaos"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
    assert run["results"]
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"]
        assert (result["kind"], result["level"]) in {("pass", "none"), ("open", "none"), ("fail", "error")}
        for location in [*result.get("locations", []), *result.get("relatedLocations", [])]:
            assert location["logicalLocations"][0]["fullyQualifiedName"]
            if "physicalLocation" in location:
                assert location["physicalLocation"]["artifactLocation"]["uri"] == "a%20b.yaml"
                assert location["physicalLocation"]["region"]["startLine"] >= 1
    failed = [r for r in run["results"] if r["kind"] == "fail"]
    assert [r["ruleId"] for r in failed] == ["redis-availability"]
    assert failed[0]["locations"][0]["physicalLocation"]
