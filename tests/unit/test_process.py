"""Programs are run to their end or their deadline, and leave nothing behind."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chaos import signals
from chaos.errors import EngineError, ImageError, StackError
from chaos.process import Executed, run, run_logged
from chaos.waiting import until

# A child in the same group and one in a session of its own; both keep the output open for longer than any test.
WITH_CHILD = "sleep 300 & echo $! ; touch $READY ; {then}"
PATIENCE = 20  # seconds: far less than a program sleeps here, far more than its end takes on a busy machine
SLEEPER = 'echo $$ > "$1.part"; mv "$1.part" "$1"; exec sleep 300'
WITH_RUNAWAY = "setsid sh -c 'echo $$ ; touch $READY ; exec sleep 300' & {then}"


def alive(pid):
    """Whether the process still runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.fixture
def runaways():
    """Process ids to end after the test: those that left the group are out of reach for the code under test."""
    pids = []
    yield pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def ready(tmp_path, monkeypatch):
    """A program's time begins when it has made the file $READY: a busy machine may take long to get that far."""
    file = tmp_path / "ready"
    monkeypatch.setenv("READY", str(file))

    class Popen(subprocess.Popen):
        def __init__(self, *args, **keywords):
            super().__init__(*args, **keywords)
            until(file.exists, what="the program", deadline=60, every=0.01)

    monkeypatch.setattr(subprocess, "Popen", Popen)


@pytest.fixture
def own_signals(monkeypatch):
    """Signals of a test are none of the session that runs it."""
    monkeypatch.setattr(signals, "_state", signals._State())


@pytest.fixture
def interrupt_when(tmp_path, own_signals):
    """Call something with the name of a file, send SIGINT when a program has put its process id there; it must then end."""

    def call(work):
        pid_file = tmp_path / "pid"

        def interrupt():
            until(pid_file.exists, what="the program", deadline=5, every=0.02)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        sender = threading.Thread(target=interrupt)
        sender.start()
        try:
            work(pid_file)
        finally:
            sender.join()
            assert not alive(int(pid_file.read_text()))

    return call


