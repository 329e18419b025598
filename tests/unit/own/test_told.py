"""What is told of a user's workload names every change and none of its secrets."""

import base64
import json

from chaos.own import told


def test_every_change_is_told_with_from_to_and_why(own, fitted):
    of = told.told(own("RayCluster"), fitted("RayCluster"))
    assert (of["kind"], of["name"]) == ("RayCluster", "models")
    assert len(of["changes"]) == len(fitted("RayCluster").changes)
    assert {"path": "spec.workerGroupSpecs[gpu].rayStartParams.num-gpus", "from": "1", "to": "",
            "why": "the nodes have no devices"} in of["changes"]  # fmt: skip
    assert of["beside"] == ["ConfigMap model-settings", "Secret model-store", "Service model-cache"]
    assert of["left_out"] == ["Deployment cache"]


def test_the_terminal_has_a_line_for_each_below_its_reason(own, fitted):
    of = told.told(own("RayCluster"), fitted("RayCluster"))
    lines = told.lines(of)
    assert lines[0].endswith(f"with {len(of['changes'])} changes:")
    assert "    spec.workerGroupSpecs[gpu].rayStartParams.num-gpus: 1 -> (removed)" in lines
    assert sum(" -> " in line for line in lines) == len(of["changes"])
    assert lines.count("  what the machine carries:") == 1
    assert lines[-1] == "  left out: Deployment cache"


def test_secrets_are_told_nowhere(own, fitted):
    mine = own("RayCluster")
    text = json.dumps(told.told(mine, fitted("RayCluster")))
    assert "in-clear-text" not in text
    assert "not-for-reports" not in text
    encoded = base64.b64encode(b"not-for-reports").decode()
    assert told.confidential(mine) == sorted(["in-clear-text", "not-for-reports", encoded])


def test_a_secret_in_binary_and_short_ones_and_names_are_not_looked_for(own):
    mine = own("RayCluster")
    [secret] = [each for each in mine.others if each.kind == "Secret"]
    del secret.obj["stringData"]
    secret.obj["data"] = {"a": "/////w==", "b": base64.b64encode(b"longer value").decode(), "c": "!", "d": "eA=="}
    mine.document["spec"]["headGroupSpec"]["rayStartParams"]["redis-password"] = "$REDIS_PASSWORD"
    assert told.confidential(mine) == ["/////w==", "bG9uZ2VyIHZhbHVl", "longer value"]
