"""pytest-xdist: several worker processes, one stack, one exit code.

A pytest of its own with ``-n 2`` runs the real plugin, run, lab and injector on the fake stack of `test_ends`.
"""

import json
import os
import re
import signal
import subprocess
import sys
import types
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from chaos import plugin
from chaos.faults.undo import UndoLog
from chaos.settings import Settings
from chaos.verdict import Outcome, Verdict
from chaos.waiting import until
from chaos.workers import Told, Workers
from tests.unit.test_ends import CONFTEST

# Each session starts two worker processes: all of them together take minutes.
pytestmark = pytest.mark.level("core")

HOLDS, BROKEN, UNKNOWN = Outcome.HOLDS, Outcome.BROKEN, Outcome.UNKNOWN

ROOT = Path(__file__).parents[2]
LIMIT = 60.0

JOINED = """

def join(settings, console):
    say("join")
    return stood_up()


def up_or_not(settings, console):
    if (HERE / "no-up").exists():
        from chaos.errors import StackError
        say("up")
        raise StackError("no Docker engine answers", fix="start it")
    say("up")
    time.sleep(0.5)
    return stood_up()


def stood_up():
    folder = StackFolder(HERE / "stack")
    folder.create()
    return types.SimpleNamespace(
        cluster=FakeCluster(), folder=folder, undo_log=UndoLog(folder.undo_log),
        kind=types.SimpleNamespace(name="fake", nodes=list), engine=None,
        record=StackRecord("", "", "fake", {"kuberay": "1.6.2", "ray": "2.60.0"}, True, ""),
    )


def down(settings, console):
    say("down")


def meet(mine, other):
    (HERE / mine).touch()
    ends = time.monotonic() + 30
    while not (HERE / other).exists():
        assert time.monotonic() < ends, f"{other} never came"
        time.sleep(0.01)


stack.up, stack.join, stack.down = up_or_not, join, down


@check
def never(history):
    return Finding(Outcome.BROKEN, "it never does")
"""

HEAD = """
import os, signal, time
from chaos.errors import NoSteadyState
from chaos.experiment import experiment
from chaos.settings import Level
from chaos.turns import Part
from stand import HERE, Mark, always, meet, never, never_ends_well, say
"""

EXPERIMENT = """
@experiment(("FT-2", "{name}"), seconds=1, level=Level.SMOKE, disturbs=[{disturbs}], relies_on=[])
def test_{name}(lab):
{body}
"""


class Session:
    """A pytest with two workers in ``folder``, and what it left behind."""

    def __init__(self, folder: Path, *arguments: str, disturbs: str = "", **bodies: str) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "conftest.py").write_text(CONFTEST + JOINED)
        made = [
            EXPERIMENT.format(name=name, disturbs=disturbs, body="\n".join(f"    {line}" for line in body.splitlines()))
            for name, body in bodies.items()
        ]
        (folder / "test_it.py").write_text(HEAD + "".join(made))
        env = {key: value for key, value in os.environ.items() if key not in ("CI", "PYTEST_ADDOPTS")}
        env |= {"PYTHONPATH": str(ROOT), "KUBERAY_CHAOS_STATE": str(folder / "state")}
        options = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-n", "2", "--chaos-level=smoke"]
        with (folder / "output").open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, *arguments],
                cwd=folder,
                env=env,
                stdout=output,
                stderr=output,
            )

    def ends(self) -> int:
        code = self.process.wait(LIMIT)
        assert "INTERNALERROR" not in self.output, self.output
        return code

    def reaches(self, step: str, *, times: int = 1) -> None:
        until(lambda: self.steps.count(step) >= times, what=f"{step}, {times} times", deadline=LIMIT, every=0.02)

    @property
    def steps(self) -> list[str]:
        path = self.folder / "steps"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")

    @property
    def folders(self) -> list[Path]:
        return sorted(path for path in (self.folder / "results").iterdir() if not path.is_symlink())

    @property
    def verdicts(self) -> dict[str, str]:
        """By experiment, of all folders."""
        files = [folder / "verdicts.json" for folder in self.folders]
        every = [entry for file in files if file.exists() for entry in json.loads(file.read_text())]
        return {entry["experiment"]: entry["verdict"] for entry in every}

    @property
    def pending(self) -> list[str]:
        return [injection for injection, _, _ in UndoLog(self.folder / "stack" / "undo.jsonl").pending()]


