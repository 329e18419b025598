"""Who may act at the same time as whom. Times are not asserted, only orders."""

import contextlib
import io
import threading
from types import SimpleNamespace

import pytest

from chaos import signals
from chaos.console import Console
from chaos.faults.delete_pod import DeletePod
from chaos.faults.node_stop import NodeStop
from chaos.faults.scale_deployment import ScaleDeployment
from chaos.faults.stop_process import StopProcess
from chaos.lab import Lab
from chaos.lanes import Lanes, carried
from chaos.stack import kuberay
from chaos.turns import Part, Turn
from chaos.waiting import until


@pytest.fixture
def own_state(monkeypatch):
    monkeypatch.setattr(signals, "_state", signals._State())


def turn(folder, *, disturbs=(), relies_on=(), places=9):
    return Turn(folder, disturbs=disturbs, relies_on=relies_on, places=places)


def started(folder, entered, **parts):
    """A thread that takes a turn and keeps it until told to leave."""
    leave = threading.Event()
    mine = turn(folder, **parts)

    def hold():
        mine.take()
        mine.prepared()
        entered.set()
        leave.wait(20)
        mine.end()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    return thread, leave


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ({"relies_on": list(Part)}, {"relies_on": list(Part)}, True),
        ({"disturbs": [Part.REDIS]}, {"disturbs": [Part.OPERATOR]}, True),
        ({"relies_on": [Part.REDIS]}, {"disturbs": [Part.OPERATOR]}, True),
        ({"disturbs": [Part.REDIS]}, {"relies_on": [Part.NODES]}, True),
        ({"disturbs": [Part.OPERATOR]}, {"relies_on": [Part.OPERATOR]}, False),
        ({"relies_on": [Part.NODES]}, {"disturbs": [Part.NODES]}, False),
        ({"disturbs": [Part.REDIS]}, {"disturbs": [Part.REDIS]}, False),
    ],
)
def test_who_disturbs_a_part_is_alone_with_it(tmp_path, first, second, together):
    one, two = threading.Event(), threading.Event()
    thread, leave = started(tmp_path, one, **first)
    assert one.wait(20)
    other, leave_other = started(tmp_path, two, **second)
    assert two.wait(20 if together else 0.5) is together
    leave.set()
    assert two.wait(20)
    leave_other.set()
    for each in (thread, other):
        each.join(20)


def test_who_waits_to_be_alone_comes_before_those_who_ask_later(tmp_path):
    order = []
    one, alone, later = threading.Event(), threading.Event(), threading.Event()
    thread, leave = started(tmp_path, one, relies_on=[Part.REDIS])
    assert one.wait(20)
    waiting, leave_alone = started(tmp_path, alone, disturbs=[Part.REDIS])
    assert not alone.wait(0.5)
    third, leave_third = started(tmp_path, later, relies_on=[Part.REDIS])
    assert not later.wait(0.5), "it would share with the first, but another one asked before"
    leave.set()
    assert alone.wait(20)
    order.append("alone")
    assert not later.is_set()
    leave_alone.set()
    assert later.wait(20)
    leave_third.set()
    for each in (thread, waiting, third):
        each.join(20)


def test_who_disturbs_no_more_is_joined_by_who_relies_and_not_by_who_disturbs(tmp_path):
    first = turn(tmp_path, disturbs=[Part.OPERATOR])
    first.take()
    relying, disturbing = threading.Event(), threading.Event()
    one, leave_one = started(tmp_path, relying, relies_on=[Part.OPERATOR])
    assert not relying.wait(0.5)
    first.disturbs_no_more()
    assert relying.wait(20)
    other, leave_other = started(tmp_path, disturbing, disturbs=[Part.OPERATOR])
    leave_one.set()
    one.join(20)
    assert not disturbing.wait(0.5), "the first still relies on what it has disturbed"
    first.end()
    assert disturbing.wait(20)
    leave_other.set()
    other.join(20)


def test_a_turn_can_be_taken_twice_and_ended_twice(tmp_path):
    mine = turn(tmp_path, disturbs=[Part.REDIS])
    for _ in range(2):
        mine.take()
    for _ in range(2):
        mine.end()
    turn(tmp_path, disturbs=[Part.REDIS]).take()


def test_waiting_is_told_once_and_only_where_there_is_something_to_wait_for(tmp_path):
    told = []

    @contextlib.contextmanager
    def tell():
        told.append("waits")
        yield
        told.append("goes on")

    first, second = turn(tmp_path, disturbs=[Part.REDIS]), turn(tmp_path, disturbs=[Part.REDIS], places=1)
    first.take(tell)
    first.take(tell)
    first.take_place(tell)
    assert told == [], "nobody is in the way, and then it is taken already"
    thread = threading.Thread(target=second.take_place, args=[tell], daemon=True)
    thread.start()
    until(lambda: told == ["waits"], what="the wait to be told", deadline=20, every=0.01)
    first.end()
    thread.join(20)
    assert told == ["waits", "goes on"]
    second.end()


