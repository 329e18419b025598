"""How verdicts become pytest's outcomes and the process's exit code. The run itself is a fake: no cluster, no record."""

import importlib
import io
import os
import signal
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from chaos import plugin, signals
from chaos.console import Console
from chaos.errors import BusyError, EngineError, StackError
from chaos.experiment import Declaration
from chaos.settings import Level
from chaos.turns import Part
from chaos.verdict import Judgement, Outcome, Verdict

# Loaded here, or every one of the sessions below would load them anew.
for module in ("chaos.console", "chaos.experiment"):
    importlib.import_module(module)

HOLDS = Verdict("FT-2", "", "gcs-ft", Outcome.HOLDS, "both workers survived")
BROKEN = replace(HOLDS, verdict=Outcome.BROKEN, reason="worker w1 was recreated", judgement=Judgement.NEW_FINDING)
KNOWN = replace(BROKEN, judgement=Judgement.KNOWN_DEFECT)
UNKNOWN = replace(HOLDS, verdict=Outcome.UNKNOWN, reason="a gap where it mattered")
NOT_OFFERED = replace(UNKNOWN, judgement=Judgement.NOT_APPLICABLE, reason="not offered by this version")


class FakeLab:
    def __init__(self, run, name):
        self.run, self.name, self.phases = run, name, []

    def phase(self, phase, **detail):
        for phases in (self.phases, self.run.phases):
            phases.append((phase, detail.get("error")))

    def take_turn(self):
        """Nobody is in the way."""


class FakeRun:
    """Gives the verdicts that a test put down; an experiment that ended in an error is unknown."""

    given: ClassVar = {}  # verdicts by experiment
    refuses = None  # what it raises when it is opened
    refuses_to_close = None
    opened: ClassVar = []

    def __init__(self, settings, console, member=None, shards=()):
        self.settings = settings
        self.shards = list(shards)
        self.folder = settings.results / "the-run"
        self.verdicts = []
        self.phases = []
        self.cut_short = None
        self.closed = False
        self.lab = types.SimpleNamespace()
        self.console = Console(io.StringIO())
        FakeRun.opened.append(self)

    def __enter__(self):
        if self.refuses is not None:
            raise self.refuses
        return self

    def __exit__(self, *error):
        self.closed = True
        if self.refuses_to_close is not None:
            raise self.refuses_to_close

    def begin(self, name, declared):
        self.phases.append(("begin", name))
        return FakeLab(self, name)

    def interrupted(self, by):
        self.cut_short = by

    def end(self, lab):
        name = lab.name
        self.phases.append(("end", name))
        error = next((detail for phase, detail in lab.phases if phase == "error"), None)
        found = self.given.get(name, [HOLDS])
        if error:
            found = [replace(v, verdict=Outcome.UNKNOWN, reason=f"ended in an error: {error}") for v in found]
        self.verdicts += found
        return found


@pytest.fixture
def run(monkeypatch):
    """The fake's class, in the place of the real one."""
    monkeypatch.setitem(sys.modules, "chaos.run", types.SimpleNamespace(Run=FakeRun))
    monkeypatch.setattr(signals, "_state", signals._State())
    for name, value in (("given", {}), ("refuses", None), ("refuses_to_close", None), ("opened", [])):
        monkeypatch.setattr(FakeRun, name, value)
    return FakeRun


@pytest.fixture
def experiments(pytester):
    """Write a file of experiments: their bodies by name."""

    def write(decorator='@experiment(("FT-2", "gcs-ft"), seconds=1, level=Level.SMOKE)', **bodies):
        lines = [
            "import os, signal", "import pytest", "from chaos.experiment import experiment",
            "from chaos.settings import Level", "from chaos.signals import pause",
        ]  # fmt: skip
        for name, body in bodies.items():
            lines += [decorator, f"def test_{name}(lab):", f"    {body}"]
        return pytester.makepyfile("\n".join(lines))

    return write


@pytest.fixture
def invoke(pytester, run):
    def call(*arguments):
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments)

    return call


@pytest.fixture
def terminal(monkeypatch, tmp_path):
    """A file in the place of the terminal to which the plugin writes past pytest's capture."""
    with (tmp_path / "terminal").open("w") as file:
        monkeypatch.setattr(plugin, "_terminal", file.fileno())
        yield tmp_path / "terminal"


