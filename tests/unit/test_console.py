"""Console: what is printed in a pipe and drawn in a terminal, from any thread, and whatever the text is."""

import io
import re
import subprocess
import sys
import threading

import pytest

from chaos.console import Console
from chaos.errors import UsageError
from chaos.verdict import Evidence, Judgement, Outcome, Role, Verdict


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def out():
    return io.StringIO()


@pytest.fixture
def plain(out, clock):
    return Console(out, clock=clock)


def lines(out):
    return out.getvalue().splitlines()


def test_a_step_is_one_line_at_its_begin_and_one_at_its_end(plain, out, clock):
    with plain.step("Creating the kind cluster", expect=25):
        clock.now += 26.04
    assert lines(out) == ["Creating the kind cluster ... (about 25 s)", "Creating the kind cluster: done in 26.0 s"]


def test_steps_nest_and_a_failed_one_says_so(plain, out):
    with pytest.raises(RuntimeError), plain.step("outer"), plain.step("inner"):
        raise RuntimeError
    with plain.step("next"):
        pass
    assert lines(out) == [
        "outer ...",
        "  inner ...",
        "  inner: FAILED after 0.0 s",
        "outer: FAILED after 0.0 s",
        "next ...",
        "next: done in 0.0 s",
    ]


def test_a_long_step_says_what_it_waits_for_and_until_when(out, clock):
    class Told(io.StringIO):
        said = threading.Event()

        def write(self, text):
            written = super().write(text)
            if "still at it" in self.getvalue():
                self.said.set()
            return written

    out = Told()
    console = Console(out, clock=clock, heartbeat=0.05)
    with console.step("Head"), console.step("of the cluster", expect=20) as step:
        step.waiting("head ready", deadline=90)
        clock.now += 35
        assert out.said.wait(5)
    beats = {line for line in lines(out) if "still" in line}
    assert beats == {"  of the cluster: still at it, 35.0 s of about 20 s, waiting for head ready (at most 55 s more)"}


def test_no_heartbeat_outlives_its_step(out):
    console = Console(out, heartbeat=0.01)
    with console.step("short"):
        pass
    for thread in threading.enumerate():
        if thread.name == "heartbeat":
            thread.join(5)
            assert not thread.is_alive()


def test_what_was_said_replaces_what_was_waited_for(plain, clock):
    with plain.step("Images") as step:
        step.waiting("download", deadline=60)
        step.say("unpacking")
        clock.now += 3661
        assert step.progress() == "61 min 01 s, unpacking"
        step.waiting("import", deadline=60)
        clock.now += 100
        assert step.progress().endswith("waiting for import (at most 0 s more)")