def test_without_the_operator_nothing_starts_and_it_is_let_go_afterwards(tmp_path):
    one, two = threading.Event(), threading.Event()
    first = turn(tmp_path, relies_on=[Part.REDIS])
    first.take_place()
    thread, leave = started(tmp_path, one, disturbs=[Part.OPERATOR])
    assert not one.wait(0.5), "the first may still make Ray clusters"
    first.prepared()
    assert one.wait(20)
    other, leave_other = started(tmp_path, two, relies_on=[Part.REDIS])
    assert not two.wait(0.5), "there is no operator to start with"
    leave.set()
    assert two.wait(20)
    leave_other.set()
    for each in (thread, other):
        each.join(20)
    first.end()


def test_no_more_are_busy_than_there_are_places(tmp_path):
    first, second, third = (turn(tmp_path, places=2) for _ in range(3))
    started = threading.Event()
    for each in (first, second, first):
        each.take_place()
    thread = threading.Thread(target=lambda: (third.take_place(), started.set()), daemon=True)
    thread.start()
    assert not started.wait(0.5)
    first.prepared()
    assert not started.wait(0.5), "it makes no other cluster, but looks at those that it has"
    first.leave_place()
    first.leave_place()
    assert started.wait(20)
    thread.join(20)
    for each in (second, third):
        each.end()


@pytest.mark.usefixtures("own_state")
def test_who_is_stopped_while_it_waits_keeps_nothing(tmp_path):
    holder = turn(tmp_path, disturbs=[Part.REDIS])
    holder.take()
    holder.prepared()
    began = threading.Event()

    def work(key, in_order):
        began.set()
        turn(tmp_path, disturbs=[Part.OPERATOR, Part.REDIS]).take()

    lanes = Lanes(1)
    lanes.start(["a"], work)
    assert began.wait(20)
    lanes.close("SIGTERM")
    turn(tmp_path, disturbs=[Part.OPERATOR]).take()


@pytest.mark.usefixtures("own_state")
def test_a_run_that_ends_stops_its_threads_at_their_next_wait_once():
    seen = []
    began = threading.Event()

    def work(key, in_order):
        try:
            began.set()
            signals.pause(60)
        except signals.Stopped as stopped:
            seen.append(str(stopped))
            signals.pause(0.01)  # what is waited for after that, in its clean-up, is not cut short
            seen.append("cleaned up")
            raise

    lanes = Lanes(1)
    lanes.start(["a", "b"], work)
    assert began.wait(20)
    lanes.close("SIGTERM")
    assert seen == ["SIGTERM", "cleaned up"]
    with pytest.raises(signals.Stopped):
        lanes.result("a")


@pytest.mark.usefixtures("own_state")
def test_who_is_stopped_by_a_signal_is_told_so_whoever_stops_it(monkeypatch):
    seen = []
    began = threading.Event()

    def work(key, in_order):
        began.set()
        try:
            signals.pause(60)
        except signals.Stopped as stopped:
            seen.append(str(stopped))
            raise

    lanes = Lanes(1)
    lanes.start(["a"], work)
    assert began.wait(20)
    monkeypatch.setattr(signals._state, "raised", signals.Interrupted(1))
    lanes.close("the session ended")
    assert seen == ["SIGHUP"]


@pytest.mark.usefixtures("own_state")
def test_what_is_shielded_runs_to_its_end():
    ends = []
    began = threading.Event()

    def work(key, in_order):
        with signals.shielded():
            began.set()
            signals.pause(0.3)
            ends.append("shielded")
        signals.checkpoint()
        ends.append("never")

    lanes = Lanes(1)
    lanes.start(["a"], work)
    assert began.wait(20)
    lanes.close("SIGINT")
    assert ends == ["shielded"]


@pytest.mark.usefixtures("own_state")
def test_turns_are_asked_for_in_order_whichever_thread_is_quicker():
    order = []
    late = threading.Event()

    def work(key, in_order):
        if key == "first":
            late.wait(0.3)
        with in_order:
            order.append(key)

    lanes = Lanes(3)
    lanes.start(["first", "second"], work)
    lanes.start(["third"], work)
    for key in ("first", "second", "third"):
        lanes.result(key)
    assert order == ["first", "second", "third"]


@pytest.mark.usefixtures("own_state")
def test_one_that_ends_without_its_turn_keeps_nobody_waiting():
    def work(key, in_order):
        if key == "fails":
            raise ValueError("before it asked")
        with in_order:
            return key

    lanes = Lanes(2)
    lanes.start(["fails", "works"], work)
    assert lanes.result("works") == "works"
    with pytest.raises(ValueError, match="before"):
        lanes.result("fails")


class Machine:
    def __init__(self, cpus, mib):
        self.cpus, self.mib = cpus, mib

    def read(self, path):
        return f"MemTotal: 1 kB\nMemAvailable:   {self.mib * 1024} kB\n" if path == "/proc/meminfo" else None


