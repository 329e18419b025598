"""The one way a fault is injected: undo log, apply, prove, hold, undo.

::

    record ─▶ apply ─▶ effect ─▶ (the experiment waits or holds) ─▶ undo ─▶ undone
                   └─▶ no-effect: undone at once, and the experiment is not judged

Every step is an entry of the history. Whatever ends the block, also an interrupt, the fault is undone.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from chaos.errors import FeatureMissing, NoEffect, NotAllowed, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.undo import Undo, UndoLog, perform
from chaos.history.entry import Entry, What
from chaos.history.store import HistoryWriter
from chaos.kernel import FEATURES, has
from chaos.machine import LocalMachine
from chaos.signals import ending, pause, shielded
from chaos.stack.cluster import Cluster
from chaos.stack.ours import is_ours


class Injected:
    """A fault that is in force."""

    def __init__(self, fault: Fault, identity: str, group: str, reach: Reach) -> None:
        self.fault = fault
        self.id = identity
        self.group = group  # faults injected together share it
        self.applied = 0.0  # seconds of the history
        self.began = 0  # number of the history entry that records it
        self._reach = reach

    def step(self, step: str, **detail: Any) -> Entry:
        return self._reach.writer.write(
            What.FAULT,
            fault=self.fault.name,
            id=self.id,
            group=self.group,
            step=step,
            target=self.fault.target,
            detail=detail,
        )

    def hold(self, seconds: float) -> None:
        """Keep the fault in force for a declared time; it is taken off when overhead is measured."""
        self.step("hold", seconds=seconds)
        pause(seconds)


class Injector:
    """Injects faults into one cluster.

    ``allowed`` is None where the cluster is ours; else names the faults that may reach beyond our own namespaces.
    ``process`` tells its injections from those of other processes that use the same log.
    """

    def __init__(
        self, cluster: Cluster, writer: HistoryWriter, log: UndoLog, *, allowed: frozenset[str] | None = None,
        process: str = "",
    ) -> None:  # fmt: skip
        self.reach = Reach(cluster, writer)
        self.log = log
        self.injections: list[str] = []  # what was injected with this voice, by ID
        self._allowed = allowed
        self._process = f"-{process}" if process else ""
        self._numbers = itertools.count(1)
        self._groups = itertools.count(1)

    def of(self, writer: HistoryWriter) -> Injector:
        """The same, for an experiment of its own voice; no two injections of a run have a number in common."""
        injector = copy.copy(self)
        injector.reach = Reach(self.reach.cluster, writer)
        injector.injections = []
        return injector

    @contextmanager
    def __call__(self, *faults: Fault) -> Iterator[Injected]:
        """Inject the faults, in order and as close together as can be; the block runs with all of them in force.

        Yields the last one. Raises NoEffect when one was not seen to take, Unjudged when the machine lacks what one needs or
        the cluster isn't ours to do that to.
        """
        for fault in faults:
            self._require_allowed(fault)
            _require_features(fault)
        group = f"group-{next(self._groups)}"
        with ExitStack() as undoing:
            marks = [undoing.enter_context(self._applied(fault, group)) for fault in faults]
            for injected in marks:
                self._prove(injected)
            yield marks[-1]

    def _require_allowed(self, fault: Fault) -> None:
        if self._allowed is None or fault.name in self._allowed:
            return
        if fault.scope is not Scope.NAMESPACE:
            reaches = f"the whole {fault.scope}"
        else:
            name = fault.target.get("namespace", "")
            if is_ours(self.reach.cluster, name):
                return
            reaches = f"namespace {name or '(none)'}"
        raise NotAllowed(
            f"{fault.name} was not injected: it reaches {reaches}, which is not ours",
            fix=f"allow it with --allow-fault {fault.name}",
        )

    @contextmanager
    def _applied(self, fault: Fault, group: str) -> Iterator[Injected]:
        identity = f"{fault.name}-{next(self._numbers)}{self._process}"
        self.injections.append(identity)
        injected = Injected(fault, identity, group, self.reach)
        undos = fault.undo(self.reach)
        try:
            self.log.append(identity, undos)
            injected.began = int(injected.step("record", undo=[undo.kind for undo in undos])["n"])
            # Written before the call: recovery times then count the call as well, never too little.
            injected.applied = injected.step("apply")["t"]
            fault.apply(self.reach)
            yield injected
        finally:
            with shielded():
                self._undo(injected, undos)

    def _prove(self, injected: Injected) -> None:
        try:
            seen = injected.fault.prove(self.reach, injected.began)
        except NoEffect as nothing:
            injected.step("no-effect", reason=str(nothing))
            raise
        # What an entry of the history proves was seen when that was written; else it is seen now.
        lag = seen.get("gone", self.reach.writer.now()) - injected.applied
        injected.step("effect", injection_lag=round(lag, 3), **seen)

    def _undo(self, injected: Injected, undos: list[Undo]) -> None:
        if not undos:
            return
        began = self.reach.writer.now()
        try:
            injected.step("undo")
        finally:  # a history that can't be written must not leave the fault in force
            problems = self._perform(injected, undos)
        if not problems:
            try:
                seen = injected.fault.relieved(self.reach)
            except StackError as still:
                if not ending():
                    problems.append(str(still))
                seen = {"not_seen": str(still.args[0])}  # it was undone, and who interrupts does not wait to see that
        if problems:
            raise StackError(
                f"{injected.id} could not be undone: {'; '.join(problems)}",
                fix=f"`kuberay-chaos heal --name {self.reach.cluster.name}`",
            )
        injected.step("undone", undo_lag=round(self.reach.writer.now() - began, 3), **seen)

    def _perform(self, injected: Injected, undos: list[Undo]) -> list[str]:
        """Undo all, the last first; what could not be undone."""
        problems = []
        for index, undo in reversed(list(enumerate(undos))):
            try:
                perform(self.reach.cluster, undo)
                self.log.done(injected.id, index)
            except Exception as problem:  # the others must still be undone
                problems.append(f"{undo.kind}: {problem}")
        return problems


def _require_features(fault: Fault) -> None:
    """Raises FeatureMissing when the kernel is known to lack something; what can't be told is left to the proof."""
    machine = LocalMachine()
    for feature in FEATURES:
        if feature.name in fault.needs and has(machine, feature) is False:
            raise FeatureMissing(f"{fault.name} needs {feature.name}, which this machine's kernel lacks")
