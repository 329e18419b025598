from __future__ import annotations

import pytest

from chaos.checks import environment_is

T = "RAY_timeout"


def made(story, name, node_type, env, t=6.0):
    labels = {"ray.io/cluster": "c1", "ray.io/node-type": node_type}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels}
    spec = {"containers": [{"name": "ray", "env": env}, {"name": "beside", "env": [{"name": T, "value": "1"}]}]}
    story.object("pods", t, {"metadata": metadata, "spec": spec, "status": {}}, "ADDED")


@pytest.fixture
def cluster(story):
    story.phase("begin", 5, claims=[["FT-8", "gcs-ft"]])
    made(story, "w1", "worker", [{"name": T, "value": "600"}, {"name": "other", "value": "2"}])
    made(story, "h1", "head", [{"name": "other", "value": "2"}])
    story.end(20)
    return story


def judged(story, node_type, value):
    check = environment_is(namespace="ns", cluster="c1", node_type=node_type, variable=T, value=value)
    return check.judge(story.view())


def test_what_each_kind_of_pod_was_given(cluster):
    assert judged(cluster, "worker", "600").outcome == "holds"
    finding = judged(cluster, "head", None)
    assert (finding.outcome, finding.reason) == ("holds", f"{T} is not set in 1 head")


@pytest.mark.parametrize(("node_type", "value"), [("worker", "77"), ("worker", None), ("head", "600")])
def test_another_value_breaks_it(cluster, node_type, value):
    assert judged(cluster, node_type, value).outcome == "broken"


def test_one_pod_with_another_value_breaks_it(cluster):
    made(cluster, "w2", "worker", [{"name": T, "valueFrom": {"fieldRef": {}}}])
    finding = judged(cluster, "worker", "600")
    assert finding.outcome == "broken"
    assert "w2 has a reference" in finding.reason


def test_of_two_entries_the_last_wins(cluster):
    made(cluster, "w2", "worker", [{"name": T, "value": "600"}, {"name": T, "value": "77"}])
    assert judged(cluster, "worker", "600").outcome == "broken"


def test_without_pods_there_is_nothing_to_read(cluster):
    cluster.drop(lambda e: e.get("name") == "h1")
    assert judged(cluster, "head", None).outcome == "unknown"
