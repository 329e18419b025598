"""One run: a stack, a history and a folder of results.

``results/<run>/`` holds all that was seen (``history.jsonl``, ``logs/``, ``ledger/``) and what was made of it
(``verdicts.json``, ``rates.json``, ``junit.xml``, ``summary.md``, ``report.html``); ``results/latest`` points to the last run.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from chaos import __version__, reports
from chaos.console import Console
from chaos.experiment import Declaration
from chaos.faults.inject import Injector
from chaos.faults.known import require_known
from chaos.faults.replace_operator import ReplaceOperator
from chaos.history.audit import AuditTail
from chaos.history.logs import LogStreamer
from chaos.history.reader import History
from chaos.history.recorder import Recorder
from chaos.history.store import HistoryWriter
from chaos.judge import judge
from chaos.lab import Lab
from chaos.locks import atomic_write, hold
from chaos.own import told
from chaos.own.accepted import require_accepted
from chaos.settings import Settings
from chaos.sharing import Member, Share, share
from chaos.signals import ending, shielded, stop, stoppable, unhurried
from chaos.stack import kuberay, ray, redis
from chaos.stack import stack as stacks
from chaos.stack.given import Given, attach
from chaos.stack.images import catalogue
from chaos.turns import Turn
from chaos.verdict import Verdict
from chaos.versions.table import Table

# How soon a signal is noticed while namespaces go.
_LOOK_EVERY = 0.2


class Run:
    """Opens the stack and the record, and closes both in order. Use as a context manager.

    As a ``member`` it has the stack together with others of its kind, and a folder, a history and verdicts of its own.
    ``shards`` are lines that tell which part of a whole it does, and what it leaves to others.
    """

    def __init__(
        self, settings: Settings, console: Console, member: Member | None = None, shards: Sequence[str] = ()
    ) -> None:
        self.settings = settings
        self.console = console
        self.shards = list(shards)
        self.started = datetime.now(UTC)
        self.id = f"{self.started:%Y%m%d-%H%M%S}-{settings.seed % 0x10000:04x}"
        if member:
            self.id = f"{member.run}-{member.name}"
        self._member = member
        self._share: Share | None = None
        self.folder = settings.results / self.id
        self.verdicts: list[Verdict] = []
        self.stack: stacks.Stack | Given
        self._is_up = False
        self._closing = ExitStack()
        self._locked = ExitStack()
        self._failure = ""
        self._own: list[told.Told] = []
        self._judged = Lock()
        self._leavers = ThreadPoolExecutor(thread_name_prefix="leaving")
        self._leaving: list[Future[None]] = []

    def __enter__(self) -> Run:
        lock, wait, tell = stacks.lock_path(self.settings.name), self.settings.wait, self.console.info
        if self._member:
            self._share = self._locked.enter_context(share(lock, self._member, wait=wait, tell=tell))
        else:
            self._locked.enter_context(hold(lock, who=f"run {self.id}", wait=wait, tell=tell))
        try:
            self._open()
        except BaseException:
            with shielded(), self._locked, ExitStack() as leaving:
                leaving.callback(self._leave)
                self._closing.close()
            raise
        return self

    def _open(self) -> None:
        for name in self.settings.allow_faults:
            require_known(name)
        for line in self.shards:
            self.console.info(line)
        given = self.settings.given
        first = self._share is None or self._share.is_first
        if given:
            self.stack = attach(self.settings, given, self.console, healed=first)
        else:
            self.stack = (stacks.up if first else stacks.join)(self.settings, self.console)
        self._is_up = True
        if self._share:
            self._share.open()
        self.versions = self.stack.record.versions
        self._take_own()
        self.folder.mkdir(parents=True, exist_ok=self._member is not None)
        confidential = [value for own in self.settings.own.values() for value in told.confidential(own)]
        self.writer = HistoryWriter(
            self.folder / "history.jsonl", redact=[*redis.passwords(self.stack.cluster), *confidential]
        )
        self._closing.callback(self.writer.close)
        cluster = self.stack.cluster
        self._recorder = Recorder(cluster.api, self.writer)
        self._closing.callback(self._recorder.stop)
        self._recorder.start()
        if not given:
            audit = AuditTail(self.stack.folder.audit_log, self.writer)
            self._closing.callback(audit.stop)
            audit.start()
        logs = LogStreamer(cluster.api, self.writer, self.folder / "logs", selects=_is_logged)
        self._closing.callback(logs.stop)
        logs.start()
        self.ledger = None if given else self._make_ledger()
        allowed = frozenset(self.settings.allow_faults) if given else None
        process = self._member.name if self._member else ""
        self._injector = Injector(cluster, self.writer, self.stack.undo_log, allowed=allowed, process=process)
        self.lab = self._lab(self.writer)
        self._closing.callback(self._await_leaving)

    def _take_own(self) -> None:
        """What the user gave in the place of our manifests is told, unless the cluster refuses it."""
        for own in self.settings.own.values():
            fitted = ray.fitted(own, self._ray_image, self.settings.versions.ray, ledger=self.settings.given is None)
            require_accepted(self.stack.cluster, own, fitted)
            self._own.append(told.told(own, fitted))
            for line in told.lines(self._own[-1]):
                self.console.info(line)

    @property
    def _ray_image(self) -> str:
        return catalogue.ray_image(self.versions["ray"])

    def _make_ledger(self) -> Path:
        ledger = self.stack.folder.ledger / self.id
        ledger.mkdir()
        # Pods append as users of their own.
        ledger.chmod(0o777)
        return ledger

    def __exit__(self, *error: object) -> None:
        with shielded(), self._locked, ExitStack() as leaving:  # each of these whatever became of the one before
            leaving.callback(self._leave)
            leaving.callback(self.console.info, f"results: {self.folder} (report.html is the one to pass on)")
            leaving.callback(self.console.table, self.verdicts)
            leaving.callback(self._write_results)
            self._closing.close()

    def _leave(self) -> None:
        """Leave the stack up, saying so, or remove it, as was asked, unless others still use it.

        A cluster that isn't ours stays as it is.
        """
        if self._share and not self._share.is_last():
            return
        if self.settings.given:
            return
        if not self.settings.keep:
            with unhurried():  # all is written by now
                stacks.down(self.settings, self.console)
        elif self._is_up and not isinstance(self.stack, Given):
            self.console.info(stacks.farewell(self.stack))

    # --- experiments ------------------------------------------------------------------------------------------------

    def begin(self, name: str, declared: Declaration) -> Lab:
        """What the experiment works with: its entries bear its name, its turn is as declared. From any thread.

        A repetition has a name of its own, see `chaos.repetition`.
        """
        turn = Turn(
            self.stack.folder.root / "turns", disturbs=declared.disturbs, relies_on=declared.relies_on,
            # One for two processors: all at once, Ray clusters keep each other from starting.
            places=max(1, (os.cpu_count() or 1) // 2),
        )  # fmt: skip
        lab = self._lab(self.writer.of(name), turn)
        lab.phase("begin", claims=[list(pair) for pair in declared.shows])
        return lab

    def end(self, lab: Lab) -> list[Verdict]:
        """Close the experiment and judge it from what the history holds. From any thread."""
        self._recorder.catch_up()
        lab.phase("end")
        lab.end_experiment()
        # What is removed must not be part of what is judged, but need not be waited for.
        self._remove(lab)
        name = lab.writer.experiment
        assert name is not None
        found = self._judge(History(self.writer.entries()).experiment(name))
        with self._judged:
            self.verdicts += found
        return found

    def _lab(self, writer: HistoryWriter, turn: Turn | None = None) -> Lab:
        return Lab(
            cluster=self.stack.cluster,
            writer=writer,
            injector=self._injector.of(writer),
            console=self.console,
            images={"ray": self._ray_image, "redis": catalogue.REDIS_IMAGE},
            ray_version=self.versions["ray"],
            ledger=self.ledger,
            other_operator=self._other_operator,
            turn=turn,
            own=self.settings.own,
        )

    def _other_operator(self, version: str, definitions: bool) -> ReplaceOperator:
        return ReplaceOperator(self.stack.other_operator(version, self.console), self.stack.operator, definitions)

    def _remove(self, lab: Lab) -> None:
        """Remove the lab's namespaces in the background."""

        def close() -> None:
            with stoppable():
                lab.close()

        self._leaving.append(self._leavers.submit(close))

    def _await_leaving(self) -> None:
        """Until all namespaces are gone, or their time is up, or a signal asks for the end."""
        self._remove(self.lab)
        with self.console.step("Removing the experiments' namespaces", expect=30):
            while wait(self._leaving, timeout=_LOOK_EVERY).not_done:
                if ending():
                    stop("interrupted")
            for left in self._leaving:
                left.result()
            self._leavers.shutdown()

    def _judge(self, history: History) -> list[Verdict]:
        return judge(history, table=Table.load(), versions=self.versions)

    @contextmanager
    def operator(self, version: str) -> Iterator[None]:
        """Another operator version in the running stack for the block; what is judged meanwhile is judged as that version."""
        with self.lab.inject(self.lab.other_operator(version)), self.judged_as(version):
            yield

    @contextmanager
    def judged_as(self, version: str) -> Iterator[None]:
        """What is judged in the block is judged as this operator version, whichever runs when."""
        own = self.versions
        self.versions = {**own, "kuberay": version}
        try:
            yield
        finally:
            self.versions = own

    @contextmanager
    def ray(self, version: str) -> Iterator[None]:
        """Another Ray in what is begun within the block, which is judged as that version."""
        own = self.versions["ray"]
        self.stack.use_ray(version, self.console)
        self.versions = {**self.versions, "ray": version}
        try:
            yield
        finally:
            self.versions = {**self.versions, "ray": own}

    # --- results ----------------------------------------------------------------------------------------------------

    def _write_results(self) -> None:
        if self.ledger and self.ledger.exists():
            shutil.copytree(self.ledger, self.folder / "ledger", dirs_exist_ok=True)
            shutil.rmtree(self.ledger, ignore_errors=True)
        run = self.describe()
        atomic_write(self.folder / "run.json", json.dumps(run, indent=2) + "\n", mode=0o644)
        _point(self.settings.results / "latest", self.folder)
        history = History.load(self.folder / "history.jsonl")
        reports.write_all(self.folder, history, self.verdicts, run)

    def interrupted(self, by: str) -> None:
        """Mark the run as cut short."""
        self._failure = by

    def describe(self) -> dict[str, Any]:
        """The content of ``run.json``."""
        record = self.stack.record
        return {
            "run": self.id,
            "program": f"kuberay-chaos {__version__}",
            "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            "seed": self.settings.seed,
            "level": str(self.settings.level),
            "repeat": self.settings.repeat,
            "shards": self.shards,
            "started": self.started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "interrupted": self._failure,
            "stack": self.settings.name,
            "given": self.settings.given.server if self.settings.given else "",
            "versions": record.versions,
            "own": self._own,
            "image_source": record.source,
            "images": record.images,
            "node_image": record.node_image,
            "sealed": record.sealed,
            "provenance": record.provenance,
            # On Linux the unit is KiB.
            "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        }


def _is_logged(namespace: str) -> bool:
    """Logs are kept of the subjects and of those who act on them."""
    return namespace in (kuberay.NAMESPACE, redis.NAMESPACE) or namespace.startswith("chaos-")


def _point(link: Path, target: Path) -> None:
    """Let ``link`` point to ``target``, without a moment in which it points nowhere."""
    fresh = link.with_name(f".latest-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target.name)
    fresh.replace(link)