def test_what_was_printed_and_the_exit_code_are_kept_apart():
    ended = run(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (ended.code, ended.stdout, ended.stderr, ended.ok) == (3, b"out\n", b"err\n", False)


def test_input_environment_and_folder_reach_the_program(tmp_path, monkeypatch):
    monkeypatch.setenv("INHERITED", "a")
    ended = run(["sh", "-c", "cat; echo $INHERITED$ADDED; pwd"], stdin=b"given ", env={"ADDED": "b"}, cwd=tmp_path)
    assert ended.text == f"given ab\n{tmp_path}\n"


def test_without_input_the_program_reads_none():
    assert run(["cat"], timeout=5).stdout == b""


def test_input_may_come_from_another_programs_pipe(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 300_000)
    with (tmp_path / "file").open("rb") as file:
        assert len(run(["cat"], stdin=file).stdout) == 300_000


def test_a_program_that_does_not_read_its_input_is_no_error():
    assert run(["true"], stdin=b"x" * 1_000_000).ok


def test_large_output_on_both_streams_does_not_block():
    script = "import sys; sys.stderr.write('e' * 300_000); sys.stdout.write('o' * 300_000)"
    ended = run([sys.executable, "-c", script])
    assert (len(ended.stdout), len(ended.stderr)) == (300_000, 300_000)


def test_a_signal_is_told_as_a_negative_code():
    assert run(["sh", "-c", "kill -TERM $$"], check=False).code == -signal.SIGTERM


def test_a_failure_is_raised_in_the_programs_own_words():
    with pytest.raises(EngineError) as failed:
        run(["sh", "-c", "echo no such network >&2; exit 1"], error=EngineError, fix="make one")
    assert "exited with 1: no such network" in str(failed.value)
    assert failed.value.fix == "make one"


@pytest.mark.parametrize("name", ["no-such-program", "/etc/passwd"], ids=["missing", "not executable"])
def test_what_cannot_be_started_is_an_error_and_no_traceback(name):
    with pytest.raises(StackError, match=f"{name} can't be run"):
        run([name])
    assert run([name], check=False).code is None


def test_at_the_deadline_the_end_was_not_seen_and_what_came_before_is_kept(ready):
    began = time.monotonic()
    ended = run(["sh", "-c", "echo before; echo said >&2; touch $READY; sleep 300"], timeout=0.3, check=False)
    assert time.monotonic() - began < PATIENCE
    assert ended.code is None
    assert ended.stdout == b"before\n"
    assert ended.error_text == "said\n\nno end within 0.3 s"


def test_the_deadline_ends_the_whole_group(ready):
    ended = run(["sh", "-c", WITH_CHILD.format(then="wait")], timeout=0.3, check=False)
    child = int(ended.text.split()[0])
    until(lambda: not alive(child), what="the end of the child", deadline=5, every=0.02)


def test_a_child_left_in_the_group_is_ended_when_its_parent_ended_by_itself(ready):
    ended = run(["sh", "-c", WITH_CHILD.format(then="exit 0")], timeout=0.3, check=False)
    assert ended.code is None
    until(lambda: not alive(int(ended.text.split()[0])), what="the end of the child", deadline=5, every=0.02)


@pytest.mark.parametrize("then", ["wait", "exit 0"])
def test_one_that_left_the_group_and_holds_the_output_holds_nobody_up(ready, runaways, then):
    began = time.monotonic()
    ended = run(["sh", "-c", WITH_RUNAWAY.format(then=then)], timeout=0.3, check=False)
    runaways.append(int(ended.text.split()[0]))
    assert time.monotonic() - began < PATIENCE
    assert ended.code is None
    assert alive(runaways[0]), "it was to be a process that the group's end does not reach"


def test_an_interrupt_ends_the_program(interrupt_when, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupt_when(lambda pid_file: run(["sh", "-c", SLEEPER, "sh", pid_file], timeout=10))


def test_an_interrupt_while_a_program_is_being_started_leaves_none(monkeypatch, own_signals):
    started = []

    class Popen(subprocess.Popen):
        def __init__(self, *args, **keywords):
            super().__init__(*args, **keywords)
            started.append(self)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    with pytest.raises(signals.Interrupted), signals.handled():
        run(["sleep", "300"], timeout=10)
    assert started[0].returncode == -signal.SIGKILL


# --- logged ---------------------------------------------------------------------------------------------------------


def test_a_thread_that_is_to_stop_ends_its_program(tmp_path, own_signals):
    ended = []

    def work():
        with signals.stoppable():
            try:
                run(["sh", "-c", SLEEPER, "sh", str(tmp_path / "pid")], timeout=300)
            except signals.Stopped:
                ended.append("stopped")

    thread = threading.Thread(target=work)
    thread.start()
    pid = until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), what="it", deadline=PATIENCE)
    signals.stop("so")
    thread.join(PATIENCE)
    assert ended == ["stopped"]
    assert not alive(int(pid))


def test_a_thread_that_may_be_stopped_still_hands_over_and_takes_all(own_signals):
    """Input and output of more than a pipe holds, from a program that takes longer than one look."""
    data, found = os.urandom(1 << 20), []

    def work():
        with signals.stoppable():
            found.append(run(["sh", "-c", "sleep 0.7; cat; sleep 0.3"], stdin=data, timeout=PATIENCE))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE)
    assert found == [Executed(0, data, b"")]


def test_lines_go_to_the_log_as_they_are_and_to_the_listener_as_text(tmp_path):
    log, heard = tmp_path / "logs" / "x.log", []
    run_logged(["printf", r"one\n\n\377two\r\nthree"], log=log, on_line=heard.append, timeout=5)
    assert log.read_bytes() == b"one\n\n\xfftwo\r\nthree"
    assert heard == ["one", "\ufffdtwo", "three"]


def test_a_later_run_is_appended(tmp_path):
    for word in ("first", "second"):
        run_logged(["echo", word], log=tmp_path / "log", timeout=5)
    assert (tmp_path / "log").read_text() == "first\nsecond\n"