def test_steps_of_other_threads_stand_below_the_step_they_belong_to(plain, out):
    both = threading.Barrier(2)

    def build(parent, name):
        with parent.step(name):
            both.wait(5)
            with plain.step(f"{name}, compiling"):
                both.wait(5)

    with plain.step("Building") as parent:
        threads = [threading.Thread(target=build, args=[parent, name]) for name in ("kubelet", "etcd")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen = lines(out)
    assert "  kubelet ..." in seen
    assert "    etcd, compiling ..." in seen
    assert seen[-1] == "Building: done in 0.0 s"


def test_many_threads_drive_a_terminal_without_a_deadlock(out):
    console = Console(out, live=True)

    def work(parent, number):
        for _ in range(20):
            with parent.step(f"image {number}") as step:
                step.say("compiling")
                console.info("a line")

    with console.step("Building") as parent:
        threads = [threading.Thread(target=work, args=[parent, n], daemon=True) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
    assert out.getvalue().count("✓") == 81


def test_a_terminal_shows_progress_in_place_and_leaves_one_line(out, clock):
    console = Console(out, live=True, clock=clock)
    with console.step("Cluster", expect=25) as step:
        step.waiting("CoreDNS", deadline=60)
        console._live.refresh()
    drawn = out.getvalue()
    assert "0.0 s of about 25 s, waiting for CoreDNS (at most 60 s more)" in drawn
    assert drawn.rstrip().rsplit("\n", 1)[-1].count("Cluster") >= 1
    assert "✓" in drawn


def test_an_error_says_what_to_do_without_markup_or_escape_sequences(plain, out):
    plain.fail(UsageError("bad [bold]name[/bold] \x1b[31m\x1b]0;title\x07red", fix="use another"))
    assert lines(out) == ["error: bad [bold]name[/bold] ]0;titlered", "what to do: use another"]


def test_an_unexpected_error_is_named(plain, out):
    plain.fail(KeyError("pod"))
    assert lines(out) == ["error: KeyError: 'pod'"]


def test_lines_are_not_broken_in_a_pipe(plain, out):
    plain.info("word " * 100)
    assert len(lines(out)) == 1


def verdict(**changes):
    base = {
        "claim": "FT-2",
        "experiment": "test_head",
        "arm": "force",
        "verdict": Outcome.HOLDS,
        "reason": "kept",
        "judgement": Judgement.AS_DOCUMENTED,
    }
    return Verdict(**{**base, **changes})


VERDICTS = [
    verdict(
        evidence=tuple(Evidence(n, 0.0, "") for n in range(5)),
        recovery_seconds={"functional": 17.24, "old_gone": 0.1, "started": 4.0},
    ),
    verdict(claim="FT-1", role=Role.CONTROL),
    verdict(claim="FT-13", verdict=Outcome.UNKNOWN, reason="no effect", judgement=Judgement.NONE),
    verdict(
        claim="OP-12", verdict=Outcome.BROKEN, reason="head gone", judgement=Judgement.KNOWN_DEFECT, reference="k#1"
    ),
]


HINT = " (no entry of the history decides it: see the logs in the run's folder)"


def test_the_closing_table_begins_with_the_worst_and_gives_reasons(plain, out):
    plain.table(VERDICTS)
    assert lines(out) == [
        "BROKEN   OP-12  test_head [force]  (known defect k#1)",
        "UNKNOWN  FT-13  test_head [force]",
        "HOLDS    FT-2   test_head [force]  started 4.0 s, functional 17.2 s  #0 #1 #2 +2",
        "HOLDS    FT-1   test_head [force] control",
        f"OP-12 [force] broken: head gone{HINT}",
        f"FT-13 [force] unknown: no effect{HINT}",
        "4 verdicts: 2 holds, 1 broken, 1 unknown",
    ]


@pytest.mark.parametrize("columns", [80, 110])
def test_the_table_fits_a_terminal(out, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    long = verdict(
        experiment="test_operator_killed_before_the_status_is_written",
        arm="status-write-refused",
        recovery_seconds={"last_worker_ready_again": 49.6, "functional": 47},
        evidence=tuple(Evidence(n, 0.0, "") for n in range(1000, 1012)),
    )
    Console(out, live=True).table([*VERDICTS, long])
    drawn = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in out.getvalue().splitlines()]
    table = drawn[: next(n for n, line in enumerate(drawn) if line.startswith("OP-12"))]
    assert max(map(len, table)) <= columns
    assert "#1000" in "".join(table)


def test_the_table_in_a_terminal_holds_the_same(out, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    Console(out, live=True).table(VERDICTS)
    drawn = out.getvalue()
    for part in ("OP-12", "known", "17.2 s", "+2", "control", "head gone", "no effect"):
        assert part in drawn


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_is_respected(monkeypatch, out, environment, coloured):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    Console(out, live=True).info("text", style="red")
    assert ("\x1b[31m" in out.getvalue()) is coloured


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"FORCE_COLOR": "1"}])
def test_neither_a_dumb_terminal_nor_a_forced_colour_brings_control_sequences_into_a_pipe(monkeypatch, variables):
    class Stream(io.StringIO):
        def isatty(self):
            return "FORCE_COLOR" not in variables

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    out = Stream()
    console = Console(out)
    with console.step("Cluster"):
        console.info("text", style="red")
    assert "\x1b" not in out.getvalue()


def test_losing_the_reader_does_not_end_the_run(tmp_path):
    script = """
import sys
from pathlib import Path
from chaos.console import Console
console = Console()
for _ in range(20000):
    console.info("x" * 50)
Path(sys.argv[1]).write_text("reached the end")
"""
    ended = tmp_path / "ended"
    child = subprocess.Popen([sys.executable, "-c", script, str(ended)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.readline()
    child.stdout.close()
    _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors, ended.read_text()) == (0, b"", "reached the end")


def test_what_the_stream_cannot_spell_does_not_end_the_run():
    raw = io.BytesIO()
    console = Console(io.TextIOWrapper(raw, encoding="ascii"))
    console.info("größer")
    assert raw.getvalue() == b"gr\\xf6\\xdfer\n"