@pytest.fixture
def session(tmp_path):
    """A function that starts such a pytest; it is ended with the test."""
    made = []

    def start(*arguments: str, **bodies: str) -> Session:
        made.append(Session(tmp_path, *arguments, **bodies))
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.process.terminate()
            each.process.wait(LIMIT)


FAULT = "with lab.inject(Mark()):\n    {inside}\nlab.expect('FT-2', '{name}', {check}())"


def body(name: str, inside: str = "pass", check: str = "always") -> str:
    return FAULT.format(name=name, inside=inside, check=check)


def test_workers_share_one_stack_and_tell_their_verdicts_together(session):
    """Each experiment waits within its fault for the other, so they are in two processes at the same time."""
    running = session(one=body("one", "meet('one', 'two')"), two=body("two", "meet('two', 'one')"))
    assert running.ends() == 0, running.output
    assert sorted(step for step in running.steps if step in ("up", "join", "down")) == ["join", "up"]
    assert running.steps.index("up") < running.steps.index("join")
    assert running.verdicts == {"one": "holds", "two": "holds"}
    assert running.pending == []
    ids = {
        entry["injection"] for entry in map(json.loads, (running.folder / "stack/undo.jsonl").read_text().splitlines())
    }
    assert ids == {"mark-1-gw0", "mark-1-gw1"}, "no two have a number in common"
    names = [folder.name for folder in running.folders]
    assert [name.rpartition("-")[2] for name in names] == ["gw0", "gw1"]
    assert len({name.rpartition("-")[0] for name in names}) == 1
    for folder in running.folders:
        assert f"results: {folder}" in running.output
        for name in ("run.json", "history.jsonl", "verdicts.json", "report.html", "progress.log"):
            assert (folder / name).stat().st_size, name
    assert len({json.loads((folder / "run.json").read_text())["seed"] for folder in running.folders}) == 1
    assert "2 verdicts: 2 holds" in running.output
    assert (running.folder / "state/locks/kuberay-chaos.lock").read_text() == ""


def test_repetitions_may_be_of_different_workers_and_their_rate_is_of_all(session):
    meets = "mine = lab.writer.experiment\nmeet(mine, {'one#1': 'one#2', 'one#2': 'one#1'}[mine])\n"
    running = session("--chaos-repeat=2", one=meets + body("one"))
    assert running.ends() == 0, running.output
    assert "one [one]  holds 2 of 2  (34 to 100 %)" in running.output
    for folder in running.folders:
        (rate,) = json.loads((folder / "rates.json").read_text())
        assert (rate["holds"], rate["repetitions"]) == (1, 1), "of this worker's alone"


def test_who_disturbs_a_part_is_alone_with_it_across_processes(session):
    inside = "say('in'); lab.observe(0.5, why='it'); say('out')"
    names = ("one", "two", "three", "four")
    running = session(disturbs="Part.REDIS", **{name: body(name, inside) for name in names})
    assert running.ends() == 0, running.output
    assert [step for step in running.steps if step in ("in", "out")] == ["in", "out"] * 4
    assert len(running.folders) == 2


def test_the_last_to_end_removes_the_stack_once(session):
    running = session(
        "--chaos-remove", one=body("one", "meet('one', 'two')"), two=body("two", "meet('two', 'one'); time.sleep(1)")
    )
    assert running.ends() == 0, running.output
    assert running.steps.count("down") == 1
    assert running.steps[-1] == "down"
    assert running.steps.count("report") == 2


