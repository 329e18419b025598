"""One run in several processes: who is first, who waits, who is last, and that no other run gets in among them."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from chaos import locks
from chaos.errors import BusyError
from chaos.sharing import Member, runs, share
from chaos.waiting import until

ONE, TWO, THREE = (Member("the-run", f"gw{n}", os.getpid()) for n in range(3))
STRANGER = Member("another", "gw0", os.getpid())

# Tells each step that it is asked for: open, last, end.
PROCESS = """
import sys
from pathlib import Path
from chaos.sharing import Member, share
with share(Path(sys.argv[1]), Member("the-run", sys.argv[2], 1)) as part:
    print("first" if part.is_first else "joined", flush=True)
    for line in sys.stdin:
        if line.strip() == "open":
            part.open()
        print(part.is_last() if line.strip() == "last" else line.strip(), flush=True)
"""


class Process:
    def __init__(self, path, name):
        argv = [sys.executable, "-c", PROCESS, str(path), name]
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def hears(self):
        return self.child.stdout.readline().strip()

    def does(self, step):
        self.child.stdin.write(f"{step}\n")
        self.child.stdin.flush()
        return self.hears()

    def is_silent(self):
        os.set_blocking(self.child.stdout.fileno(), False)
        try:
            return self.child.stdout.readline() == ""
        finally:
            os.set_blocking(self.child.stdout.fileno(), True)

    def ends(self):
        self.child.stdin.close()
        assert self.child.wait(20) == 0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "locks" / "stack.lock"


@pytest.fixture
def process(path):
    made = []

    def start(name):
        made.append(Process(path, name))
        return made[-1]

    yield start
    for each in made:
        each.child.kill()
        each.child.wait()
        each.child.stdin.close()
        each.child.stdout.close()


def test_the_first_stands_up_the_others_wait_for_that_and_the_last_one_leaves(process, path):
    first = process("gw0")
    assert first.hears() == "first"
    second = process("gw1")
    with pytest.raises(BusyError), share(path, STRANGER, wait=0.5):  # meanwhile the second has come to ask
        pass
    assert second.is_silent()
    assert first.does("open") == "open"
    assert second.hears() == "joined"
    assert first.does("last") == "False"
    first.ends()
    assert runs(path.parent, "the-run")
    assert second.does("last") == "True"
    second.ends()
    assert path.read_text() == ""
    assert not runs(path.parent, "the-run")


def test_one_that_comes_late_has_a_part_like_the_others(path):
    with share(path, ONE) as first:
        first.open()
        with share(path, TWO) as second:
            assert not first.is_last()
            with share(path, THREE) as third:
                assert not third.is_first
                assert not second.is_last()
                assert third.is_last()


def test_when_all_have_ended_the_next_is_first_again(path):
    for _ in range(2):
        with share(path, ONE) as part:
            assert part.is_first
            part.open()
            assert part.is_last()


def test_who_fails_to_stand_up_leaves_it_to_the_next(process):
    first = process("gw0")
    assert first.hears() == "first"
    second = process("gw1")
    assert second.child.poll() is None
    first.ends()
    assert second.hears() == "first"


def test_who_dies_while_standing_up_leaves_it_to_the_next(process):
    first = process("gw0")
    assert first.hears() == "first"
    second = process("gw1")
    first.child.kill()
    assert second.hears() == "first"


def test_the_death_of_the_first_lets_no_other_run_in_and_keeps_nobody_from_ending(process, path):
    first = process("gw0")
    assert first.hears() == "first"
    first.does("open")
    second = process("gw1")
    assert second.hears() == "joined"
    first.child.kill()
    first.child.wait()
    assert locks.held(path)
    assert locks.abandoned(path) is None
    with pytest.raises(BusyError) as refused, locks.hold(path, who="run x"):
        pass
    assert "run the-run, in several processes" in str(refused.value)
    assert "kill 1`" in refused.value.fix, "the controller ends them all"
    assert second.does("last") == "True"


def test_all_dead_is_told_as_abandoned(process, path):
    only = process("gw0")
    assert only.hears() == "first"
    only.does("open")
    only.child.kill()
    only.child.wait()
    assert until(lambda: locks.abandoned(path), what="its name", deadline=5).run == "run the-run, in several processes"
    with share(path, STRANGER) as part:
        assert part.is_first


def test_another_run_is_waited_for_as_long_as_told_and_named_once(path):
    told = []
    with (
        locks.hold(path, who="run x"),
        pytest.raises(BusyError, match="run x"),
        share(path, ONE, wait=0.6, tell=told.append),
    ):
        pass
    assert len(told) == 1
    assert "waiting up to 0.6 s for run x" in told[0]


@pytest.mark.parametrize("looks", [False, True])
def test_however_they_come_and_go_each_time_one_is_first_and_one_is_last(path, looks):
    """Threads in the place of processes: a lock is that of its descriptor. Others may look meanwhile who holds it."""
    done = threading.Event()

    def look():
        while not done.is_set():
            locks.held(path)
            locks.abandoned(path)
            time.sleep(0.001)

    def take_part(number):
        with share(path, Member("the-run", f"gw{number}", 1)) as part:
            part.open()
            return part.is_first, part.is_last()

    looking = threading.Thread(target=look)
    if looks:
        looking.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(10):
                came = list(pool.map(take_part, range(4)))
                assert sum(first for first, _ in came) == sum(last for _, last in came) >= 1
                assert path.read_text() == ""
    finally:
        done.set()
        if looks:
            looking.join()
