"""Logs are followed from their start, kept byte for byte, and taken up again where a stream broke."""

from __future__ import annotations

import contextlib
import time

import pytest

from chaos.history.entry import What
from chaos.history.logs import LogPace, LogStreamer

FAST = LogPace(connect=0.5, silence=2.0, verdict=0.05, retry=0.02, after_end=0.5)


def path(pod="head"):
    return f"/api/v1/namespaces/ray/pods/{pod}/log"


def stamped(number: int, text: bytes) -> bytes:
    return b"2026-01-01T00:00:0%d.5Z %s\n" % (number, text)


def has_ended(entry, *, restart) -> bool:
    container = entry["object"]["status"]["containerStatuses"][0]
    return container["restartCount"] == restart and "terminated" in container["state"]


def answers(*chunks: bytes, then="end"):
    def answer(exchange):
        exchange.begin()
        for chunk in chunks:
            exchange.send(chunk)
        getattr(exchange, then)()

    return answer


def always(api, answer, pod="head"):
    """Answer every request for the pod's log alike: how often a log is asked for is not what is tested."""

    def again(exchange):
        api.watches[path(pod)].append(again)
        answer(exchange)

    api.script(path(pod), again)


class Pods:
    """Writes pod entries as the recorder would."""

    def __init__(self, writer) -> None:
        self.writer = writer

    def __call__(self, *, uid="uid-1", name="head", change="MODIFIED", restart=0, state="running", last=None, ns="ray"):
        container = {
            "name": "ray",
            "restartCount": restart,
            "state": {state: {}},
            "lastState": {last: {}} if last else {},
        }
        obj = {"metadata": {"uid": uid, "name": name}, "status": {"containerStatuses": [container]}}
        self.writer.write(
            What.OBJECT,
            change=change,
            resource="pods",
            uid=uid,
            namespace=ns,
            name=name,
            rv="1",
            listed=False,
            object=obj,
        )


@pytest.fixture
def pods(writer) -> Pods:
    return Pods(writer)


@contextlib.contextmanager
def streaming(api, writer, folder, **options):
    streamer = LogStreamer(api.client, writer, folder, selects="ray".__eq__, pace=FAST, **options)
    streamer.start()
    try:
        yield streamer
    finally:
        for thread in list(streamer._threads):  # every script below ends, or is ended by the test's last pod entry
            thread.join(5)
        streamer.stop()


def log(folder, restart=0, suffix="") -> bytes:
    return (folder / f"ray_head_ray_{restart}{suffix}.log").read_bytes()


def test_bytes_are_kept_utf8_or_not(api, writer, pods, tmp_path):
    data = stamped(1, b"caf\xe9 \xff\x00 progress 1\rprogress 2") + stamped(2, "naïve".encode())
    always(api, answers(data))
    with streaming(api, writer, tmp_path):
        pods()
        pods(state="terminated")
    assert log(tmp_path) == data
    first = next(query for where, query in api.requests if where == path())
    assert first == {"container": "ray", "timestamps": "true", "follow": "true"}


def test_a_pod_that_ran_before_the_start_is_followed_and_one_that_was_gone_is_not(api, writer, pods, tmp_path):
    always(api, answers(stamped(1, b"x")))
    always(api, answers(stamped(1, b"y")), "gone")
    pods()
    pods(uid="uid-2", name="gone")
    pods(uid="uid-2", name="gone", change="DELETED")
    with streaming(api, writer, tmp_path):
        pods(state="terminated")
    assert log(tmp_path) == stamped(1, b"x")
    assert [file.name for file in tmp_path.glob("*.log")] == ["ray_head_ray_0.log"]


def test_an_entry_that_the_start_caught_up_with_is_not_followed_when_it_arrives_late(api, writer, pods, tmp_path):
    pods()
    pods(change="DELETED")
    with streaming(api, writer, tmp_path) as streamer:
        streamer._see(writer.entries()[0])
    assert api.requests == []


def test_after_a_restart_there_is_a_second_file(api, writer, pods, tmp_path):
    def restarts(exchange):
        answers(stamped(1, b"first"))(exchange)
        pods(restart=1, last="terminated")
        pods(restart=1, last="terminated", state="terminated")

    def later(exchange):
        api.watches[path()].append(later)
        answers(stamped(1, b"first" if "previous" in exchange.query else b"second"))(exchange)

    api.script(path(), restarts, later)
    with streaming(api, writer, tmp_path):
        pods()
        writer.wait_for(lambda e: has_ended(e, restart=1), deadline=5, what="the restart")
    assert log(tmp_path, 0) == stamped(1, b"first")
    assert log(tmp_path, 1) == stamped(1, b"second")


