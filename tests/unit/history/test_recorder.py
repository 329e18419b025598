"""The recorder against an API server that misbehaves in every way it has to survive."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from chaos.errors import NotReached, StackError
from chaos.history.entry import What
from chaos.history.recorder import WATCHES, Pace, Recorder, Watch
from chaos.waiting import until

PODS = Watch("pods", "api/v1")
PATH = PODS.path
FAST = Pace(connect=0.5, watch=1, slack=0.2, first_pause=0.01, longest_pause=0.05, missing=0.02)


@contextlib.contextmanager
def recording(api, writer, pace=FAST, watches=(PODS,)):
    recorder = Recorder(api.client, writer, watches, pace=pace)
    recorder.start(deadline=5)
    try:
        yield recorder
    finally:
        recorder.stop()


def wait_for(writer, **wanted):
    return writer.wait_for(lambda e: wanted.items() <= e.items(), deadline=5, what=str(wanted))


def objects(writer):
    return [(e["change"], e["uid"], e["rv"], e["listed"]) for e in writer.entries() if e["what"] == "object"]


def gaps(writer):
    return [e for e in writer.entries() if e["what"] == "gap"]


def sends(*events, then="hold"):
    """A watch that sends events, then holds, ends well, or is cut."""

    def answer(exchange):
        exchange.begin()
        for kind, obj in events:
            exchange.event(kind, obj)
        getattr(exchange, then)()

    return answer


def status(code):
    return lambda exchange: exchange.json({"kind": "Status", "code": code}, status=code)


def test_start_returns_when_all_is_listed(api, writer, pod):
    api.objects[PATH] = [pod("a", 5)]
    with recording(api, writer):
        assert objects(writer) == [("ADDED", "a", "5", True)]


def test_a_watch_goes_on_from_the_list_and_asks_for_an_end_and_bookmarks(api, writer, pod):
    api.script(PATH, sends(("ADDED", pod("a", 101))))
    with recording(api, writer):
        assert wait_for(writer, uid="a")["listed"] is False
    first = api.queries(PATH, watch=True)[0]
    assert first == {
        "watch": "true",
        "resourceVersion": "100",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "1",
    }


def test_a_list_of_many_pages_is_read_to_its_end(api, writer, pod):
    def page(exchange):
        exchange.json({"metadata": {"resourceVersion": "100", "continue": "c/2"}, "items": [pod("a", 1)]})

    api.objects[PATH] = [pod("b", 2)]
    api.script(PATH, lists=(page,))
    with recording(api, writer):
        assert [uid for _, uid, _, _ in objects(writer)] == ["a", "b"]
    assert api.queries(PATH, watch=False)[1]["continue"] == "c/2"


def test_a_watch_that_ends_in_time_is_continued_without_a_gap(api, writer, pod):
    api.script(PATH, sends(("ADDED", pod("a", 101)), then="end"), sends(("MODIFIED", pod("a", 102))))
    with recording(api, writer):
        wait_for(writer, rv="102")
    assert [q["resourceVersion"] for q in api.queries(PATH, watch=True)[:2]] == ["100", "101"]
    assert len(api.queries(PATH, watch=False)) == 1
    assert gaps(writer) == []


def test_a_bookmark_moves_the_version_and_is_no_entry(api, writer, pod):
    bookmark = {"metadata": {"resourceVersion": "150"}}
    api.script(PATH, sends(("BOOKMARK", bookmark), then="end"), sends(("ADDED", pod("a", 151))))
    with recording(api, writer):
        wait_for(writer, uid="a")
    assert api.queries(PATH, watch=True)[1]["resourceVersion"] == "150"
    assert objects(writer) == [("ADDED", "a", "151", False)]


def test_repeated_events_are_recorded_once(api, writer, pod):
    first, second = ("ADDED", pod("a", 101)), ("MODIFIED", pod("a", 102))
    gone = ("DELETED", pod("a", 103))
    api.script(PATH, sends(first, first, second, first, second, gone, gone, second, ("ADDED", pod("z", 104))))
    with recording(api, writer):
        wait_for(writer, uid="z")
    assert objects(writer)[:-1] == [
        ("ADDED", "a", "101", False),
        ("MODIFIED", "a", "102", False),
        ("DELETED", "a", "103", False),
    ]


@pytest.mark.parametrize(
    "gone", [status(410), sends(("ERROR", {"code": 410, "reason": "Expired", "message": "too old"}))]
)
def test_after_410_what_vanished_is_deleted_what_is_new_added_and_the_gap_told(api, writer, pod, gone):
    """The new pod has the old one's name: only the UID tells them apart."""

    def relist(exchange):
        api.objects[PATH], api.version = [pod("new", 300)], "300"
        gone(exchange)

    api.objects[PATH] = [pod("old", 50)]
    api.script(PATH, relist)
    with recording(api, writer):
        wait_for(writer, uid="new")
    assert objects(writer) == [
        ("ADDED", "old", "50", True),
        ("DELETED", "old", "50", True),
        ("ADDED", "new", "300", True),
    ]
    (gap,) = gaps(writer)
    assert gap["resource"] == "pods"
    assert gap["since"] <= gap["until"]
    assert "410" in gap["reason"]
    assert [e["what"] for e in writer.entries()] == ["object", "gap", "object", "object"]


