"""What pods refer to goes with them, bare of what belongs to the cluster it came from; everything else is named."""

import pytest

from chaos.estate.resource import Resource
from chaos.own.beside import Reference, lacking, references, sort_out

POD = {
    "containers": [
        {
            "command": ["serve", "--cache=cache.models:6379"],
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "token", "key": "k", "optional": True}}}],
            "envFrom": [{"configMapRef": {"name": "settings"}}],
        }
    ],
    "volumes": [{"name": "v", "secret": {"secretName": "files"}}, {"name": "c", "configMap": {"name": "code"}}],
}


def resource(kind, name, **more):
    return Resource({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}, "mine.yaml")


def test_references_are_found_wherever_they_stand():
    assert set(references(POD)) == {
        Reference("Secret", "token", optional=True), Reference("ConfigMap", "settings"),
        Reference("Secret", "files"), Reference("ConfigMap", "code"),
    }  # fmt: skip


def test_an_optional_one_is_not_lacking():
    assert lacking(POD, {("ConfigMap", "settings"), ("ConfigMap", "code")}) == [Reference("Secret", "files")]


def test_what_is_referred_to_goes_along_and_the_rest_is_left_out_by_name():
    others = [
        resource("Secret", "token"), resource("ConfigMap", "settings"), resource("ConfigMap", "unused"),
        resource("Service", "cache"), resource("Service", "cache2"), resource("Deployment", "cache"),
        resource("NetworkPolicy", "deny"), resource("RayService", "token"), resource("Service", ""),
    ]  # fmt: skip
    taken, left = sort_out(others, [POD])
    assert [(each["kind"], each["metadata"]["name"]) for each in taken] == [
        ("Secret", "token"), ("ConfigMap", "settings"), ("Service", "cache"),
    ]  # fmt: skip
    assert left == [
        "ConfigMap unused", "Service cache2", "Deployment cache", "NetworkPolicy deny", "RayService token", "Service ",
    ]  # fmt: skip


def test_what_belongs_to_the_other_cluster_stays_behind():
    service = resource(
        "Service", "cache", status={"loadBalancer": {}},
        spec={"type": "LoadBalancer", "clusterIP": "10.96.0.9", "selector": {"a": "b"}, "externalIPs": ["192.0.2.1"],
              "ports": [{"port": 6379, "nodePort": 30000}]},
    )  # fmt: skip
    service.obj["metadata"] |= {"namespace": "models", "uid": "u", "labels": {"c": "d"}, "annotations": {"e": "f"}}
    [[bare], _] = sort_out([service], [POD])
    assert bare == {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "cache", "labels": {"c": "d"}},
        "spec": {"selector": {"a": "b"}, "ports": [{"port": 6379}]},
    }  # fmt: skip


def test_a_headless_service_stays_headless():
    [[bare], _] = sort_out([resource("Service", "cache", spec={"clusterIP": "None"})], [POD])
    assert bare["spec"] == {"clusterIP": "None"}


@pytest.mark.parametrize("odd", [None, 7, [], {"env": 7}, {"env": [7]}, {"command": "x", "args": 3}, [[{"secret": 7}]]])
def test_odd_shapes_refer_to_nothing(odd):
    assert list(references(odd)) == []
    assert sort_out([resource("Service", "cache", spec=7)], [odd]) == ([], ["Service cache"])
