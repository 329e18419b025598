"""Whatever ends a run, and whenever: faults are undone exactly once, and what was seen until then is written.

A pytest of its own runs the real plugin, run, lab and injector on a stack that is a fake: an API server that has nothing,
and one fault that notes in a file when it is applied and undone. Only that process is looked at, from outside.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.faults.undo import UndoLog
from chaos.waiting import until

ROOT = Path(__file__).parents[2]
LIMIT = 15.0  # seconds from a signal to the end of the process

CONFTEST = '''
"""The stack, and the fault."""

import json, sys, threading, time, types
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kubernetes.client import ApiClient, Configuration

from chaos import reports, signals
from chaos.checks.base import check
from chaos.errors import StackError
from chaos.faults.base import Fault
from chaos.faults.undo import Undo, UndoLog, undoer
from chaos.process import Executed, run
from chaos.stack import stack
from chaos.stack.kind import StackFolder
from chaos.stack.record import StackRecord
from chaos.verdict import Finding, Outcome
from chaos.waiting import until

HERE = Path(__file__).parent
signals.END_SECONDS = 2.0  # the reports take their time too, on a machine that has much else to do


class Nothing(BaseHTTPRequestHandler):
    def do_GET(self):
        if "watch=true" in self.path:
            time.sleep(0.2)
            body = b""
        else:
            body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class FakeCluster:
    name = "fake"

    def __init__(self):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Nothing)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{server.server_address[1]}"
        self.api = ApiClient(configuration)

        self.namespaces = []

    def get(self, resource, namespace, name):
        if resource == "secrets":
            return {"data": {"password": "c2VjcmV0"}}
        if resource == "namespaces" and name in self.namespaces:
            return {"metadata": {"name": name, "uid": name, "labels": {"kuberay-chaos/owned": "true"}}}
        return None

    def apply(self, documents):
        self.namespaces += [d["metadata"]["name"] for d in documents if d["kind"] == "Namespace"]

    def list(self, *what):
        return []

    def exec(self, *what, **how):
        return Executed(0, b"master", b"")

    def delete(self, *what, **how):
        """Namespaces are asked to go, and stay."""

    def kubectl_command(self, argv):
        return ["kubectl", *argv]


def say(word):
    with (HERE / "steps").open("a") as file:
        file.write(word + "\\n")


def up(settings, console):
    say("up")
    if (HERE / "slow-up").exists():
        time.sleep(60)
    folder = StackFolder(HERE / "stack")
    folder.create()
    return types.SimpleNamespace(
        settings=settings, cluster=FakeCluster(), folder=folder, undo_log=UndoLog(folder.root / "undo.jsonl"),
        kind=types.SimpleNamespace(name="fake", nodes=list), engine=None,
        record=StackRecord("", "", "fake", {"kuberay": "1.6.2", "ray": "2.60.0"}, True, ""),
    )


stack.up = up

written = reports.html.render


def report(*args, **more):
    say("report")
    if (HERE / "slow-report").exists():
        time.sleep(1)
    if (HERE / "bad-report").exists():
        raise ZeroDivisionError("the page")
    return written(*args, **more)


reports.html.render = report


@undoer("mark", seconds=float)
def unmark(cluster, what):
    say("undoing")
    time.sleep(what["seconds"])
    say("undone")


@dataclass(frozen=True)
class Mark(Fault):
    undo_seconds: float = 0.0
    apply_seconds: float = 0.0

    name = "mark"
    target = property(lambda self: {})

    def undo(self, reach):
        return [Undo("mark", {"seconds": self.undo_seconds})]

    def apply(self, reach):
        say("applying")
        run(["sleep", str(self.apply_seconds)], timeout=90)
        say("applied")

    def prove(self, reach, since):
        return {"seen": True}


@undoer("stuck")
def never_undone(cluster, what):
    say("undoing")
    until(lambda: False, what="an answer", deadline=60, error=StackError)


@dataclass(frozen=True)
class Stuck(Mark):
    name = "stuck"

    def undo(self, reach):
        return [Undo("stuck", {})]


@dataclass(frozen=True)
class Lasting(Mark):
    """Undone at once, with an effect that goes on for long."""

    name = "lasting"

    def relieved(self, reach):
        return until(lambda: None, what="the end of the effect", deadline=60, error=StackError)


@check
def always(history):
    return Finding(Outcome.HOLDS, "it always does")


@check
def never_ends_well(history):
    raise ZeroDivisionError("in a check")


sys.modules["stand"] = sys.modules[__name__]
'''

EXPERIMENTS = """
import time
import pytest
from chaos.experiment import experiment
from chaos.settings import Level
from chaos.stack.cluster import _unless_ended
from stand import Lasting, Mark, Stuck, always, never_ends_well, say