@pytest.mark.parametrize("line", [b"{not json}\n", b"[]\n", b'{"type":"ADDED","object":{}}\n', b"\n"])
def test_an_event_that_cannot_be_read_leads_to_a_list_and_a_gap(api, writer, pod, line):
    def garbage(exchange):
        api.objects[PATH] = [pod("a", 120)]
        exchange.begin()
        exchange.send(line)
        exchange.hold()

    api.script(PATH, garbage)
    with recording(api, writer):
        wait_for(writer, uid="a")
    assert objects(writer) == [("ADDED", "a", "120", True)]
    assert len(gaps(writer)) == 1


@pytest.mark.parametrize("how", ["cut", "end"])  # "end": by something in between that closes the stream properly
def test_a_connection_cut_within_an_event_is_continued_without_a_gap(api, writer, pod, how):
    def cut(exchange):
        exchange.begin()
        exchange.event("ADDED", pod("a", 101))
        exchange.send(b'{"type":"MODIFIED","obj')
        getattr(exchange, how)()

    api.script(PATH, cut, sends(("MODIFIED", pod("a", 102))))
    with recording(api, writer):
        wait_for(writer, rv="102")
    assert [q["resourceVersion"] for q in api.queries(PATH, watch=True)[:2]] == ["100", "101"]
    assert gaps(writer) == []


def test_an_error_event_other_than_gone_is_continued_from_the_same_version(api, writer, pod):
    error = ("ERROR", {"code": 500, "reason": "InternalError", "message": "etcd changed its leader"})
    api.script(PATH, sends(error), sends(("ADDED", pod("a", 101))))
    with recording(api, writer):
        wait_for(writer, uid="a")
    assert len(api.queries(PATH, watch=False)) == 1
    assert gaps(writer) == []


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_a_refused_watch_is_asked_for_again_from_the_same_version(api, writer, pod, code):
    api.script(PATH, sends(("ADDED", pod("a", 101)), then="end"), status(code), sends(("MODIFIED", pod("a", 102))))
    with recording(api, writer):
        wait_for(writer, rv="102")
    assert [q["resourceVersion"] for q in api.queries(PATH, watch=True)[:3]] == ["100", "101", "101"]
    assert len(api.queries(PATH, watch=False)) == 1
    assert gaps(writer) == []


@pytest.mark.parametrize("code", [429, 500, 410])
def test_a_refused_list_is_asked_for_again(api, writer, pod, code):
    api.objects[PATH] = [pod("a", 5)]
    api.script(PATH, lists=(status(code),) * 2)
    with recording(api, writer):
        assert objects(writer) == [("ADDED", "a", "5", True)]
    assert gaps(writer) == [], "nothing was known before, so nothing was missed"


def test_a_list_whose_pages_expired_is_begun_anew(api, writer, pod):
    def page(exchange):
        exchange.json({"metadata": {"resourceVersion": "90", "continue": "c/2"}, "items": [pod("old", 1)]})

    api.objects[PATH] = [pod("a", 2)]
    api.script(PATH, lists=(page, status(410)))
    with recording(api, writer):
        assert [uid for _, uid, _, _ in objects(writer)] == ["a"], "half a list is no list"
    assert "continue" not in api.queries(PATH, watch=False)[2]
    assert gaps(writer) == []


@pytest.mark.parametrize("how", ["hold", "cut"])
def test_a_list_that_never_comes_is_left_and_asked_for_again(api, writer, pod, how):
    def torn(exchange):
        exchange.begin()
        exchange.send(b'{"metadata": {"resourceVersion": "90"}, "items": [')
        getattr(exchange, how)()

    api.objects[PATH] = [pod("a", 5)]
    api.script(PATH, lists=(torn,))
    with recording(api, writer):
        assert objects(writer) == [("ADDED", "a", "5", True)]


def test_a_server_that_refuses_connections_for_a_while_is_found_again(api, writer, pod):
    api.script(PATH, sends(("ADDED", pod("a", 101))))
    with recording(api, writer):
        wait_for(writer, uid="a")
        api.leave()
        refused = time.monotonic() + 0.4
        while time.monotonic() < refused:  # the outage
            time.sleep(0.05)
        api.script(PATH, sends(("MODIFIED", pod("a", 102))))
        api.arrive()
        wait_for(writer, rv="102")
    assert [q["resourceVersion"] for q in api.queries(PATH, watch=True)[:2]] == ["100", "101"]
    assert len(api.queries(PATH, watch=False)) == 1
    assert gaps(writer) == []