def test_an_instance_too_short_lived_to_be_seen_running_is_fetched(api, writer, pods, tmp_path):
    def by_query(exchange):
        answers(stamped(1, b"crash" if "previous" in exchange.query else b"now"))(exchange)

    always(api, by_query)
    with streaming(api, writer, tmp_path):
        pods(restart=1, last="terminated", state="waiting")
        pods(restart=1, last="terminated", state="terminated")
    assert log(tmp_path, 0) == stamped(1, b"crash")
    assert log(tmp_path, 1) == stamped(1, b"now")


def test_a_broken_stream_is_taken_up_without_loss_or_repetition(api, writer, pods, tmp_path):
    """Two lines share the stamp of the last one received; the stream breaks within a third."""
    same = [stamped(2, b"b"), stamped(2, b"c"), stamped(2, b"d")]

    def rest(exchange):
        answers(*same, stamped(3, b"e"))(exchange)
        pods(state="terminated")

    again = answers(stamped(3, b"e"))  # asked for once the container is known to be over
    api.script(path(), answers(stamped(1, b"a"), *same[:2], same[2][:-2], then="cut"), rest, again)
    with streaming(api, writer, tmp_path):
        pods()
        writer.wait_for(lambda e: has_ended(e, restart=0), deadline=5, what="the end")
    assert log(tmp_path) == b"".join([stamped(1, b"a"), *same, stamped(3, b"e")])
    assert api.requests[1][1]["sinceTime"] == "2026-01-01T00:00:02Z"


def test_after_it_was_taken_up_lines_may_be_out_of_order(api, writer, pods, tmp_path):
    first, second, third = stamped(2, b"a"), stamped(4, b"b"), stamped(1, b"from stderr, a little late")
    always(api, answers(first, second, third))
    api.watches[path()].appendleft(answers(first, then="cut"))
    with streaming(api, writer, tmp_path):
        pods()
        pods(state="terminated")
    assert log(tmp_path) == first + second + third


def test_a_later_line_of_the_same_second_is_new_though_the_earlier_was_rotated_away(api, writer, pods, tmp_path):
    early, late = b"2026-01-01T00:00:01.1Z a\n", b"2026-01-01T00:00:01.15Z b\n"
    always(api, answers(late))
    api.watches[path()].appendleft(answers(early, then="cut"))
    with streaming(api, writer, tmp_path):
        pods()
        pods(state="terminated")
    assert log(tmp_path) == early + late


def test_a_last_line_without_an_end_is_kept(api, writer, pods, tmp_path):
    last = stamped(2, b"Killed")[:-1]
    always(api, answers(stamped(1, b"a"), last))
    with streaming(api, writer, tmp_path):
        pods()
        pods(state="terminated")
    assert log(tmp_path) == stamped(1, b"a") + last


def test_a_second_pod_of_the_same_name_gets_its_own_file(api, writer, pods, tmp_path):
    always(api, answers(stamped(1, b"old")))
    with streaming(api, writer, tmp_path) as streamer:
        pods(uid="uid-1", state="terminated")
        for thread in list(streamer._threads):
            thread.join(5)
        pods(uid="uid-1", change="DELETED")
        always(api, answers(stamped(1, b"new")))
        pods(uid="another-uid", state="terminated")
    assert log(tmp_path) == stamped(1, b"old")
    assert log(tmp_path, suffix=".another-") == stamped(1, b"new")


def test_the_log_of_a_pod_that_is_gone_is_not_asked_for_by_its_name(api, writer, pods, tmp_path):
    def dies(exchange):
        exchange.begin()
        exchange.send(stamped(1, b"last words"))
        pods(change="DELETED")
        exchange.cut()

    api.script(path(), dies, answers(stamped(1, b"of another pod")))
    with streaming(api, writer, tmp_path):
        pods()
        writer.wait_for(lambda e: e["change"] == "DELETED", deadline=5, what="deletion")
    kept = log(tmp_path)
    assert kept.startswith(stamped(1, b"last words"))
    assert b"the end of this log may be missing" in kept.splitlines()[-1]
    assert len(api.requests) == 1


def test_a_pod_that_vanishes_before_its_log_was_asked_for_is_told_in_the_log(api, writer, pods, tmp_path):
    def vanished(exchange):
        pods(change="DELETED")
        exchange.json({"kind": "Status", "code": 404}, status=404)

    always(api, vanished)
    with streaming(api, writer, tmp_path):
        pods()
        writer.wait_for(lambda e: e["change"] == "DELETED", deadline=5, what="deletion")
    assert log(tmp_path) == b"[kuberay-chaos] the end of this log may be missing: HTTP 404\n"


def test_a_kubelet_that_cannot_be_reached_any_more_keeps_what_came(api, writer, pods, tmp_path):
    """The node is gone: the API server answers 500 or cuts the stream, and the pod is deleted only later."""

    def refused(exchange):
        api.watches[path()].append(refused)
        exchange.json({"message": "dial tcp: no route to host"}, status=500)

    api.script(path(), answers(stamped(1, b"\xff\xfe before"), then="cut"), refused)
    with streaming(api, writer, tmp_path):
        pods()
        while len(api.requests) < 2:
            time.sleep(0.01)
        pods(change="DELETED")
    first, note = log(tmp_path).splitlines(keepends=True)
    assert first == stamped(1, b"\xff\xfe before")
    assert b"may be missing: HTTP 500" in note