# --- outcomes -------------------------------------------------------------------------------------------------------


def test_an_experiment_that_holds_passes(invoke, experiments, run):
    experiments(it="pass")
    result = invoke()
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    (opened,) = run.opened
    assert opened.phases == [("begin", "it"), ("end", "it")]
    assert opened.closed
    result.stdout.fnmatch_lines(["results: */the-run"])


def test_broken_is_a_failure_told_in_one_line_a_verdict(invoke, experiments, run):
    experiments(it="pass")
    run.given = {"it": [HOLDS, BROKEN]}
    result = invoke()
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FT-2 (gcs-ft) broken: worker w1 was recreated"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*chaos/plugin.py*")


def test_unknown_is_an_error_and_neither_a_failure_nor_a_skip(invoke, experiments, run):
    experiments(it="pass")
    run.given = {"it": [HOLDS, UNKNOWN]}
    result = invoke()
    result.assert_outcomes(errors=1)
    assert result.ret == 2
    result.stdout.fnmatch_lines(["FT-2 (gcs-ft) unknown: a gap where it mattered"])


def test_broken_outweighs_unknown(invoke, experiments, run):
    experiments(one="pass", other="pass")
    run.given = {"one": [UNKNOWN], "other": [BROKEN]}
    result = invoke()
    result.assert_outcomes(failed=1, errors=1)
    assert result.ret == 1


def test_junit_has_a_failure_for_broken_and_an_error_for_unknown(invoke, experiments, run, pytester):
    experiments(one="pass", other="pass")
    run.given = {"one": [UNKNOWN], "other": [BROKEN]}
    invoke("--junitxml=junit.xml")
    text = (pytester.path / "junit.xml").read_text()
    assert 'errors="1"' in text
    assert 'failures="1"' in text
    assert 'skipped="0"' in text


@pytest.mark.parametrize(
    ("verdicts", "arguments", "code"),
    [
        ([NOT_OFFERED, HOLDS], [], 0),
        ([KNOWN], [], 1),
        ([KNOWN, HOLDS], ["--chaos-accept-known"], 0),
        ([KNOWN, UNKNOWN], ["--chaos-accept-known"], 2),
        ([KNOWN, BROKEN], ["--chaos-accept-known"], 1),
    ],
)
def test_verdicts_decide_the_exit_code(invoke, experiments, run, verdicts, arguments, code):
    experiments(it="pass")
    run.given = {"it": verdicts}
    assert invoke(*arguments).ret == code


@pytest.mark.parametrize(
    "body", ["raise ValueError('three')", "assert 1 == 2", "pytest.fail('so')", "pytest.skip('not today')"]
)
def test_whatever_ends_an_experiment_before_its_end_leaves_it_unknown(invoke, experiments, run, body):
    experiments(it=body)
    result = invoke()
    result.assert_outcomes(errors=1)
    assert result.ret == 2
    (opened,) = run.opened
    assert [phase for phase, _ in opened.phases] == ["begin", "error", "end"]
    assert opened.cut_short is None
    assert opened.closed


def test_an_experiment_that_could_not_be_set_up_is_unknown(invoke, experiments, pytester):
    experiments(good="pass")
    pytester.makepyfile(
        test_bad="""
        import pytest
        from chaos.experiment import experiment

        @pytest.fixture
        def workload(lab):
            raise ValueError("did not start")

        @experiment(("FT-3", "delete"), seconds=1)
        def test_bad(workload):
            pass
        """
    )
    result = invoke()
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == 2


def test_another_test_that_fails_is_not_hidden_behind_verdicts_that_hold(invoke, experiments, pytester):
    experiments(it="pass")
    pytester.makepyfile(test_other="def test_other():\n    assert False")
    result = invoke()
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == 1


