from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from chaos.errors import NotReached, StackError, UsageError
from chaos.history.entry import What
from chaos.history.store import HistoryWriter


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def write_pod(writer, obj):
    return writer.write(
        What.OBJECT,
        change="ADDED",
        resource="pods",
        uid="u",
        namespace="ray",
        name="p",
        rv="1",
        listed=False,
        object=obj,
    )


def test_an_entry_is_in_the_file_when_write_returns(writer):
    writer.experiment = "test_x"
    entry = writer.write(What.NOTE, text="hello")
    assert lines(writer.path) == [entry]
    assert entry["n"] == 0
    assert entry["experiment"] == "test_x"
    assert 0 <= entry["t"] <= writer.now()


def test_numbers_and_times_rise_together_under_many_threads(writer):
    threads = [
        threading.Thread(target=lambda: [writer.write(What.NOTE, text="x") for _ in range(200)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = lines(writer.path)
    assert [e["n"] for e in found] == list(range(1600))
    assert [e["t"] for e in found] == sorted(e["t"] for e in found)
    assert found == writer.entries()


def test_an_existing_history_is_never_continued(writer):
    with pytest.raises(UsageError, match="could not be created"):
        HistoryWriter(writer.path)


def test_what_the_caller_changes_later_does_not_change_the_entry(writer):
    detail = {"seconds": 1}
    writer.write(What.PHASE, phase="begin", detail=detail)
    detail["seconds"] = 2
    assert writer.entries() == lines(writer.path)


def test_wait_for_sees_what_was_already_written(writer):
    writer.write(What.NOTE, text="a")
    second = writer.write(What.NOTE, text="b")
    assert writer.wait_for(lambda e: e["text"] == "b", deadline=0, what="b") is second


def test_wait_for_begins_at_since(writer):
    writer.write(What.NOTE, text="a")
    with pytest.raises(NotReached):
        writer.wait_for(lambda e: e["text"] == "a", deadline=0, what="a", since=1)


def test_wait_for_wakes_when_it_comes(writer):
    seen = []

    def answer(entry):
        seen.append(entry["text"])
        if entry["text"] == "asked":
            threading.Thread(target=lambda: writer.write(What.NOTE, text="came")).start()

    unsubscribe = writer.subscribe(answer)
    writer.write(What.NOTE, text="asked")
    assert writer.wait_for(lambda e: e["text"] == "came", deadline=10, what="it")["n"] == 1
    unsubscribe()


def test_wait_for_names_what_did_not_come(writer):
    with pytest.raises(NotReached, match=r"a new head: not seen within 0\.05 s"):
        writer.wait_for(lambda e: True, deadline=0.05, what="a new head")


def test_the_predicate_sees_each_entry_once(writer):
    for text in "abc":
        writer.write(What.NOTE, text=text)
    seen = []
    with pytest.raises(NotReached):
        writer.wait_for(lambda e: seen.append(e["text"]), deadline=0.05, what="nothing")
    assert seen == ["a", "b", "c"]


def test_a_failing_listener_stops_neither_the_record_nor_the_other_listeners(writer, caplog):
    seen = []
    writer.subscribe(lambda e: 1 / 0)
    writer.subscribe(seen.append)
    entry = writer.write(What.NOTE, text="x")
    assert seen == [entry]
    assert "ZeroDivisionError" in caplog.text


def test_nobody_is_told_after_unsubscribing(writer):
    seen = []
    unsubscribe = writer.subscribe(seen.append)
    unsubscribe()
    writer.write(What.NOTE, text="x")
    assert seen == []


def test_secrets_are_removed_from_the_file_and_from_memory(tmp_path):
    secret = 'pa"ss\\wörd'
    writer = HistoryWriter(tmp_path / "h", redact=[secret])
    entry = writer.write(What.NOTE, text=f"redis --pass {secret}", more={secret: [secret, 1]})
    assert entry["text"] == "redis --pass [redacted]"
    assert entry["more"] == {"[redacted]": ["[redacted]", 1]}
    assert lines(writer.path) == writer.entries() == [entry]


def test_a_secret_registered_later_is_removed_from_then_on(writer):
    writer.redact.add("hunter2")
    assert write_pod(writer, {"metadata": {"name": "hunter2"}})["object"]["metadata"]["name"] == "[redacted]"
    assert b"hunter2" not in writer.path.read_bytes()


def test_a_secret_that_looks_like_a_number_leaves_valid_json(writer):
    writer.redact.add("1")
    writer.write(What.NOTE, text="a1", count=1)
    assert lines(writer.path)[0]["count"] == 1
    assert lines(writer.path)[0]["text"] == "a[redacted]"


def test_the_longer_of_two_secrets_is_removed_whole(writer):
    writer.redact.add("abc")
    writer.redact.add("abcdef")
    assert writer.write(What.NOTE, text="abcdef")["text"] == "[redacted]"


def test_objects_lose_what_no_check_reads(writer):
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"}
    sent = {"metadata": {"name": "p", "managedFields": [{}], "annotations": annotations}, "spec": {}}
    kept = write_pod(writer, sent)["object"]
    assert kept == {"metadata": {"name": "p", "annotations": {"kept": "yes"}}, "spec": {}}
    assert "managedFields" in sent["metadata"], "the caller's object is left alone"


def test_a_secret_object_is_refused(writer):
    with pytest.raises(ValueError, match="Secret"):
        write_pod(writer, {"kind": "Secret", "metadata": {}})
    assert writer.path.read_bytes() == b""


def test_bytes_that_are_not_utf8_come_back(writer):
    text = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")
    writer.write(What.NOTE, text=text)
    assert lines(writer.path)[0]["text"].encode("utf-8", "surrogateescape") == b"caf\xe9 \xff"


def test_after_a_failed_write_nothing_more_is_written(writer, monkeypatch):
    class Full:
        closed = True

        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "_file", Full())
    for _ in range(2):
        with pytest.raises(StackError, match="No space left"):
            writer.write(What.NOTE, text="x")
    with pytest.raises(StackError, match="No space left"):
        writer.wait_for(lambda e: True, deadline=10, what="anything")
