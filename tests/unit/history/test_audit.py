from __future__ import annotations

import json

import pytest

from chaos.errors import StackError
from chaos.history.audit import AuditTail, keep_writes


def event(name="p", **changes):
    return {
        "auditID": f"id-{name}",
        "stage": "ResponseComplete",
        "verb": "create",
        "user": {"username": "system:serviceaccount:kuberay:kuberay-operator"},
        "objectRef": {"resource": "pods", "namespace": "ray", "name": name},
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.250000Z",
        "stageTimestamp": "2026-01-01T00:00:00.500000Z",
        **changes,
    }


def append(path, *events, end="\n"):
    with path.open("a") as file:
        file.write("\n".join(json.dumps(e) for e in events) + end)


def wait_for(writer, name):
    return writer.wait_for(lambda e: e.get("name") == name, deadline=5, what=name)


def names(writer):
    return [e["name"] for e in writer.entries()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.log"


@pytest.fixture
def tail(path, writer):
    tail = AuditTail(path, writer, every=0.01)
    yield tail
    tail.stop()


def test_an_answered_request_becomes_an_entry(path, writer, tail):
    tail.start()  # before there is a file
    append(path, event(objectRef={"resource": "rayjobs", "subresource": "status", "apiGroup": "ray.io", "name": "p"}))
    entry = wait_for(writer, "p")
    assert entry["resource"] == "rayjobs/status"
    assert entry["user"].endswith(":kuberay-operator")
    assert (entry["verb"], entry["code"], entry["id"], entry["namespace"]) == ("create", 201, "id-p", "")
    assert entry["answered"] - entry["requested"] == pytest.approx(0.25)
    assert entry["requested"] == 1767225600.25


def test_two_pods_of_one_account_are_told_apart(path, writer, tail):
    tail.start()
    user = {**event()["user"], "extra": {"authentication.kubernetes.io/pod-name": ["operator-1"]}}
    append(path, event("a", user=user), event("b"))
    assert wait_for(writer, "a")["pod"] == "operator-1"
    assert wait_for(writer, "b")["pod"] == ""


def test_what_was_there_before_is_not_read(path, writer, tail):
    append(path, event("old"))
    tail.start()
    append(path, event("new"))
    wait_for(writer, "new")
    assert names(writer) == ["new"]


def test_a_renamed_log_is_read_to_its_end_and_the_new_one_from_its_beginning(path, writer, tail):
    append(path, event("a"))
    tail.start()
    append(path, event("b"))
    path.rename(path.with_suffix(".1"))
    append(path.with_suffix(".1"), event("c"))
    append(path, event("d"))
    wait_for(writer, "d")
    assert names(writer) == ["b", "c", "d"]


def test_a_log_cut_short_is_read_from_its_beginning(path, writer, tail):
    append(path, event("a"), event("b"))
    tail.start()
    path.write_text("")
    append(path, event("c"))
    wait_for(writer, "c")


def test_a_line_is_read_once_it_is_whole(path, writer, tail):
    tail.start()
    whole = json.dumps(event("whole"))
    with path.open("a") as file:
        file.write(whole[:20])
        file.flush()
        append(path.with_name("other"), event("x"))
        file.write(whole[20:] + "\n")
    wait_for(writer, "whole")
    assert names(writer) == ["whole"]


def test_stop_reads_what_is_there(path, writer):
    tail = AuditTail(path, writer, every=60)
    tail.start()
    append(path, event("last"))
    tail.stop()
    assert names(writer) == ["last"]


def test_a_line_that_cannot_be_read_is_noted_and_passed_over(path, writer, tail):
    tail.start()
    path.write_text("{broken\n")
    append(path, event("next"))
    wait_for(writer, "next")
    assert writer.entries()[0]["what"] == "note"


def test_the_name_a_server_generated_is_taken_from_its_answer(path, writer, tail):
    tail.start()
    append(path, event(objectRef={"resource": "pods"}, responseObject={"metadata": {"name": "worker-x7k2p"}}))
    wait_for(writer, "worker-x7k2p")


OTHER = {"username": "system:node:worker"}


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, True),
        ({"verb": "get"}, False),
        ({"verb": "deletecollection", "objectRef": {"resource": "services"}}, True),
        ({"objectRef": {"resource": "jobs", "apiGroup": "batch"}}, True),
        ({"objectRef": {"resource": "rayclusters", "apiGroup": "ray.io"}, "user": OTHER}, True),
        ({"objectRef": {"resource": "leases", "apiGroup": "coordination.k8s.io"}}, False),
        ({"objectRef": {"resource": "events"}}, False),
        ({"objectRef": None}, False),
        ({"verb": "get", "responseStatus": {"code": 403}}, True),
        ({"verb": "get", "responseStatus": {"code": 403}, "user": OTHER}, False),
    ],
)
def test_what_is_kept(changes, kept):
    assert keep_writes(event(**changes)) is kept


def test_a_log_that_is_there_and_cannot_be_read_is_an_error(tmp_path, writer):
    (tmp_path / "folder").mkdir()
    with pytest.raises(StackError, match="could not be read"):
        AuditTail(tmp_path / "folder", writer).start()


def test_other_stages_are_left_out(path, writer, tail):
    tail.start()
    append(path, event("begun", stage="RequestReceived"), event("done"))
    wait_for(writer, "done")
    assert names(writer) == ["done"]