# --- what ends a session --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [EngineError("no Docker engine answers", fix="start it"), BusyError("in use by x")])
def test_without_a_stack_the_session_ends_with_one_message(invoke, experiments, run, problem):
    experiments(one="pass", other="pass")
    run.refuses = problem
    result = invoke()
    assert result.ret == 4
    result.stdout.fnmatch_lines([f"*{problem.args[0]}*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    assert len(run.opened) == 1, "it is not tried again for every experiment"


def test_an_experiment_that_does_not_ask_for_the_lab_needs_a_stack_as_well(invoke, pytester, run):
    pytester.makepyfile(
        """
        from chaos.experiment import experiment

        @experiment(("FT-2", "gcs-ft"), seconds=1)
        def test_it():
            pass
        """
    )
    run.refuses = StackError("no stack")
    result = invoke()
    assert result.ret == 4
    result.stdout.fnmatch_lines(["*no stack*"])


def test_a_fault_of_our_own_in_the_stand_up_is_told_once_and_is_exit_code_4(invoke, experiments, run):
    experiments(one="pass", two="pass", three="pass")
    run.refuses = TypeError("'NoneType' object is not iterable")
    result = invoke()
    assert result.ret == 4
    assert len(run.opened) == 1, "the stand-up is not tried again for every experiment"
    result.stdout.fnmatch_lines(["*could not be stood up: TypeError*"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--chaos-kuberay=9.9.9"],
        ["--chaos-level=all"],
        ["--chaos-results=/proc/nowhere"],
        ["--chaos-kubeconfig=pytest.ini"],
        ["--chaos-context=c"],
        ["--chaos-kubeconfig=missing", "--chaos-context=c"],
        ["--chaos-allow-fault=refuse-write"],
        ["--chaos-repeat=0"],
        ["--chaos-shard=3/2"],
        ["--chaos-shard=2/2"],
    ],
)
def test_a_wrong_option_ends_the_session_before_anything_is_touched(invoke, experiments, run, arguments):
    experiments(it="pass")
    result = invoke(*arguments)
    assert result.ret == 3
    assert run.opened == []
    result.stdout.no_fnmatch_line("*Traceback*")


MEET = "import threading; pytest.barrier = pytest.__dict__.setdefault('barrier', threading.Barrier(2)); pytest.barrier.wait(10)"


def test_experiments_run_side_by_side_and_are_told_in_order(invoke, experiments, run):
    experiments(first=MEET, second=MEET)
    run.given = {"second": [BROKEN]}
    result = invoke("--chaos-jobs=2")
    result.assert_outcomes(passed=1, failed=1)
    (opened,) = run.opened
    assert [name for phase, name in opened.phases[:2]] == ["first", "second"]
    assert opened.closed


def test_who_has_to_be_alone_begins_and_the_longest_of_the_others_follows():
    def item(name, seconds, *, disturbs=(), relies_on=tuple(Part)):
        marker = types.SimpleNamespace(
            args=[Declaration((), Level.CORE, seconds, frozenset(disturbs), frozenset(relies_on))]
        )
        return types.SimpleNamespace(name=name, get_closest_marker=lambda _: marker)

    items = [
        item("short", 60),
        item("operator away", 150, disturbs=[Part.OPERATOR], relies_on=[]),
        item("less long, without the operator", 190, relies_on=[Part.REDIS]),
        item("longest", 210),
        item("Redis lost", 100, disturbs=[Part.REDIS], relies_on=[]),
    ]
    assert [each.name for each in plugin._in_order(items)] == [
        "Redis lost",
        "operator away",
        "longest",
        "less long, without the operator",
        "short",
    ]


def test_a_signal_ends_all_that_run_and_begins_no_other(invoke, experiments, run):
    experiments(
        first="pause(60)", second=f"pause(0.5); os.kill(os.getpid(), {int(signal.SIGTERM)}); pause(60)", third="pass"
    )
    result = invoke("--chaos-jobs=2")
    assert result.ret == 143
    (opened,) = run.opened
    assert sorted(phase for phase, _ in opened.phases) == ["begin", "begin", "end", "end", "error", "error"]
    assert opened.cut_short == "SIGTERM"
    assert opened.closed


def test_the_options_and_variables_of_pytest_kind_and_kubectl_are_not_ours(
    invoke, experiments, run, pytester, monkeypatch
):
    for_others = pytester.path / "kubeconfig"
    for_others.write_text("of somebody else")
    monkeypatch.setenv("KUBECONFIG", str(for_others))
    experiments(it="pass")
    assert invoke(f"--kubeconfig={for_others}", "--cluster-name=other").ret == 0
    (opened,) = run.opened
    assert opened.settings.given is None
    assert opened.settings.name == "kuberay-chaos"
    assert for_others.read_text() == "of somebody else"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_session_in_order(invoke, experiments, run, number, code):
    experiments(it=f"os.kill(os.getpid(), {int(number)}); pause(60)", never="pass")
    result = invoke("--chaos-jobs=1")
    assert result.ret == code
    (opened,) = run.opened
    assert [phase for phase, _ in opened.phases] == ["begin", "error", "end"]
    assert opened.cut_short == number.name
    assert opened.closed


def test_a_signal_while_the_stack_is_being_stood_up_has_the_same_exit_code(invoke, experiments, run, monkeypatch):
    experiments(it="pass")
    monkeypatch.setattr(FakeRun, "__enter__", lambda self: os.kill(os.getpid(), signal.SIGTERM))
    assert invoke().ret == 143


def test_results_that_cannot_be_written_are_told_in_one_message(invoke, experiments, run, terminal):
    experiments(it="pass")
    run.refuses_to_close = StackError("no space for the report")
    result = invoke()
    assert result.ret == 4
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    assert terminal.read_text() == "error: no space for the report\n"


# --- levels ---------------------------------------------------------------------------------------------------------

LEVELS = """
from chaos.experiment import experiment
from chaos.settings import Level

@experiment(("FT-2", "a"), seconds=1, level=Level.SMOKE)
def test_quick(lab): pass

@experiment(("FT-2", "b"), seconds=1, level=Level.CORE)
def test_usual(lab): pass

@experiment(("FT-2", "c"), seconds=1, level=Level.FULL)
def test_long(lab): pass

def test_no_experiment(): pass
"""


@pytest.mark.parametrize(
    ("arguments", "passed", "left"),
    [
        (["--chaos-level=smoke"], 2, ["left to level core: test_usual", "left to level full: test_long"]),
        ([], 3, ["left to level full: test_long"]),
        (["--chaos-level=full"], 4, []),
    ],
)
def test_what_a_higher_level_runs_is_left_out_and_listed_at_the_end(invoke, pytester, arguments, passed, left):
    pytester.makepyfile(LEVELS)
    result = invoke(*arguments)
    result.assert_outcomes(passed=passed, deselected=len(left))
    assert [line for line in result.outlines if line.startswith("left to level")] == left
    assert result.ret == 0


def test_what_makes_nothing_of_the_users_manifest_is_left_out_and_listed(invoke, experiments):
    made = "lab.{}('a', ft=False) if hasattr(lab, 'made') else None"  # the lab of the runs here is a fake
    experiments(cluster=made.format("ray_cluster"), job=made.format("rayjob"), neither="pass")
    result = invoke(f"--chaos-rayjob={Path(__file__).parent / 'own/rayjob.yaml'}")
    result.assert_outcomes(passed=1, deselected=2)
    assert [line for line in result.outlines if line.startswith("makes no ")] == [
        "makes no RayJob: test_cluster", "makes no RayJob: test_neither",
    ]  # fmt: skip


# --- repetitions ----------------------------------------------------------------------------------------------------


def test_each_repetition_is_a_test_of_its_own_judged_by_itself(invoke, experiments, run):
    experiments(it="pass")
    run.given = {"it#2": [BROKEN], "it#3": [UNKNOWN]}
    result = invoke("--chaos-repeat=3", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    assert result.ret == 1, "the worst of all"
    (opened,) = run.opened
    assert sorted(name for phase, name in opened.phases if phase == "begin") == ["it#1", "it#2", "it#3"]


def test_one_that_is_broken_once_in_many_is_not_outvoted(invoke, experiments, run):
    experiments(it="pass")
    run.given = {"it#2": [UNKNOWN]}
    assert invoke("--chaos-repeat=5").ret == 2


def test_repetitions_come_in_rounds_of_all_experiments(invoke, pytester, run):
    pytester.makepyfile(
        """
        import pytest
        from chaos.experiment import experiment
        from chaos.turns import Part

        @experiment(("FT-2", "a"), seconds=5)
        @pytest.mark.parametrize("where", ["here", "there"])
        def test_short(lab, where):
            assert where in lab.name

        @experiment(("FT-2", "b"), seconds=9)
        def test_long(lab):
            pass

        @experiment(("FT-2", "c"), seconds=1, disturbs=[Part.NODES], relies_on=[])
        def test_alone(lab):
            pass
        """
    )
    result = invoke("--chaos-repeat=2", "--chaos-jobs=1")
    result.assert_outcomes(passed=8)
    (opened,) = run.opened
    begun = [name for phase, name in opened.phases if phase == "begin"]
    once = ["alone", "long", "short[here]", "short[there]"]
    assert begun == [f"{name}#{number}" for number in (1, 2) for name in once]


def test_tests_that_are_no_experiments_are_not_repeated(invoke, experiments, pytester):
    experiments(it="pass")
    pytester.makepyfile(test_other="def test_other(): pass")
    invoke("--chaos-repeat=2").assert_outcomes(passed=3)


def test_a_dry_run_tells_an_experiment_once_and_how_often(invoke, experiments, run, terminal):
    experiments(it="lab.namespace('arm')")
    assert invoke("--chaos-repeat=3", "--chaos-dry-run").ret == 0
    text = terminal.read_text()
    assert text.count("FT-2 (gcs-ft)") == 1
    assert "create namespace chaos-it-1-arm" in text
    assert "again, 3 times in all, each in namespaces of its own" in text
    assert run.opened == []


# --- shards ---------------------------------------------------------------------------------------------------------

THREE = """
from chaos.experiment import experiment
from chaos.settings import Level

@experiment(("FT-2", "a"), seconds=50)
def test_five(lab): pass

@experiment(("FT-2", "b"), seconds=30)
def test_three(lab): pass

@experiment(("FT-2", "c"), seconds=20)
def test_two(lab): pass

@experiment(("FT-2", "d"), seconds=1000, level=Level.FULL)
def test_long(lab): pass
"""


def begun(run):
    return sorted({name for opened in run.opened for phase, name in opened.phases if phase == "begin"})


def test_shards_divide_what_level_and_selection_leave(invoke, pytester, run):
    pytester.makepyfile(THREE)
    result = invoke("--chaos-shard=1/2")
    result.assert_outcomes(passed=1, deselected=3)
    assert begun(run) == ["five"]
    said = ["shard 1/2: 1 of 3 experiments, which take about 50 s of 100 s", "left to shard 2/2: three, two"]
    assert [line for line in result.outlines if line.startswith(("shard", "left to shard"))] == said
    assert run.opened[0].shards == said
    run.opened.clear()
    invoke("--chaos-shard=2/2", "--chaos-jobs=1").assert_outcomes(passed=2, deselected=2)
    assert begun(run) == ["three", "two"]
    run.opened.clear()
    invoke("--chaos-shard=2/2", "-k", "not three").assert_outcomes(passed=1, deselected=3)
    assert begun(run) == ["two"], "three is not counted"


def test_all_repetitions_of_an_experiment_are_in_one_shard(invoke, pytester, run):
    pytester.makepyfile(THREE)
    invoke("--chaos-shard=2/2", "--chaos-repeat=2").assert_outcomes(passed=4, deselected=4)
    assert begun(run) == ["three#1", "three#2", "two#1", "two#2"]


def test_a_shard_without_an_experiment_is_a_wrong_request(invoke, pytester, run):
    pytester.makepyfile(THREE)
    result = invoke("--chaos-shard=4/4")
    assert result.ret == 3
    result.stdout.fnmatch_lines(["*shard 4/4 would be empty: there are 3 experiments to divide*"])
    assert run.opened == []


def test_a_dry_run_of_a_shard_says_what_it_leaves(invoke, pytester, run, terminal):
    pytester.makepyfile(THREE)
    assert invoke("--chaos-shard=1/2", "--chaos-dry-run").ret == 0
    assert "left to shard 2/2: three, two\n" in terminal.read_text()
    assert "two: FT-2" not in terminal.read_text()


# --- where there is no experiment -----------------------------------------------------------------------------------


def test_a_session_without_experiments_is_left_alone(invoke, pytester, run):
    pytester.makepyfile("def test_it(): pass\ndef test_wrong(): assert False")
    result = invoke("--chaos-kuberay=9.9.9")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == 1
    assert run.opened == []
    assert not (pytester.path / "results").exists()


def test_the_run_is_opened_only_when_a_test_asks_for_it(invoke, experiments, run):
    experiments(it="pass")
    result = invoke("--collect-only")
    assert result.ret == 0
    assert run.opened == []