def test_a_server_that_was_away_for_long_leaves_a_gap(api, writer, pod):
    api.script(PATH, sends(("ADDED", pod("a", 101))))
    pace = Pace(connect=0.5, watch=0, slack=0.3, first_pause=0.01, longest_pause=0.05)
    with recording(api, writer, pace):
        wait_for(writer, uid="a")
        api.leave()
        time.sleep(0.6)  # the outage
        api.script(PATH, sends(("MODIFIED", pod("a", 102))))
        api.arrive()
        wait_for(writer, rv="102")
    (gap,) = gaps(writer)
    assert "refused" in gap["reason"]
    assert gap["until"] - gap["since"] >= 0.5


def test_what_a_watch_repeats_from_before_a_list_is_passed_over(api, writer, pod):
    """After 410 the list is newer than what a lagging server then tells first."""

    def relist(exchange):
        api.objects[PATH], api.version = [pod("a", 300), pod("b", 290)], "300"
        status(410)(exchange)

    late = [("MODIFIED", pod("a", 250)), ("ADDED", pod("b", 240)), ("DELETED", pod("old", 260))]
    api.objects[PATH] = [pod("a", 50), pod("old", 60)]
    api.script(PATH, relist, sends(*late, ("MODIFIED", pod("b", 301))))
    with recording(api, writer):
        wait_for(writer, rv="301")
    assert objects(writer) == [
        ("ADDED", "a", "50", True),
        ("ADDED", "old", "60", True),
        ("DELETED", "old", "60", True),
        ("MODIFIED", "a", "300", True),
        ("ADDED", "b", "290", True),
        ("MODIFIED", "b", "301", False),
    ]


@pytest.mark.parametrize("headers_first", [True, False])
def test_a_half_open_connection_is_left_and_the_stall_is_a_gap(api, writer, pod, headers_first):
    def silent(exchange):
        if headers_first:
            exchange.begin()
        exchange.hold()

    api.script(PATH, silent, sends(("ADDED", pod("a", 101))))
    with recording(api, writer):
        entry = wait_for(writer, uid="a")
    (gap,) = gaps(writer)
    assert gap["until"] - gap["since"] >= FAST.silence
    assert gap["n"] < entry["n"]
    assert "told late" in gap["reason"]


def test_a_server_that_is_away_is_asked_again_with_a_growing_pause(api, writer, pod):
    api.script(PATH, *[status(503)] * 5, sends(("ADDED", pod("a", 101))))
    pace = Pace(watch=1, slack=0.2, first_pause=0.02, longest_pause=0.1)
    began = time.monotonic()
    with recording(api, writer, pace):
        wait_for(writer, uid="a")
    # At least half of 20 + 40 + 80 + 100 + 100 ms.
    assert time.monotonic() - began >= 0.17
    assert gaps(writer) == []


def test_a_long_outage_is_a_gap_though_the_version_is_still_good(api, writer, pod):
    ends = []

    def away(exchange):
        ends.append(time.monotonic())
        if ends[-1] - ends[0] < 0.6:
            api.watches[PATH].appendleft(away)
        status(503)(exchange)

    api.script(PATH, away, sends(("ADDED", pod("a", 101))))
    pace = Pace(watch=0, slack=0.5, first_pause=0.01, longest_pause=0.05)
    with recording(api, writer, pace):
        wait_for(writer, uid="a")
    (gap,) = gaps(writer)
    assert "HTTP 503" in gap["reason"]


def test_an_outage_that_outlasts_the_recording_is_a_gap(api, writer):
    api.script(PATH, *[status(503)] * 10_000)
    pace = Pace(watch=0, slack=0.2, first_pause=0.01, longest_pause=0.05)
    with recording(api, writer, pace):
        time.sleep(0.3)  # the outage
    (gap,) = gaps(writer)
    assert "not back when the recording ended" in gap["reason"]


def test_who_catches_up_waits_for_what_the_outage_left_out(api, writer, pod):
    """A watch that is accepted again tells nothing yet: the first it says may be that its version is too old."""
    hears = threading.Event()

    def too_old(exchange):
        exchange.begin()
        hears.wait(5)
        exchange.event("ERROR", {"code": 410, "reason": "Expired", "message": "too old"})
        exchange.end()

    api.script(PATH, sends(("ADDED", pod("a", 101)), then="cut"), status(503), too_old, sends())
    with recording(api, writer, Pace(watch=10, slack=5, first_pause=0.01)) as recorder:
        until(lambda: len(api.queries(PATH, watch=True)) == 3, what="the watch is accepted again", deadline=5)
        threading.Timer(0.3, hears.set).start()
        recorder.catch_up(deadline=5)
        (gap,) = gaps(writer)
    assert "too old" in gap["reason"]