def test_a_broken_claim_outweighs_an_unknown_one_also_when_the_first_failure_ends_the_session(session):
    bodies = {"one": body("one", check="never"), "two": body("two", check="never_ends_well")}
    running = session("-x", **bodies, three=body("three", check="never"))
    assert running.ends() == 1, running.output
    assert "broken" in running.verdicts.values()


def told(*outcomes, **more):
    verdicts = [Verdict("FT-2", "it", "gcs-ft", outcome, "so") for outcome in outcomes]
    return Told(
        **{"member": "gw0", "verdicts": verdicts, "unjudged": False, "failed_otherwise": False, "left_out": []} | more
    )


@pytest.mark.parametrize(
    ("first", "second", "of_pytest", "code"),
    [
        (told(HOLDS), told(HOLDS), 0, 0),
        (told(HOLDS), told(), 0, 0),
        (told(HOLDS), told(UNKNOWN), 1, 2),
        (told(BROKEN), told(UNKNOWN), 1, 1),
        (told(UNKNOWN), told(BROKEN), 2, 1),
        (told(HOLDS), told(HOLDS, failed_otherwise=True), 1, 1),
        (told(HOLDS), told(unjudged=True), 1, 2),
        (told(HOLDS), told(BROKEN, ended="SIGTERM", exit_code=143), 2, 143),
        (told(ended="no stack", exit_code=4), told(ended="no stack", exit_code=4), 2, 4),
        (told(HOLDS), told(HOLDS), 3, 3),
        (told(), told(), 5, 5),
        (told(), told(failed_otherwise=True), 1, 1),
        (told(), told(), 2, 2),
    ],
)
def test_what_all_workers_told_decides_the_exit_code(pytestconfig, tmp_path, first, second, of_pytest, code):
    ours = plugin._Session(pytestconfig)
    ours.settings = Settings()
    ours.workers = Workers(tmp_path)
    for name, each in (("gw0", first), ("gw1", second)):
        ours.workers.down(node(name, replace(each, member=name)))
    assert plugin._exit_status(ours, of_pytest) == code


def node(name, told=None):
    output = {"workeroutput": {"kuberay_chaos": json.dumps(asdict(told))}} if told else {}
    return types.SimpleNamespace(workerinput={"testrunuid": "a", "workerid": name}, **output)


def test_a_worker_that_ends_twice_is_heard_once_and_one_without_a_word_is_lost_if_it_had_a_run(tmp_path):
    workers = Workers(tmp_path)
    workers.prepare(node("gw0"))
    for _ in range(2):
        workers.down(node("gw0", told(HOLDS)))
    assert len(workers.verdicts) == 1
    workers.down(node("gw1"))
    assert not workers.lost, "of a session without experiments nothing is missing"
    folder = tmp_path / f"{workers.run}-gw1"
    folder.mkdir()
    assert workers.lost
    (folder / "verdicts.json").write_text(json.dumps([told(BROKEN).verdicts[0].as_json()]))
    assert [verdict.verdict for verdict in workers.verdicts] == [HOLDS, BROKEN], "what it has written still counts"


def test_an_experiment_that_ends_in_an_error_is_unknown(session):
    running = session(one=body("one"), two="raise NoSteadyState('not today')")
    assert running.ends() == 2, running.output
    assert running.verdicts == {"one": "holds", "two": "unknown"}
    assert "2 verdicts: 1 holds, 0 broken, 1 unknown" in running.output
    assert re.search(r"1 passed, 1 error", running.output)


def test_without_a_stack_the_session_ends_with_what_is_wrong(session, tmp_path):
    (tmp_path / "no-up").touch()
    running = session(one=body("one"), two=body("two"), three=body("three"))
    assert running.ends() == 4, running.output
    assert "no Docker engine answers" in running.output
    assert "what to do: start it" in running.output
    assert "Traceback" not in running.output
    assert running.steps.count("up") <= 2, "each worker at most once"