@pytest.mark.parametrize(
    ("cpus", "mib", "lanes"), [(2, 20000, 2), (4, 4000, 1), (8, 20000, 6), (4, 20000, 4), (1, 500, 1)]
)
def test_as_many_as_the_machine_carries(cpus, mib, lanes):
    assert carried(Machine(cpus, mib)) == lanes


class _Turn:
    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *tell: self.calls.append(name)


class Head:
    """A cluster's head as the API server tells of it: at each look one step further."""

    namespace = "chaos-a"

    def __init__(self, *steps):
        self.steps = list(steps)

    def head_pod(self, cluster):
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if step == "no pod":
            return None
        conditions = [{"type": "Ready", "status": str(step == "ready")}]
        return {"status": {"conditions": conditions, "containerStatuses": [{"restartCount": int(step == "restarted")}]}}


def making(places, *heads):
    lab = object.__new__(Lab)
    lab._turn, lab._console, lab.cluster = SimpleNamespace(places=places), Console(io.StringIO()), None
    lab._heads = list(heads)
    return lab


@pytest.mark.parametrize("end", ["ready", "restarted"])
def test_another_head_waits_until_the_one_before_has_begun_or_failed(end):
    lab = making(1, Head("no pod", "starting", end))
    lab._room_for_a_head("chaos-b")
    assert lab._heads == []


def test_as_many_heads_start_at_once_as_there_are_places(monkeypatch):
    monkeypatch.setattr("chaos.lab.until", lambda *args, **kwargs: pytest.fail("there was room"))
    making(2, Head("starting"))._room_for_a_head("chaos-b")
    lab = making(1, Head("starting"))
    lab._turn = None  # nobody else, and no bound
    lab._room_for_a_head("chaos-b")


def test_a_head_that_does_not_begin_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("chaos.lab._HEAD_SECONDS", 0.2)
    lab = making(1, Head("starting"))
    lab._room_for_a_head("chaos-b")
    assert len(lab._heads) == 1


def pod(namespace):
    return {
        "metadata": {"namespace": namespace, "name": "p", "uid": "u"},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
    }


@contextlib.contextmanager
def injector(*faults):
    yield "injected"


def lab_with(turn):
    lab = object.__new__(Lab)
    lab._turn, lab._console, lab._heads, lab.injector = turn, Console(io.StringIO()), [], injector
    return lab


@pytest.mark.parametrize(
    ("fault", "before", "after"),
    [
        (DeletePod.of(pod("chaos-a")), ["take_place"], []),
        (DeletePod.of(pod(kuberay.NAMESPACE)), [], []),
        (StopProcess.of(pod("chaos-a"), container="c"), ["take_place"], ["take_place"]),
        (StopProcess.of(pod(kuberay.NAMESPACE), container="c"), [], []),
        (NodeStop("n"), ["take_place"], ["take_place"]),
        (ScaleDeployment(kuberay.NAMESPACE, kuberay.DEPLOYMENT, 0), [], []),
    ],
    ids=["Ray's pod", "the operator", "a process that goes on later", "the operator's", "a node", "no operator"],
)
def test_what_ray_feels_is_done_and_undone_in_a_place(fault, before, after):
    turn = _Turn()
    with lab_with(turn).inject(fault):
        assert turn.calls == before
    assert turn.calls == before + after


def test_who_is_interrupted_does_not_wait_for_a_place_to_undo():
    turn = _Turn()
    with pytest.raises(signals.Stopped), lab_with(turn).inject(StopProcess.of(pod("chaos-a"), container="c")):
        raise signals.Stopped("SIGINT")
    assert turn.calls == ["take_place"]


def test_looks_are_taken_in_a_place_and_windows_pass_without(monkeypatch):
    turn = _Turn()
    lab = lab_with(turn)
    lab._silent = lambda actors, deadline: turn.calls.append("looks") or []
    lab.phase = lambda *args, **kwargs: None
    monkeypatch.setattr("chaos.lab.pause", lambda seconds: turn.calls.append("lets time pass"))
    lab.functional_again({})
    lab.observe(20, why="a window")
    assert turn.calls == ["take_place", "looks", "leave_place", "leave_place", "lets time pass"]


def test_a_hold_leaves_the_place_and_the_undo_takes_it_again(monkeypatch):
    turn = _Turn()
    lab = lab_with(turn)
    held = SimpleNamespace(hold=lambda seconds: turn.calls.append(f"holds for {seconds} s"))
    with lab.inject(StopProcess.of(pod("chaos-a"), container="c")):
        lab.hold(held, 20)
    assert turn.calls == ["take_place", "leave_place", "holds for 20 s", "take_place"]


def test_from_the_steady_state_to_the_fault_the_place_is_kept():
    turn = _Turn()
    lab = lab_with(turn)
    lab._silent = lambda actors, deadline: turn.calls.append("looks") or []
    lab.phase, lab._ledger = lambda *args, **kwargs: None, None
    lab.steady({})
    assert turn.calls == ["take_place", "prepared", "looks"]