def test_who_catches_up_in_vain_has_a_gap_and_who_missed_nothing_does_not_wait(api, writer, pod):
    api.script(PATH, sends(("ADDED", pod("a", 101))))
    with recording(api, writer, Pace(watch=0, slack=0.2, first_pause=0.01, longest_pause=0.05)) as recorder:
        wait_for(writer, uid="a")
        recorder.catch_up(deadline=0)
        assert gaps(writer) == []
        api.leave()
        recorder_is_late = time.monotonic() + 0.5
        while time.monotonic() < recorder_is_late:  # the outage
            time.sleep(0.05)
        recorder.catch_up(deadline=0.1)
        assert "not back yet" in gaps(writer)[0]["reason"]


def test_a_server_that_ends_each_watch_at_once_is_in_reach(api, writer):
    api.script(PATH, *[sends(then="end")] * 100)
    with recording(api, writer) as recorder:
        until(lambda: len(api.queries(PATH, watch=True)) > 2, what="a third watch", deadline=5)
        recorder.catch_up(deadline=0)
    assert gaps(writer) == []


def test_a_watch_that_ends_at_once_is_not_asked_for_in_a_hot_loop(api, writer, pod):
    api.script(PATH, *[sends(then="end")] * 2, sends(("ADDED", pod("a", 101))))
    began = time.monotonic()
    with recording(api, writer, Pace(watch=1, slack=0.2, first_pause=0.2, longest_pause=1)):
        wait_for(writer, uid="a")
    assert time.monotonic() - began >= (0.2 + 0.4) / 2


def test_a_resource_that_is_not_served_yet_is_empty_until_it_is(api, writer, pod):
    api.script(PATH, lists=(status(404),) * 3)
    api.objects[PATH] = [pod("a", 7)]
    began = time.monotonic()
    with recording(api, writer, Pace(missing=0.1)):
        assert objects(writer) == []
        wait_for(writer, uid="a")
    assert time.monotonic() - began >= 0.3
    assert len(writer.entries()) == 1, "no noise meanwhile"


def test_start_says_what_could_not_be_listed(api, writer):
    api.script(PATH, lists=(status(403),) * 1000)
    recorder = Recorder(api.client, writer, [PODS], pace=FAST)
    with pytest.raises(NotReached, match=r"pods could not be listed within 0\.3 s: .*HTTP 403"):
        recorder.start(deadline=0.3)


def test_stop_interrupts_quiet_watches_and_nothing_is_written_after_it(api, writer):
    with recording(api, writer, Pace(), WATCHES) as recorder:
        began = time.monotonic()
        recorder.stop()
        assert time.monotonic() - began < 2
    count = len(writer.entries())
    assert not any(watcher.thread.is_alive() for watcher in recorder._watchers)
    assert len(writer.entries()) == count


def test_stop_tells_when_the_record_had_ended_early(api, writer, pod):
    api.script(PATH, sends(("ADDED", {**pod("a", 101), "kind": "Secret"})))
    recorder = Recorder(api.client, writer, [PODS], pace=FAST)
    recorder.start(deadline=5)
    recorder._watchers[0].thread.join(5)
    with pytest.raises(StackError, match="recording of pods failed: a Secret"):
        recorder.stop()


def test_leases_keep_their_identity_and_spec(api, writer):
    lease = WATCHES[-1]
    meta = {"uid": "l", "name": "operator", "namespace": "kuberay", "resourceVersion": "3", "labels": {"a": "b"}}
    api.objects[lease.path] = [{"metadata": meta, "spec": {"holderIdentity": "x"}}]
    with recording(api, writer, watches=[lease]):
        entry = wait_for(writer, uid="l")
    assert entry["object"]["spec"] == {"holderIdentity": "x"}
    assert "labels" not in entry["object"]["metadata"]
    assert "metadata.namespace!=kube-system" in api.requests[0][1]["fieldSelector"]


def test_a_namespace_narrows_the_path():
    assert Watch("rayjobs", "apis/ray.io/v1", "team").path == "/apis/ray.io/v1/namespaces/team/rayjobs"


def test_an_event_is_recorded_within_milliseconds(api, writer, pod):
    sent = []

    def paced(exchange):
        exchange.begin()
        for rv in range(101, 131):
            time.sleep(0.005)  # events come apart from each other
            sent.append(writer.now())
            exchange.event("ADDED", pod(f"u{rv}", rv))
        exchange.hold()

    api.script(PATH, paced)
    with recording(api, writer):
        wait_for(writer, rv="130")
    delays = sorted(e["t"] - at for e, at in zip(writer.entries(), sent, strict=True) if e["what"] == What.OBJECT)
    assert delays[len(delays) // 2] < 0.02