def test_lines_are_heard_while_the_program_runs(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # The program goes on only when its first line has been heard.
    run_logged(
        ["sh", "-c", f"echo ready; read line < {fifo}; echo $line"],
        log=tmp_path / "log", on_line=lambda line: line == "ready" and fifo.write_text("heard\n"), timeout=10,
    )  # fmt: skip
    assert (tmp_path / "log").read_text() == "ready\nheard\n"


def test_a_failure_shows_the_last_lines_and_where_the_rest_is(tmp_path):
    with pytest.raises(ImageError) as failed:
        run_logged(["sh", "-c", "seq 100; exit 7"], log=tmp_path / "log", timeout=5, error=ImageError, fix="look")
    assert "exit code 7" in str(failed.value)
    assert str(tmp_path / "log") in str(failed.value)
    assert failed.value.args[0].splitlines()[1:] == [str(n) for n in range(86, 101)]
    assert failed.value.fix == "look"


def test_what_cannot_be_started_is_an_error_of_the_callers_kind(tmp_path):
    with pytest.raises(ImageError, match="no-such-program can't be run"):
        run_logged(["no-such-program"], log=tmp_path / "log", timeout=5, error=ImageError)


@pytest.mark.parametrize("program", ["yes", "sleep 300"], ids=["talking", "silent"])
def test_a_logged_program_ends_at_its_deadline(tmp_path, program):
    began = time.monotonic()
    with pytest.raises(StackError, match=r"no end within 0\.3 s"):
        run_logged(["sh", "-c", program], log=tmp_path / "log", timeout=0.3)
    assert time.monotonic() - began < PATIENCE


def test_a_line_that_was_begun_before_the_deadline_is_in_the_log(ready, tmp_path):
    with pytest.raises(StackError, match="no end within"):
        run_logged(
            ["sh", "-c", "echo partly; printf 'of a line'; touch $READY; sleep 300"],
            log=tmp_path / "log", timeout=0.3,
        )  # fmt: skip
    assert (tmp_path / "log").read_text() == "partly\nof a line"


@pytest.mark.parametrize("then", ["wait", "exit 0"])
def test_children_of_a_logged_program_end_with_it(ready, tmp_path, then):
    with pytest.raises(StackError, match="no end within"):
        run_logged(["sh", "-c", WITH_CHILD.format(then=then)], log=tmp_path / "log", timeout=0.3)
    child = int((tmp_path / "log").read_text().split()[0])
    until(lambda: not alive(child), what="the end of the child", deadline=5, every=0.02)


def test_a_logged_program_is_not_held_up_by_one_that_left_its_group(ready, tmp_path, runaways):
    began = time.monotonic()
    with pytest.raises(StackError, match="no end within"):
        run_logged(["sh", "-c", WITH_RUNAWAY.format(then="wait")], log=tmp_path / "log", timeout=0.3)
    assert time.monotonic() - began < PATIENCE
    runaways.append(int((tmp_path / "log").read_text().split()[0]))


def test_a_listener_that_fails_ends_the_program(tmp_path):
    def refuse(line):
        raise ValueError(line)

    with pytest.raises(ValueError, match=r"\d+") as refused:
        run_logged(["sh", "-c", "echo $$; sleep 300"], log=tmp_path / "log", on_line=refuse, timeout=10)
    assert not alive(int(str(refused.value)))


def test_an_interrupt_ends_a_logged_program(interrupt_when, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupt_when(
            lambda pid_file: run_logged(["sh", "-c", SLEEPER, "sh", pid_file], log=tmp_path / "log", timeout=10)
        )


# --- how it ended ---------------------------------------------------------------------------------------------------


def test_require_gives_the_output_or_names_what_failed():
    assert Executed(0, b"out", b"").require("asking") == b"out"
    with pytest.raises(StackError, match="asking: the command exited with 2: wrong"):
        Executed(2, b"out", b"wrong\n").require("asking")
    with pytest.raises(StackError, match="asking: the command did not end: gone"):
        Executed(None, b"", b"gone").require("asking")


def test_bytes_that_are_no_text_can_be_shown():
    assert Executed(0, b"\xffa", b"\xfeb").text == "\ufffda"
    assert Executed(0, b"\xffa", b"\xfeb").error_text == "\ufffdb"
