"""Who may act at the same time as whom. Times are not asserted, only orders."""

import threading

import pytest

from chaos import signals
from chaos.lanes import Lanes, carried
from chaos.turns import Part, room, turn


def started(folder, entered, **parts):
    """A thread that takes a turn and keeps it until told to leave."""
    leave = threading.Event()

    def hold():
        with turn(folder, **{"disturbs": [], "relies_on": [], **parts}):
            entered.set()
            leave.wait(20)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    return thread, leave


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ({"relies_on": list(Part)}, {"relies_on": list(Part)}, True),
        ({"disturbs": [Part.OPERATOR]}, {"disturbs": [Part.REDIS]}, True),
        ({"disturbs": [Part.OPERATOR]}, {"relies_on": [Part.REDIS]}, True),
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


def test_no_more_have_room_than_there_are_places(tmp_path):
    third = threading.Event()

    def wait_for_room():
        with room(tmp_path, 2):
            third.set()

    thread = threading.Thread(target=wait_for_room, daemon=True)
    with room(tmp_path, 2):
        with room(tmp_path, 2):
            thread.start()
            assert not third.wait(0.5)
        assert third.wait(20)
    thread.join(20)


def test_a_turn_is_over_however_it_ends(tmp_path):
    with pytest.raises(RuntimeError), turn(tmp_path, disturbs=[Part.REDIS], relies_on=[]):
        raise RuntimeError
    with turn(tmp_path, disturbs=[Part.REDIS], relies_on=[]):
        pass


@pytest.fixture
def own_state(monkeypatch):
    monkeypatch.setattr(signals, "_state", signals._State())


@pytest.mark.usefixtures("own_state")
def test_a_run_that_ends_stops_its_threads_at_their_next_wait_once():
    seen = []
    began = threading.Event()

    def work(key):
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
def test_what_is_shielded_runs_to_its_end():
    ends = []
    began = threading.Event()

    def work(key):
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


class Machine:
    def __init__(self, cpus, mib):
        self.cpus, self.mib = cpus, mib

    def read(self, path):
        return f"MemTotal: 1 kB\nMemAvailable:   {self.mib * 1024} kB\n" if path == "/proc/meminfo" else None


@pytest.mark.parametrize(("cpus", "mib", "lanes"), [(2, 20000, 2), (2, 4000, 1), (8, 20000, 6), (2, 500, 1)])
def test_as_many_as_the_machine_carries(cpus, mib, lanes):
    assert carried(Machine(cpus, mib)) == lanes