def test_a_huge_log_of_any_bytes_is_cut_at_its_limit_without_secrets(api, writer, pods, tmp_path):
    writer.redact.add("hunter2")
    line = stamped(1, bytes(range(11, 256)) * 4 + b" hunter2 " + b"\xf0\x9f\x92")
    api.script(path(), answers(*[line * 20] * 200))
    with streaming(api, writer, tmp_path, limit=100_000):
        pods(state="terminated")
    kept = log(tmp_path)
    assert len(kept) < 100_200
    assert b"hunter2" not in kept
    assert kept.endswith(b"[kuberay-chaos] this log was cut here: it reached the limit of a file\n")


@pytest.mark.parametrize("ends", [b"", b"\n"])
def test_no_part_of_a_secret_is_left_where_a_long_line_was_cut(api, writer, pods, tmp_path, ends):
    """However the line falls into chunks."""
    writer.redact.add("correct-horse-battery-staple")
    api.script(path(), answers(b"2026-01-01T00:00:01Z " + b"x" * 960 + b" correct-horse", b"-battery-staple" + ends))
    with streaming(api, writer, tmp_path, limit=990):
        pods(state="terminated")
    assert b"correct" not in log(tmp_path)


def test_no_part_of_a_secret_is_left_where_a_pod_vanished_within_a_line(api, writer, pods, tmp_path):
    writer.redact.add("correct-horse-battery-staple")

    def dies(exchange):
        exchange.begin()
        exchange.send(b"2026-01-01T00:00:01Z password correct-hor")
        pods(change="DELETED")
        exchange.end()

    api.script(path(), dies)
    with streaming(api, writer, tmp_path):
        pods()
        writer.wait_for(lambda e: e["change"] == "DELETED", deadline=5, what="deletion")
    assert log(tmp_path) == b"2026-01-01T00:00:01Z password [redacted]"


def test_a_log_that_stays_unavailable_says_so(api, writer, pods, tmp_path):
    always(api, lambda exchange: exchange.json({}, status=500))
    with streaming(api, writer, tmp_path):
        pods(state="terminated")
    assert log(tmp_path) == b"[kuberay-chaos] the end of this log may be missing: HTTP 500\n"


def test_a_file_takes_no_more_than_its_limit_and_says_that_it_was_cut(api, writer, pods, tmp_path):
    api.script(path(), answers(*[stamped(1, b"x" * 100)] * 50))
    with streaming(api, writer, tmp_path, limit=1000):
        pods(state="terminated")
    *kept, last = log(tmp_path).splitlines(keepends=True)
    assert sum(map(len, kept)) == 1001, "the limit, and the end of the line that was cut"
    assert last == b"[kuberay-chaos] this log was cut here: it reached the limit of a file\n"


def test_a_line_without_end_cannot_fill_memory(api, writer, pods, tmp_path):
    api.script(path(), answers(*[b"x" * 1000] * 50))
    with streaming(api, writer, tmp_path, limit=2000):
        pods(state="terminated")
    assert b"this log was cut here" in log(tmp_path)
    assert len(log(tmp_path)) < 2200


def test_secrets_are_removed_across_chunks(api, writer, pods, tmp_path):
    writer.redact.add("hunter2")
    api.script(path(), answers(b"2026-01-01T00:00:01Z pass hun", b"ter2 \xff\n"))
    with streaming(api, writer, tmp_path):
        pods(state="terminated")
    assert log(tmp_path) == b"2026-01-01T00:00:01Z pass [redacted] \xff\n"


def test_other_namespaces_are_left_alone(api, writer, pods, tmp_path):
    with streaming(api, writer, tmp_path):
        pods(ns="elsewhere")
    assert api.requests == []


def test_stop_ends_open_streams_and_keeps_what_came(api, writer, pods, tmp_path):
    api.script(path(), answers(stamped(1, b"a"), then="hold"))
    streamer = LogStreamer(api.client, writer, tmp_path, pace=FAST)
    streamer.start()
    pods()
    (thread,) = streamer._threads
    while not (tmp_path / "ray_head_ray_0.log").exists() or not log(tmp_path):
        thread.join(0.01)  # the line is on its way
        assert thread.is_alive()
    streamer.stop()
    assert not thread.is_alive()
    assert log(tmp_path) == stamped(1, b"a")


def test_a_folder_that_cannot_be_written_is_a_note_and_no_error(api, writer, pods, tmp_path):
    folder = tmp_path / "logs"
    with streaming(api, writer, folder):
        folder.rmdir()
        pods(state="terminated")
        note = writer.wait_for(lambda e: e["what"] == "note", deadline=5, what="a note")
    assert "ray/head ray#0 was not kept" in note["text"]
