"""The pytest plugin: options, fixtures, and the way from a judged history to pytest's outcomes.

`broken` is a failure, `unknown` an error, never a skip or an xfail. The session's exit status is ours once an experiment
was selected: 0 all hold, 1 broken, 2 unknown, 3 usage, 4 no stack, 130/143 interrupted.

Every option has the prefix ``--chaos-``, since pytest-kind owns ``--kubeconfig`` and ``--cluster-name``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from chaos import workers
from chaos.errors import ChaosError, UsageError, own_fault
from chaos.experiment import MARKER, Declaration
from chaos.lanes import InOrder, Lanes, carried
from chaos.machine import LocalMachine
from chaos.repetition import in_words, named
from chaos.settings import RUN_OPTIONS, STACK_OPTIONS, Level, Settings
from chaos.shards import Shard, divide
from chaos.signals import Interrupted, Stopped, checkpoint, handled, raised, shielded
from chaos.turns import Part
from chaos.verdict import Outcome, Verdict, exit_code

if TYPE_CHECKING:
    from chaos.console import Console
    from chaos.lab import Lab
    from chaos.run import Run

LEVEL_MARKER = "level"
_PREFIX = "chaos_"
_REPETITION = "chaos_repetition"  # the parameter that tells the repetitions of one experiment apart
_LEVELS = list(Level)
_SESSION = pytest.StashKey["_Session"]()

# pytest captures file descriptor 1 before plugins are configured; progress is for the terminal behind it.
_terminal = os.dup(1)


class Broken(AssertionError):
    """An experiment saw a claim broken."""


class Unknown(Exception):
    """An experiment could not be judged."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kuberay-chaos", "chaos tests for KubeRay")
    for option in (*STACK_OPTIONS, *RUN_OPTIONS):
        if option.name != "select":  # pytest's own -k
            group.addoption(f"--chaos-{option.name}", **option.keywords(prefix=_PREFIX))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(declaration): an experiment, with the claims that it shows")
    config.addinivalue_line(
        "markers", f"{LEVEL_MARKER}(level): run from this level on; for tests that are no experiments"
    )
    config.stash[_SESSION] = _Session(config)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a repetition; its ID, such as ``[#2]``, stands behind those of other parameters."""
    if metafunc.definition.get_closest_marker(MARKER) is None:
        return
    try:
        repeat = metafunc.config.stash[_SESSION].settings.repeat
    except UsageError:  # told when all are collected
        return
    if repeat > 1:
        every = range(1, repeat + 1)
        metafunc.fixturenames.append(_REPETITION)
        metafunc.parametrize(_REPETITION, every, ids=[f"#{number}" for number in every])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a higher level or another shard runs, after pytest's own -k, and what makes nothing of the user's manifest.

    What was left out is told.
    """
    session = config.stash[_SESSION]
    levels = {item: of for item in items if (of := level(item))}
    if not levels:
        return
    try:
        wanted = _LEVELS.index(session.settings.level)
    except UsageError as wrong:
        _exit(config, wrong)
    for item in [item for item, of in levels.items() if _LEVELS.index(of) > wanted]:
        session.left_out[item] = f"left to level {level(item)}"
    if session.settings.own:
        session.left_out |= _not_about(session, [item for item in items if item not in session.left_out])
    items[:] = [item for item in items if item not in session.left_out]
    if session.left_out:
        config.hook.pytest_deselected(items=list(session.left_out))
    if session.settings.shard and (others := _others(config, items, session.settings.shard)):
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=list(others))


def _others(config: pytest.Config, items: list[pytest.Item], shard: Shard) -> set[pytest.Item]:
    """The experiments of other shards. All repetitions of one are in the same, so that its rate is of one run."""
    session = config.stash[_SESSION]
    experiments = {item: declared for item in items if (declared := declaration(item))}
    if not experiments:
        return set()
    seconds = {_once(item): declared.seconds for item, declared in experiments.items()}
    parts = divide(seconds, shard.of)
    mine = parts[shard.number - 1]
    if not mine:
        empty = f"shard {shard} would be empty: there are {len(seconds)} experiments to divide"
        _exit(config, UsageError(empty, fix="divide them into fewer parts"))
    total, own = sum(seconds.values()), sum(seconds[name] for name in mine)
    session.shards = [
        f"shard {shard}: {len(mine)} of {len(seconds)} experiments, which take about {own} s of {total} s",
        *(
            f"left to shard {Shard(number, shard.of)}: {', '.join(names)}"
            for number, names in enumerate(parts, 1)
            if names is not mine and names
        ),
    ]
    return {item for item in experiments if _once(item) not in mine}


def _not_about(session: _Session, items: list[pytest.Item]) -> dict[pytest.Item, str]:
    """The experiments that make nothing of what the user gave a manifest for, and why they are left out."""
    from chaos.rehearsal import made_by  # noqa: PLC0415

    own = session.settings.own
    no = f"no {' or '.join(own)}"
    found: dict[pytest.Item, str] = {
        item: f"makes {no}"
        for item in items
        if declaration(item) is not None
        and isinstance(item, pytest.Function)
        and not made_by(experiment_name(item), partial(_call, item), session.settings) & own.keys()
    }
    if found and not _has_reporter(session.config):
        names = dict.fromkeys(map(_once, found))
        session.console().info(f"left out, since they make {no}: {', '.join(names)}")
    return found


def declaration(item: pytest.Item) -> Declaration | None:
    """What an item declares to show; None when it is no experiment."""
    marker = item.get_closest_marker(MARKER)
    return marker.args[0] if marker else None


def level(item: pytest.Item) -> Level | None:
    """From which level on an item is run; None: always."""
    if declared := declaration(item):
        return declared.level
    marker = item.get_closest_marker(LEVEL_MARKER)
    return Level(marker.args[0]) if marker else None


class _Session:
    """The one run of this pytest session, opened when something first asks for it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.left_out: dict[pytest.Item, str] = {}  # and why
        self.shards: list[str] = []  # which part of the whole this is, and what is left to which other, a line each
        self.run: Run | None = None
        self.failure: ChaosError | None = None
        self.failed_otherwise = False  # a test that is no experiment failed: verdicts don't speak of it
        self.unjudged = False  # an experiment failed around its own body, where nothing judges it
        self.told = False  # in a dry run
        self.member = workers.member(config)  # of an xdist run, when this process is a worker of one
        self.workers = workers.Workers(
            Path(os.path.expanduser(config.getoption(f"{_PREFIX}results") or "results")).absolute()
        )
        self.signals = ExitStack()  # how signals are handled, from the first test until all is written
        self._closing = ExitStack()

    @cached_property
    def lanes(self) -> Lanes[pytest.Function, tuple[list[Verdict], BaseException | None]]:
        """Where experiments run; they are ended before the run is closed."""
        lanes: Lanes[pytest.Function, tuple[list[Verdict], BaseException | None]] = Lanes(
            1 if self.member else self.settings.jobs or carried(LocalMachine())
        )
        self._closing.callback(lanes.close, "the session ended")
        return lanes

    @cached_property
    def settings(self) -> Settings:
        """Read when an experiment wants them: this plugin is loaded by every pytest, also where nobody wants results."""
        settings = Settings.from_args(self.config.option, prefix=_PREFIX)
        if self.member and not self.config.getoption(f"{_PREFIX}seed"):
            return replace(settings, seed=workers.seed(self.config))
        return settings

    def console(self) -> Console:
        """What is told goes to the terminal; a worker has none, and tells its progress in its folder."""
        from chaos.console import Console  # noqa: PLC0415  # rich is heavy, and this plugin is loaded by every pytest

        if self.member:
            folder = self.settings.results / f"{self.member.run}-{self.member.name}"
            folder.mkdir(exist_ok=True)
            return Console((folder / "progress.log").open("a", buffering=1))
        return Console(os.fdopen(os.dup(_terminal), "w", buffering=1))

    @property
    def verdicts(self) -> list[Verdict]:
        """This process's, and those of its workers."""
        return [*(self.run.verdicts if self.run else ()), *self.workers.verdicts]

    def open(self) -> Run:
        if self.failure is not None:
            raise self.failure
        if self.run is None:
            from chaos.run import Run  # noqa: PLC0415

            try:
                self.run = self._closing.enter_context(Run(self.settings, self.console(), self.member, self.shards))
            except ChaosError as problem:
                self.failure = problem
                raise
            except Exception as fault:  # ours, not the machine's: tried once, told in one message
                self.failure = own_fault("the stack could not be stood up", fault)
                raise self.failure from fault
        return self.run

    def close(self) -> None:
        self._closing.close()


@pytest.fixture(scope="session")
def chaos_run(pytestconfig: pytest.Config) -> Run:
    """The run: the stack is up, the record is on. Without a stack the session ends, with one clear message."""
    return _open(pytestconfig)


def _open(config: pytest.Config) -> Run:
    try:
        return config.stash[_SESSION].open()
    except ChaosError as problem:
        _exit(config, problem)


def _has_reporter(config: pytest.Config) -> bool:
    """Whether pytest itself tells what went wrong, for a worker in the controller; the command's `run` leaves that to us."""
    return config.pluginmanager.has_plugin("terminalreporter") or config.stash[_SESSION].member is not None


def _exit(config: pytest.Config, problem: ChaosError) -> NoReturn:
    """End the session with one message, which pytest's terminal reporter prints if there is one."""
    config.stash[_SESSION].failure = problem
    if not _has_reporter(config):
        config.stash[_SESSION].console().fail(problem)
    pytest.exit(str(problem), returncode=problem.exit_code)


@pytest.fixture
def lab(chaos_run: Run) -> Lab:
    """What an experiment works with."""
    return chaos_run.lab


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    """In a dry run nothing is set up, and experiments are told in the order in which they would begin."""
    session = item.config.stash[_SESSION]
    if not item.config.getoption(f"{_PREFIX}dry_run"):
        return None
    if not session.told:
        session.told = True
        try:
            _tell(session, [each for each in item.session.items if isinstance(each, pytest.Function)])
        except ChaosError as problem:
            _exit(item.config, problem)
    return True


def _tell(session: _Session, items: list[pytest.Function]) -> None:
    from chaos.faults.known import require_known  # noqa: PLC0415
    from chaos.rehearsal import rehearse, tell_stand_up  # noqa: PLC0415

    say = session.console().info
    for name in session.settings.allow_faults:
        require_known(name)
    tell_stand_up(session.settings, say)
    for line in session.shards:
        say(line)
    for item in _in_order([each for each in items if declaration(each)]):
        declared = declaration(item)
        assert declared is not None
        if _repetition(item) in (None, 1):
            rehearse(experiment_name(item), declared, partial(_call, item), session.settings, say)
            if (times := session.settings.repeat) > 1:
                say(f"  again, {times} times in all, each in namespaces of its own")
    for item in items:
        if not declaration(item):
            say(f"\n{item.name} is no experiment and can't be told")


def _parameters(item: pytest.Item) -> Mapping[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _call(item: pytest.Function, lab: Lab) -> object:
    parameters = {name: value for name, value in _parameters(item).items() if name != _REPETITION}
    return item.obj(**{**parameters, "lab": lab})


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Run an experiment between its begin and its end, and judge it from the history; others run beside it."""
    if declaration(pyfuncitem) is None:
        return None
    session, run = pyfuncitem.config.stash[_SESSION], _open(pyfuncitem.config)
    try:
        if pyfuncitem not in session.lanes:
            session.lanes.start(_in_order(_following(pyfuncitem)), partial(_perform, run))
        verdicts, failure = session.lanes.result(pyfuncitem)
    except BaseException as interrupt:
        session.lanes.close(str(interrupt) or type(interrupt).__name__)
        run.interrupted(str(interrupt) or type(interrupt).__name__)
        raise
    _raise_outcome(verdicts, failure)
    return True


def _following(item: pytest.Function) -> list[pytest.Function]:
    """The item and the experiments right behind it: what stands between them and the next is no experiment.

    A worker is given one after the other, and what stands behind may be another worker's.
    """
    if item.config.stash[_SESSION].member:
        return [item]
    items = item.session.items
    behind = items[items.index(item) :]
    return [each for each in takewhile(declaration, behind) if isinstance(each, pytest.Function)]


def _in_order(items: list[pytest.Function]) -> list[pytest.Function]:
    """Those that need to be alone with something first, then the longest, so that the last ones to end are short.

    Without the operator no Ray cluster starts: who takes it away goes behind those that only need theirs to have started.
    Repetitions come in rounds, so that a run which is cut short has some of each.
    """

    def urgency(item: pytest.Function) -> tuple[int, bool, bool, int]:
        declared = declaration(item)
        assert declared is not None
        needs = declared.disturbs | declared.relies_on if declared.disturbs else ()
        return _repetition(item) or 0, not declared.disturbs, Part.OPERATOR in needs, -declared.seconds

    return sorted(items, key=urgency)


def _perform(run: Run, item: pytest.Function, in_order: InOrder) -> tuple[list[Verdict], BaseException | None]:
    """One experiment from begin to end, in a thread of its own: its verdicts, and what ended it early, if anything did.

    Turns are asked for ``in_order``, or one that was to begin later could take the operator from those before it.
    """
    declared = declaration(item)
    assert declared is not None
    name = experiment_name(item)
    with run.console.step(in_words(name).replace("_", " "), expect=declared.seconds):
        lab = run.begin(name, declared)
        failure: BaseException | None = None
        try:
            with in_order:
                lab.take_turn()
            _call(item, lab)
            checkpoint()
        except Stopped as stopped:  # told by the main thread, which raises what stopped it
            failure = stopped
            lab.phase("error", error=f"interrupted: {stopped}")
        except BaseException as problem:  # whatever ended it, what it declared is unknown, with the error as data
            failure = problem
            lab.phase("error", error=f"{type(problem).__name__}: {problem}")
        with shielded():
            return run.end(lab), failure


def experiment_name(item: pytest.Item) -> str:
    """What it is called in the history, see `chaos.repetition`."""
    return named(_once(item), _repetition(item))


def _repetition(item: pytest.Item) -> int | None:
    found = _parameters(item).get(_REPETITION)
    return found if isinstance(found, int) else None


def _once(item: pytest.Item) -> str:
    """Its name as if it ran once: ``test_it[a-#2]`` is ``it[a]``."""
    return _unnumbered(item).removeprefix("test_")


def _unnumbered(item: pytest.Item) -> str:
    return item.name if _repetition(item) is None else re.sub(r"\[#\d+\]$|-#\d+(?=\]$)", "", item.name)


def _raise_outcome(verdicts: list[Verdict], failure: BaseException | None) -> None:
    broken = [v for v in verdicts if v.verdict is Outcome.BROKEN]
    unknown = [v for v in verdicts if v.verdict is Outcome.UNKNOWN]
    if broken:
        raise Broken("\n".join(_sentence(v) for v in broken)) from failure
    if unknown:
        raise Unknown("\n".join(_sentence(v) for v in unknown)) from failure
    if failure is not None:
        raise failure


def _sentence(verdict: Verdict) -> str:
    return f"{verdict.claim} ({verdict.arm}) {verdict.verdict}: {verdict.reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """An `unknown` is reported as an error, which pytest reserves for what went wrong around a test."""
    report = yield
    judged = call.excinfo is not None and call.excinfo.errisinstance((Broken, Unknown))
    if judged and call.excinfo is not None:
        report.longrepr = str(call.excinfo.value)
        if call.excinfo.errisinstance(Unknown):
            report.when = "setup"
    elif report.failed:
        ours = item.config.stash[_SESSION]
        if declaration(item) is not None:
            ours.unjudged = True
        else:
            ours.failed_otherwise = True
        if not _has_reporter(item.config):
            ours.console().info(f"{item.name} ({report.when}): {report.longreprtext}")
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """From here on signals end the session in order."""
    session.config.stash[_SESSION].signals.enter_context(handled())
    return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_SESSION].signals.close()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
    """Close the run, and let its verdicts decide how the process exits.

    What an interrupt cut short has its fixtures torn down within the yield. They may hold faults, so the record goes on.
    """
    ours = session.config.stash[_SESSION]
    if interrupt := raised():
        ours.workers.interrupt(interrupt.exit_code - 128)
    try:
        yield
    except (Exception, Interrupted) as problem:
        if not isinstance(problem, Interrupted):
            ours.unjudged = True
            ours.console().info(f"tear-down: {type(problem).__name__}: {problem}")
    with suppress(Interrupted), shielded():
        session.exitstatus = _closed(ours, exitstatus)
    if interrupt := raised():
        session.exitstatus = interrupt.exit_code
    if ours.member:
        workers.tell(session.config, _told(ours, ours.member.name))


def _closed(ours: _Session, exitstatus: int) -> int:
    """Close the run; the exit status."""
    if ours.run and (interrupt := raised()):
        ours.run.interrupted(str(interrupt))
    try:
        ours.close()
    except ChaosError as problem:
        ours.failure = problem
    except Exception as fault:  # ours; the session has a summary to print all the same
        ours.failure = own_fault("the run could not be closed", fault)
    else:
        _show(ours)
        return _exit_status(ours, exitstatus)
    ours.console().fail(ours.failure)
    return ours.failure.exit_code


def _show(ours: _Session) -> None:
    """What the workers came to, as a run of one process shows it itself."""
    if folders := ours.workers.folders:
        ours.console().table(ours.workers.verdicts)
        for folder in folders:
            ours.console().info(f"results: {folder}")


def _told(ours: _Session, name: str) -> workers.Told:
    """What this worker came to, for the controller."""
    ended: Interrupted | ChaosError | None = raised() or ours.failure
    return workers.Told(
        member=name,
        verdicts=ours.run.verdicts if ours.run else [],
        unjudged=ours.unjudged,
        failed_otherwise=ours.failed_otherwise,
        left_out=_left_out(ours),
        ended=str(ended) if ended else "",
        exit_code=ended.exit_code if ended else 0,
    )


def _exit_status(ours: _Session, exitstatus: int) -> int:
    """What the verdicts make of pytest's own exit status; no verdict, or another end than tests had, leaves it."""
    told = ours.workers.told
    if ended := [each.exit_code for each in told if each.ended]:
        return ended[0]
    unjudged = ours.unjudged or ours.workers.lost or any(each.unjudged for each in told)
    # With -x it is xdist that ends the session, in the way of an interrupt.
    of_tests = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, *([pytest.ExitCode.INTERRUPTED] if told else ()))
    if exitstatus not in of_tests or not (ours.verdicts or unjudged):
        return exitstatus
    if ours.failed_otherwise or any(each.failed_otherwise for each in told):
        return 1
    of_verdicts = exit_code(ours.verdicts, accept_known=ours.settings.accept_known)
    return 2 if unjudged and of_verdicts == 0 else of_verdicts


def _left_out(ours: _Session) -> list[str]:
    return [*ours.shards, *dict.fromkeys(f"{why}: {_unnumbered(item)}" for item, why in ours.left_out.items())]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Where the results are, and what a higher level or another shard would have run besides."""
    session = config.stash[_SESSION]
    folders = [session.run.folder] if session.run else session.workers.folders
    if folders:
        terminalreporter.section("kuberay-chaos")
    for folder in folders:
        terminalreporter.write_line(f"results: {folder}")
    every = dict.fromkeys([*_left_out(session), *(line for told in session.workers.told for line in told.left_out)])
    for line in every:
        terminalreporter.write_line(line)


# --- pytest-xdist, where it is installed --------------------------------------------------------------------------------


def pytest_cmdline_main(config: pytest.Config) -> None:
    """A dry run is one process's: what is told is told once, in order."""
    if config.getoption(f"{_PREFIX}dry_run") and hasattr(config.option, "numprocesses"):
        config.option.numprocesses, config.option.dist, config.option.tx = 0, "no", []


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.config.stash[_SESSION].workers.prepare(node)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_SESSION].workers.down(node)
