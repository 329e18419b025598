"""The command: one verb, one function.

``run`` is pytest with our plugin and good defaults; everything else works on the stack or on files. Whatever goes wrong ends
as one message and the exit code of its kind (`chaos.errors`).
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from chaos import __version__
from chaos.console import Console
from chaos.errors import ChaosError, EngineError, StackError, UsageError, own_fault
from chaos.locks import hold
from chaos.settings import RUN_OPTIONS, STACK_OPTIONS, Option, Settings, add_run_arguments, add_stack_arguments
from chaos.signals import HANDLED, Interrupted, handled

MEANINGS = {
    0: "every claim holds, or isn't applicable to these versions",
    1: "a claim is broken",
    2: "nothing is broken, but something could not be judged",
    3: "the request was wrong; nothing was touched",
    4: "the stack could not be stood up, or kuberay-chaos itself failed",
    130: "interrupted; faults were undone and results written",
    143: "terminated; faults were undone and results written",
}


# Errors of the system that are about the path that was given.
_WRONG_PATH = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM}


class _Parser(argparse.ArgumentParser):
    def __init__(self, **more: Any) -> None:
        # A mistyped option must not be taken for another that begins alike.
        super().__init__(**{"allow_abbrev": False, **more})

    def error(self, message: str) -> None:  # type: ignore[override]  # it raises, as the original exits
        raise UsageError(message, fix=f"`{self.prog} --help` lists what there is")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the process's exit code."""
    _open_closed_streams()
    try:
        with handled():
            arguments = _parser().parse_args(argv)
            verb: Callable[[argparse.Namespace, Console], int] = arguments.verb
            return verb(arguments, Console())
    except ChaosError as problem:
        return _failed(problem)
    except Interrupted as interrupt:
        Console().info(f"interrupted by {interrupt}")
        return interrupt.exit_code
    except BrokenPipeError:
        _stop_printing()
        return 141
    except OSError as problem:
        return _failed(_of_the_system(problem))
    except Exception as fault:
        return _failed(own_fault("nothing more was done", fault))


_PROCESS = ExitStack()  # never closed: what it holds is for as long as the process lives


def command() -> NoReturn:
    """The process: `main`, and a second signal, or one that comes when all is done, changes nothing about how it ends."""
    _PROCESS.enter_context(handled())
    code = main()
    for number in HANDLED:
        signal.signal(number, signal.SIG_IGN)
    try:
        sys.stdout.flush()
    except OSError as problem:  # what was printed last could not be written
        code = 141 if isinstance(problem, BrokenPipeError) else _failed(_of_the_system(problem))
        _stop_printing()
    sys.exit(code)


def _stop_printing() -> None:
    """What is still to be printed goes nowhere: Python would try once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(problem: ChaosError) -> int:
    Console(sys.stderr).fail(problem)
    return problem.exit_code


def _of_the_system(problem: OSError) -> ChaosError:
    """What the system refused and nobody expected: of a path that was given, or of this machine."""
    what = f"{str(problem.filename)[:200]}: {problem.strerror}" if problem.filename else str(problem)
    if problem.errno in _WRONG_PATH:
        return UsageError(what, fix="give another path")
    return StackError(what, fix="look at permissions, free space and limits of this machine")


def _open_closed_streams() -> None:
    """A stream that was closed before the start is none for Python: what would be printed there goes nowhere."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115  # for as long as the process lives
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="kuberay-chaos", description="Chaos tests for Ray on Kubernetes with KubeRay.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: Callable[[argparse.Namespace, Console], int], text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text)
        sub.set_defaults(verb=function)
        return sub

    add_stack_arguments(add("doctor", _doctor, "check what this machine offers, and say what to do about the rest"))
    add_stack_arguments(add("up", _up, "stand the stack up, or find it up"))
    run = add("run", _run, "stand the stack up and run the experiments")
    add_stack_arguments(run)
    add_run_arguments(run)
    add("list", _list, "list claims, experiments and arms").add_argument("--json", action="store_true", help="as JSON")
    add_stack_arguments(add("heal", _heal, "undo what a run that died left behind"))
    recheck = add(
        "recheck", _recheck, "judge a stored history again by the checks of this release, and replace its reports"
    )
    recheck.add_argument("run", type=Path, help="a folder of results")
    _add_readers(verbs, add)
    images = verbs.add_parser("images", help="work with images", description="work with images")
    actions = images.add_subparsers(required=True, metavar="ACTION")
    save = actions.add_parser("save", help="write every image and program of a stack into one file")
    save.add_argument("file", type=Path, help="the archive to write")
    add_stack_arguments(save)
    save.set_defaults(verb=_images_save)
    lock = actions.add_parser("lock", help="fetch the digests of the official images and bind them")
    add_stack_arguments(lock)
    lock.set_defaults(verb=_images_lock)
    down = add("down", _down, "remove the stack, and the engine if it was started for it")
    down.add_argument("--orphans", action="store_true", help="instead, list what dead runs left, whatever their stack")
    down.add_argument("--yes", action="store_true", help="with --orphans: remove it")
    add_stack_arguments(down)
    return parser