@experiment(("FT-2", "gcs-ft"), seconds=1, level=Level.SMOKE)
def test_done_before(lab):
    with lab.inject(Mark()):
        pass
    lab.expect("FT-2", "gcs-ft", always())

{fixture}

@experiment(("FT-13", "black-hole"), seconds=1, level=Level.SMOKE)
def test_cut_short(lab):
{body}

@experiment(("FT-4", "gcs-ft"), seconds=1, level=Level.SMOKE)
def test_later(lab):
    say("later")
    lab.expect("FT-4", "gcs-ft", always())
"""

HELD = """
    with lab.inject(Mark({options})) as mark:
        say("held")
        mark.hold(60)
    lab.expect("FT-13", "black-hole", always())
"""


# Imports take longer than what is tested. One process does them, and each child is a fork of it; the plugin is left to the
# child, since it looks at its standard output when it is loaded.
NURSERY = """
import os, sys
from pathlib import Path
import pytest
import chaos.experiment, chaos.run
for line in sys.stdin:
    folder = Path(line.strip())
    if pid := os.fork():
        print(pid, flush=True)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        (folder / "code.part").write_text(str(code))
        (folder / "code.part").rename(folder / "code")
        continue
    os.chdir(folder)
    for number, name, how in ((0, os.devnull, os.O_RDONLY), (1, "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)):
        os.dup2(os.open(name, how), number)
    os.dup2(1, 2)
    os.environ["KUBERAY_CHAOS_STATE"] = str(folder / "state")
    sys.exit(pytest.main(["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--chaos-level=smoke", "--chaos-jobs=1"]))
"""


@pytest.fixture(scope="module")
def nursery():
    env = {key: value for key, value in os.environ.items() if key not in ("CI", "PYTEST_ADDOPTS")}
    command = [sys.executable, "-c", NURSERY]
    with subprocess.Popen(
        command, env=env | {"PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        process.stdin.close()


class Child:
    """A pytest in ``folder``, and what it left behind."""

    def __init__(self, nursery: subprocess.Popen[bytes], folder: Path, body: str, *, fixture: str = "") -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_it.py").write_text(EXPERIMENTS.format(fixture=fixture, body=body))
        self._nursery = nursery
        self._pid = 0

    def flag(self, name: str) -> None:
        (self.folder / name).touch()

    def start(self) -> None:
        self._nursery.stdin.write(f"{self.folder}\n".encode())
        self._nursery.stdin.flush()
        self._pid = int(self._nursery.stdout.readline())

    @property
    def code(self) -> int | None:
        path = self.folder / "code"
        return int(path.read_text()) if path.exists() else None

    def reaches(self, step: str, *, times: int = 1) -> None:
        def reached() -> bool:
            assert self.code is None, self.output
            return self.steps.count(step) >= times

        until(reached, what=f"{step}, {times} times", deadline=60, every=0.01)

    def tell(self, *numbers: signal.Signals, apart: float = 0.02) -> None:
        """Send the signals, ``apart`` seconds from each other."""
        os.kill(self._pid, numbers[0])
        for number in numbers[1:]:
            time.sleep(apart)
            os.kill(self._pid, number)

    def ends(self, *, within: float = LIMIT) -> int:
        until(lambda: self.code is not None, what="the end of pytest", deadline=within, every=0.01)
        assert self.code is not None
        return self.code

    def kill(self) -> None:
        if self._pid and self.code is None:
            os.kill(self._pid, signal.SIGKILL)

    @property
    def steps(self) -> list[str]:
        path = self.folder / "steps"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")

    @property
    def results(self) -> Path:
        return self.folder / "results" / "latest"

    @property
    def run(self) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.results / "run.json").read_text())
        return found

    @property
    def verdicts(self) -> dict[str, tuple[str, str]]:
        every = json.loads((self.results / "verdicts.json").read_text())
        return {v["experiment"]: (v["verdict"], v["reason"]) for v in every}

    @property
    def history(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.results / "history.jsonl").read_text().splitlines()]

    def assert_undone(self, faults: int) -> None:
        """Every fault that was applied is undone, once, in the history as in fact, and the undo log is settled."""
        assert self.steps.count("applying") == faults, self.output
        assert self.steps.count("undone") == self.steps.count("undoing") == faults, self.output
        told = [entry["step"] for entry in self.history if entry["what"] == "fault"]
        assert told.count("record") == told.count("undone") == faults, told
        assert UndoLog(self.folder / "stack" / "undo.jsonl").pending() == []

    def assert_reported(self) -> None:
        for name in ("run.json", "verdicts.json", "junit.xml", "summary.md", "report.html"):
            assert (self.results / name).stat().st_size, name
        assert "INTERNALERROR" not in self.output
        assert "Exception ignored" not in self.output


@pytest.fixture
def child(nursery, tmp_path):
    """A function that makes the child; it is ended with the test."""
    made = []

    def make(body: str = HELD.format(options=""), **more) -> Child:
        made.append(Child(nursery, tmp_path, body, **more))
        return made[-1]

    yield make
    for each in made:
        each.kill()


INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP

# --- signals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signals", "code"),
    [((INT,), 130), ((TERM,), 143), ((HUP,), 129), ((INT, INT), 130), ((TERM, TERM), 143), ((INT, TERM), 130)],
    ids=lambda value: "-".join(s.name for s in value) if isinstance(value, tuple) else "",
)
def test_a_signal_while_a_fault_is_in_force(child, signals, code):
    """The second comes within 50 ms; undoing takes longer than that."""
    running = child(HELD.format(options="undo_seconds=0.3"))
    running.start()
    running.reaches("held")
    running.tell(*signals)
    assert running.ends() == code, running.output
    running.assert_undone(2)
    running.assert_reported()
    assert running.run["interrupted"] == signals[0].name
    assert running.verdicts["done_before"][0] == "holds"
    assert running.verdicts["cut_short"] == (
        "unknown", f"the experiment ended in an error: interrupted: {signals[0].name}",
    )  # fmt: skip
    assert "later" not in running.steps


def test_a_signal_while_the_api_server_does_not_answer_and_what_cannot_be_undone(child):
    """A read blocks, so does the undo, and both would for a minute."""
    running = child("""
    with lab.inject(Stuck()):
        say("held")
        _unless_ended(lambda: time.sleep(60))
""")
    running.start()
    running.reaches("held")
    running.tell(INT)
    assert running.ends() == 130, running.output
    running.assert_reported()
    assert [undo.kind for _, _, undo in UndoLog(running.folder / "stack" / "undo.jsonl").pending()] == ["stuck"]
    assert running.verdicts["cut_short"][0] == "unknown"
    assert "later" not in running.steps


def test_who_interrupts_does_not_wait_for_the_end_of_an_effect_that_was_undone(child):
    running = child("""
    with lab.inject(Lasting()) as mark:
        say("held")
        mark.hold(60)
""")
    running.start()
    running.reaches("held")
    running.tell(TERM)
    assert running.ends() == 143, running.output
    running.assert_undone(2)
    [undone] = [e for e in running.history if e.get("fault") == "lasting" and e["step"] == "undone"]
    assert "the end of the effect" in undone["detail"]["not_seen"]


@pytest.mark.parametrize("apart", [0.0, 0.05])
def test_a_second_signal_while_the_first_is_still_being_dealt_with(child, apart):
    """Undoing takes no time here, so that the second comes at whatever else there is to do."""
    running = child()
    running.start()
    running.reaches("held")
    running.tell(TERM, TERM, apart=apart)
    assert running.ends() == 143, running.output
    running.assert_undone(2)
    running.assert_reported()


def test_a_second_signal_while_the_results_are_being_written(child):
    running = child()
    running.flag("slow-report")
    running.start()
    running.reaches("held")
    running.tell(TERM)
    running.reaches("report")
    running.tell(TERM)
    assert running.ends() == 143, running.output
    running.assert_undone(2)
    running.assert_reported()
    assert running.run["interrupted"] == "SIGTERM"


def test_a_signal_while_the_results_are_being_written(child):
    running = child("    lab.expect('FT-13', 'black-hole', always())\n")
    running.flag("slow-report")
    running.start()
    running.reaches("report")
    running.tell(TERM, INT)
    assert running.ends() == 143, running.output
    running.assert_undone(1)
    running.assert_reported()
    assert set(running.verdicts) == {"done_before", "cut_short", "later"}
    assert "Traceback" not in running.output


def test_a_signal_while_a_fault_is_being_applied(child):
    running = child(HELD.format(options="apply_seconds=60"))
    running.start()
    running.reaches("applying", times=2)
    running.tell(TERM, TERM)
    assert running.ends() == 143, running.output
    running.assert_undone(2)
    running.assert_reported()
    assert running.run["interrupted"] == "SIGTERM"


def test_a_signal_while_a_fault_is_being_undone(child):
    running = child("    with lab.inject(Mark(undo_seconds=0.5)):\n        pass\n")
    running.start()
    running.reaches("undoing", times=2)
    running.tell(INT, INT)
    assert running.ends() == 130, running.output
    running.assert_undone(2)
    running.assert_reported()
    assert running.run["interrupted"] == "SIGINT"


AROUND = """
@pytest.fixture(autouse=True)
def around(request, lab):
    if request.node.name != "test_cut_short":
        yield
        return
    with lab.inject(Mark(undo_seconds=0.2)):
        {first}
        yield
        {last}
"""


@pytest.mark.parametrize("where", ["first", "last"])
def test_a_signal_in_the_set_up_or_tear_down_of_an_experiment(child, where):
    held = {"first": "pass", "last": "pass", where: "say('held'); time.sleep(60)"}
    running = child("    lab.expect('FT-13', 'black-hole', always())\n", fixture=AROUND.format(**held))
    running.start()
    running.reaches("held")
    running.tell(TERM, TERM)
    assert running.ends() == 143, running.output
    running.assert_undone(2)
    running.assert_reported()
    assert running.run["interrupted"] == "SIGTERM"
    assert running.verdicts["done_before"][0] == "holds"


def test_a_signal_while_a_fixture_has_a_fault_in_force_and_the_experiment_runs(child):
    running = child(
        "    say('held')\n    lab.observe(60, why='it')\n", fixture=AROUND.format(first="pass", last="pass")
    )
    running.start()
    running.reaches("held")
    running.reaches("applied", times=2)
    running.tell(INT, TERM)
    assert running.ends() == 130, running.output
    running.assert_undone(2)
    running.assert_reported()


def test_an_interrupted_run_does_not_wait_for_namespaces_that_stay(child):
    running = child("    lab.namespace('stays')\n" + HELD.format(options=""))
    running.start()
    running.reaches("held")
    running.tell(INT)
    assert running.ends() == 130, running.output
    running.assert_undone(2)
    running.assert_reported()
    assert "still there: namespaces/chaos-cut-short-stays (not waited for); it is removed by: kubectl" in running.output


def test_a_signal_while_the_stack_is_being_stood_up(child):
    running = child()
    running.flag("slow-up")
    running.start()
    running.reaches("up")
    running.tell(TERM, TERM)
    assert running.ends() == 143, running.output
    assert running.steps == ["up"]
    assert not running.results.exists()
    assert "Traceback" not in running.output


# --- repetitions ----------------------------------------------------------------------------------------------------


def test_repetitions_share_a_run_and_have_names_namespaces_and_verdicts_of_their_own(child):
    running = child(
        "    say(lab.namespace_name('arm'))\n    with lab.inject(Mark()):\n        pass\n"
        "    assert not lab.writer.experiment.endswith('#2')\n"
        "    lab.expect('FT-13', 'black-hole', always())\n"
    )
    (running.folder / "pytest.ini").write_text("[pytest]\naddopts = --chaos-repeat=2\n")
    running.start()
    assert running.ends(within=60) == 2, running.output
    running.assert_undone(4)
    running.assert_reported()
    assert [step for step in running.steps if step.startswith("chaos-")] == [
        "chaos-cut-short-1-arm",
        "chaos-cut-short-2-arm",
    ]
    every = json.loads((running.results / "verdicts.json").read_text())
    assert [(v["experiment"], v["repetition"], v["verdict"]) for v in every] == [
        ("done_before", 1, "holds"), ("cut_short", 1, "holds"), ("later", 1, "holds"),
        ("done_before", 2, "holds"), ("cut_short", 2, "unknown"), ("later", 2, "holds"),
    ]  # fmt: skip
    rates = {r["experiment"]: r for r in json.loads((running.results / "rates.json").read_text())}
    assert (rates["later"]["holds"], rates["later"]["judged"]) == (2, 2)
    assert (rates["cut_short"]["holds"], rates["cut_short"]["judged"], rates["cut_short"]["unknown"]) == (1, 1, 1)
    assert running.run["repeat"] == 2
    assert "later [gcs-ft]  holds 2 of 2  (34 to 100 %)" in running.output
    assert "cut_short [black-hole]  holds 1 of 1, 1 unknown" in running.output


# --- errors ---------------------------------------------------------------------------------------------------------


def test_a_deadline_within_a_fault(child):
    running = child(
        "    with lab.inject(Mark()):\n        lab.seen(lambda e: False, what='never', deadline=0.2, since=0)\n"
    )
    running.start()
    assert running.ends(within=60) == 2, running.output
    running.assert_undone(2)
    running.assert_reported()
    assert running.run["interrupted"] == ""
    assert running.verdicts["cut_short"][0] == "unknown"
    assert "never: not seen within 0.2 s" in running.verdicts["cut_short"][1]
    assert running.verdicts["later"][0] == "holds", "the others go on"


@pytest.mark.parametrize("where", ["first", "last"])
def test_an_error_in_the_set_up_or_tear_down_of_an_experiment(child, where):
    fails = {"first": "pass", "last": "pass", where: "raise ZeroDivisionError('around')"}
    running = child("    lab.expect('FT-13', 'black-hole', always())\n", fixture=AROUND.format(**fails))
    running.start()
    assert running.ends(within=60) == 2, running.output
    running.assert_undone(2)
    running.assert_reported()
    assert running.verdicts["done_before"][0] == running.verdicts["later"][0] == "holds"
    assert "ZeroDivisionError: around" in running.output


def test_an_error_in_a_check(child):
    running = child(
        "    with lab.inject(Mark()):\n        pass\n    lab.expect('FT-13', 'black-hole', never_ends_well())\n"
    )
    running.start()
    assert running.ends(within=60) == 2, running.output
    running.assert_undone(2)
    running.assert_reported()
    assert running.verdicts["cut_short"] == ("unknown", "check never_ends_well raised ZeroDivisionError: in a check")


def test_an_error_in_a_report_leaves_the_others_and_is_told_in_one_message(child):
    running = child("    with lab.inject(Mark()):\n        pass\n    lab.expect('FT-13', 'black-hole', always())\n")
    running.flag("bad-report")
    running.start()
    assert running.ends(within=60) == 4, running.output
    running.assert_undone(2)
    assert {name for name, (verdict, _) in running.verdicts.items() if verdict == "holds"} == {
        "done_before", "cut_short", "later",
    }  # fmt: skip
    assert (running.results / "junit.xml").exists()
    assert "report.html could not be written: ZeroDivisionError: the page" in running.output
    assert "Traceback" not in running.output