def test_a_wrong_option_ends_the_session_before_anything_is_touched(session):
    running = session("--chaos-kuberay=9.9.9", one=body("one"), two=body("two"))
    assert running.ends() == 3, running.output
    assert "9.9.9" in running.output
    assert running.steps == []


def test_another_run_that_has_the_stack_is_told(session, tmp_path):
    from chaos.locks import hold

    with hold(tmp_path / "state/locks/kuberay-chaos.lock", who="run another"):
        running = session(one=body("one"), two=body("two"))
        assert running.ends() == 4, running.output
    assert "in use by run another" in running.output
    assert running.steps == []


@pytest.mark.parametrize(("number", "code", "undo"), [(signal.SIGTERM, 143, 11.0), (signal.SIGINT, 130, 0.1)])
def test_a_signal_to_the_controller_ends_all_workers_in_order(session, number, code, undo):
    """Undoing may take longer than xdist itself would wait for the workers to end."""
    held = f"with lab.inject(Mark(undo_seconds={undo})) as mark:\n    say('held')\n    mark.hold(60)"
    running = session("--chaos-remove", one=held, two=held, three="say('later')")
    running.reaches("held", times=2)
    running.process.send_signal(number)
    assert running.ends() == code, running.output
    assert running.steps.count("undone") == 2
    assert running.pending == []
    assert running.steps[-1] == "down"
    assert "later" not in running.steps
    for folder in running.folders:
        assert f"results: {folder}" in running.output
        assert json.loads((folder / "run.json").read_text())["interrupted"] == number.name
    assert "2 verdicts: 0 holds, 0 broken, 2 unknown" in running.output


def test_a_signal_to_one_worker_ends_the_session_in_order(session):
    running = session(
        one="meet('one', 'two')\nos.kill(os.getpid(), signal.SIGTERM)\nlab.observe(60, why='it')",
        two="meet('two', 'one')\n" + body("two", "lab.observe(1, why='it')"),
    )
    assert running.ends() == 143, running.output
    assert running.verdicts == {"one": "unknown", "two": "holds"}
    assert running.pending == []


def test_a_worker_that_is_killed_is_never_green_and_what_it_left_can_be_healed(session):
    running = session(
        one=body("one", "meet('one', 'two'); os.kill(os.getpid(), signal.SIGKILL)"),
        two=body("two", "meet('two', 'one'); lab.observe(1, why='it')"), three=body("three"),
    )  # fmt: skip
    assert running.ends() == 2, running.output
    assert running.verdicts == {"two": "holds", "three": "holds"}
    assert [injection.rpartition("-")[0] for injection in running.pending] == ["mark-1"]
    assert (running.folder / "state/locks/kuberay-chaos.lock").read_text() == "", "the others ended in order"


def test_a_dry_run_is_told_once_and_in_order(session):
    running = session("--chaos-dry-run", one=body("one"), two=body("two"))
    assert running.ends() == 0, running.output
    assert [line for line in running.output.splitlines() if line.startswith(("one: ", "two: "))] == [
        "one: FT-2 (one); level smoke, about 1 s", "two: FT-2 (two); level smoke, about 1 s",
    ]  # fmt: skip
    assert running.steps == []


def test_what_a_higher_level_runs_is_listed_once(session, tmp_path):
    (tmp_path / "test_more.py").write_text(
        HEAD + EXPERIMENT.format(name="long", disturbs="", body="    pass").replace("Level.SMOKE", "Level.FULL")
    )
    running = session(one=body("one"), two=body("two"))
    assert running.ends() == 0, running.output
    assert running.output.count("left to level full: test_long") == 1


def test_a_session_without_experiments_is_left_alone(session, tmp_path):
    (tmp_path / "test_other.py").write_text("def test_it(): pass\ndef test_wrong(): assert False")
    running = session("--chaos-kuberay=9.9.9", "test_other.py", one=body("one"))
    assert running.ends() == 1, running.output
    assert running.steps == []
    assert not (tmp_path / "results").exists()
    assert "kuberay-chaos ===" not in running.output