def _add_readers(verbs: Any, add: Callable[..., argparse.ArgumentParser]) -> None:
    """The verbs that only read: manifests, a cluster, a bundle, a table."""
    audit = add("audit", _audit, "judge manifests, or a cluster, by the adoption checklist")
    audit.add_argument("paths", nargs="*", metavar="PATH", help="a file, a folder, or - for standard input")
    _add_cluster_arguments(audit)
    audit.add_argument("--redis", action="store_true", help="ask Redis too, from inside the head's pod")
    audit.add_argument(
        "--measured", type=Path, metavar="RUN", help="a folder of results: how long a head takes to recover"
    )
    audit.add_argument("--state-outside", choices=["yes", "no"], help="whether actors keep their state outside of Ray")
    audit.add_argument("--kuberay", metavar="VERSION", help="the operator's version, where no Deployment tells it")
    audit.add_argument("--format", choices=["text", "json", "sarif"], default="text")
    diagnose = add("diagnose", _diagnose, "name what is wrong with a Ray cluster, or tell where a RayJob stands")
    diagnose.add_argument(
        "words", nargs="*", metavar="[BUNDLE] [RAYCLUSTER | rayjob NAME]", help="names may be NAMESPACE/NAME"
    )
    _add_cluster_arguments(diagnose)
    diagnose.add_argument("--format", choices=["text", "json"], default="text")
    bundle = add("bundle", _bundle, "save what a cluster looks like, without secrets, to be diagnosed elsewhere")
    bundle.add_argument(
        "namespaces", nargs="*", metavar="NAMESPACE", help="default: all, with logs of Ray, Redis and KubeRay"
    )
    bundle.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the file to write, a .tar.gz")
    _add_cluster_arguments(bundle)
    versions = verbs.add_parser(
        "versions", help="work with the version table", description="work with the version table"
    )
    actions = versions.add_subparsers(required=True, metavar="ACTION")
    check = actions.add_parser("check", help="validate the table, one line for each fault")
    check.add_argument("table", nargs="?", type=Path, help="default: the one that comes with this program")
    check.set_defaults(verb=_versions_check)


def _add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--context", help="a context of your kubeconfig; it is only read from")
    parser.add_argument("--kubeconfig", type=Path, help="default with --context: $KUBECONFIG, or ~/.kube/config")


def _doctor(arguments: argparse.Namespace, console: Console) -> int:
    from chaos import doctor  # noqa: PLC0415  # each verb loads what it needs: `--help` must not take a second

    diagnoses = doctor.examine(Settings.from_args(arguments))
    doctor.render(diagnoses, console)
    doctor.require(diagnoses)
    return 0


def _stack_held(settings: Settings, console: Console, who: str) -> AbstractContextManager[None]:
    """No other command works on this stack meanwhile."""
    from chaos.stack import stack  # noqa: PLC0415

    return hold(stack.lock_path(settings.name), who=who, wait=settings.wait, tell=console.info)


def _up(arguments: argparse.Namespace, console: Console) -> int:
    from chaos.stack import stack  # noqa: PLC0415

    settings = Settings.from_args(arguments)
    with _stack_held(settings, console, "up"):
        running = stack.up(settings, console)
    console.info(stack.farewell(running))
    return 0


def _run(arguments: argparse.Namespace, console: Console) -> int:
    import pytest  # noqa: PLC0415

    settings = Settings.from_args(arguments)
    _require_expression(settings.select)
    # Whoever runs this stands among files of their own: no configuration, no conftest.py and no option of theirs is meant.
    words = ["--pyargs", "chaos.experiments", f"--rootdir={Path(__file__).parent}", "-c", os.devnull, "--noconftest"]
    words += ["-p", "no:terminal", "-p", "no:cacheprovider", "-s"]
    words += [f"-k{settings.select}"] if settings.select else []
    words += _forwarded(arguments, (*STACK_OPTIONS, *RUN_OPTIONS))
    words += [f"--chaos-seed={settings.seed}"] if not getattr(arguments, "seed", None) else []
    with _without("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        code = int(pytest.main(words))
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        making = f" and makes a {' or '.join(settings.own)}" if settings.own else ""
        raise UsageError(
            f"no experiment of level {settings.level} matches {settings.select!r}{making}",
            fix="`kuberay-chaos list` names them all",
        )
    if settings.dry_run:
        console.info("\nnothing was done")
        return code
    return _explain(code, console)


@contextmanager
def _without(*variables: str) -> Iterator[None]:
    kept = {name: os.environ.pop(name) for name in variables if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


_WORD = r"[\w:+\-.\[\]\\/]+"  # as pytest has it


def _require_expression(select: str) -> None:
    """Refuse what pytest's -k can't read, for which pytest has an exit code of another meaning than ours."""
    tokens = re.findall(rf"{_WORD}|\S", select)
    # A word is a value; what would then be a call, or an empty tuple, is wrong all the same.
    values = " ".join(token if token in {"and", "or", "not", "(", ")"} else "1" for token in tokens)
    wrong = re.search(r"[1)] \(|\( \)", values)
    try:
        if wrong or not all(re.fullmatch(rf"{_WORD}|[()]", token) for token in tokens):
            raise SyntaxError
        compile(values or "1", "-k", "eval")
    except SyntaxError:
        raise UsageError(
            f"-k {select!r} is not an expression",
            fix="parts of experiments' names, as `kuberay-chaos list` has them, joined by and, or, not and parentheses",
        ) from None


def _forwarded(arguments: argparse.Namespace, options: Sequence[Option]) -> list[str]:
    """The same options for pytest, which has them under a prefix."""
    words = []
    for option in options:
        value = getattr(arguments, option.name.replace("-", "_"), None)
        if option.name == "select" or not value:
            continue
        for each in value if isinstance(value, list) else [value]:
            words.append(f"--chaos-{option.name}" if each is True else f"--chaos-{option.name}={each}")
    return words


def _explain(code: int, console: Console) -> int:
    console.info(f"exit code {code}: {MEANINGS.get(code, 'pytest ended by itself')}")
    return code


def _list(arguments: argparse.Namespace, console: Console) -> int:
    from chaos.catalogue import listing  # noqa: PLC0415

    print(listing(as_json=arguments.json))  # noqa: T201  # to be piped
    return 0


def _heal(arguments: argparse.Namespace, console: Console) -> int:
    from chaos.stack import stack  # noqa: PLC0415

    settings = Settings.from_args(arguments)
    with _stack_held(settings, console, "heal"):
        healed, failed = stack.heal_running(settings)
    for sentence in healed:
        console.info(sentence)
    if failed:
        raise StackError(
            f"{len(healed)} undone, not healed: {'; '.join(failed)}",
            fix="mend what is named and heal again, or remove the stack with all that is left in it: `kuberay-chaos down`",
        )
    console.info("nothing to heal" if not healed else f"{len(healed)} undone")
    return 0


def _recheck(arguments: argparse.Namespace, console: Console) -> int:
    from chaos.reports.recheck import recheck  # noqa: PLC0415

    verdicts, code = recheck(arguments.run, console.info)
    console.table(verdicts)
    console.info(f"the reports in {arguments.run} are replaced")
    return _explain(code, console)


def _audit(arguments: argparse.Namespace, console: Console) -> int:
    from chaos.audit.command import audit  # noqa: PLC0415

    report, code = audit(arguments)
    print(report)  # noqa: T201  # to be piped
    return code


def _diagnose(arguments: argparse.Namespace, console: Console) -> int:
    from chaos.diagnose.command import diagnose  # noqa: PLC0415

    report, code = diagnose(arguments)
    print(report)  # noqa: T201  # to be piped
    return code


def _bundle(arguments: argparse.Namespace, console: Console) -> int:
    from chaos import read_only  # noqa: PLC0415
    from chaos.snapshot import bundle, take  # noqa: PLC0415

    with console.step("Reading the cluster"):
        snapshot = take.whole(read_only.cluster(arguments), arguments.namespaces)
    bundle.write(snapshot, arguments.output)
    for note in snapshot.notes:
        console.info(note)
    console.info(f"{arguments.output}: `kuberay-chaos diagnose {arguments.output}` reads it")
    return 0


def _versions_check(arguments: argparse.Namespace, console: Console) -> int:
    from chaos.versions.table import faults  # noqa: PLC0415

    found, rows = faults(arguments.table)
    for fault in found:
        console.info(fault)
    console.info(f"{rows} rows, {len(found)} faults")
    return 1 if found else 0


def _images_save(arguments: argparse.Namespace, console: Console) -> int:
    from chaos.stack import engine as docker_engine  # noqa: PLC0415
    from chaos.stack.images import archive  # noqa: PLC0415
    from chaos.stack.images.choose import choose  # noqa: PLC0415

    settings = Settings.from_args(arguments)
    archive.require_writable(arguments.file)
    engine = docker_engine.ensure(console)
    provided = choose(settings, engine, console).provide(console)
    archive.save(provided, settings, engine, arguments.file, console)
    console.info(f"{arguments.file} is complete; use it with --archive {arguments.file}")
    return 0


def _images_lock(arguments: argparse.Namespace, console: Console) -> int:
    from chaos.stack import engine as docker_engine  # noqa: PLC0415
    from chaos.stack.images.lock import DigestLock  # noqa: PLC0415
    from chaos.stack.images.registry import RegistrySource  # noqa: PLC0415

    source = RegistrySource(Settings.from_args(arguments), docker_engine.ensure(console))
    lock = DigestLock.default()
    lock.bind(source.digests(console))
    console.info(f"{lock.path}: {lock.describe()}")
    return 0


def _down(arguments: argparse.Namespace, console: Console) -> int:
    from chaos.stack import stack  # noqa: PLC0415

    settings = Settings.from_args(arguments)
    if arguments.orphans:
        return _down_orphans(console, remove=arguments.yes)
    if arguments.yes:
        raise UsageError("--yes goes with --orphans", fix="`kuberay-chaos down` removes the stack without asking")
    with _stack_held(settings, console, "down"):
        stack.down(settings, console)
    return 0


def _down_orphans(console: Console, *, remove: bool) -> int:
    from chaos.stack import orphans, stack  # noqa: PLC0415
    from chaos.stack.engine import Engine, reachable  # noqa: PLC0415

    reachable().require("the Docker engine", error=EngineError, fix="start it: what is left in it can't be seen")
    engine = Engine()
    found = orphans.find(engine)
    for orphan in found:
        console.info(str(orphan))
    if not found:
        console.info("no run that died has left anything")
    elif not remove:
        console.info(f"{len(found)} left behind; `kuberay-chaos down --orphans --yes` removes them")
    else:
        removed, failed = orphans.remove(engine, found)
        console.info(f"{len(removed)} removed")
        if failed:
            raise StackError("; ".join(failed), fix="end what still uses them, and try again")
        stack.stop_unused_engine(engine, console)
    return 0
