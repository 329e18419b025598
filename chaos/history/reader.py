"""Reading a history: objects as lifetimes, faults as injections, probes, gaps, phases.

A *lifetime* is all that is known of one UID, state by state. That is the unit checks reason with: "survived" means one
lifetime without an end, "recreated" means another lifetime. A view (`History.experiment`) ends where its experiment
ended and reaches back to the beginning of the run, since most of what an experiment judges was born before it.

Times are the entries' ``t`` (seconds since the run began, monotonic) unless a name says otherwise.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from chaos.errors import UsageError
from chaos.history.entry import Entry, What
from chaos.history.objects import (
    Json,
    Object,
    condition,
    condition_time,
    epoch,
    is_ready,
    is_terminating,
    labels,
    owners,
    restart_count,
    share,
)

__all__ = [
    "Audit",
    "Expect",
    "Gap",
    "History",
    "Injection",
    "Lifetime",
    "Note",
    "Object",
    "Phase",
    "Probe",
    "State",
    "condition",
    "condition_time",
    "epoch",
    "is_ready",
    "is_terminating",
    "labels",
    "owners",
    "restart_count",
]


@dataclass(frozen=True)
class State:
    """One state of an object. ``listed``: it came from a list, so it is at least as old as ``t``."""

    n: int
    t: float
    wall: float
    change: str
    listed: bool
    object: Object


@dataclass(frozen=True)
class Lifetime:
    """All known states of one UID, in order; at least one."""

    uid: str
    namespace: str
    name: str
    resource: str
    states: tuple[State, ...]

    @property
    def born(self) -> float:
        """When it was first seen."""
        return self.states[0].t

    @property
    def gone(self) -> float | None:
        """When it was seen deleted, None if it wasn't."""
        return self.latest.t if self.latest.change == "DELETED" else None

    @property
    def latest(self) -> State:
        """The last state; of a deleted object the one it was deleted in."""
        return self.states[-1]

    def at(self, t: float) -> State | None:
        """The last state at or before ``t``, None before it was born."""
        return next((state for state in reversed(self.states) if state.t <= t), None)

    def first(self, predicate: Callable[[Object], bool], *, since: float = 0.0) -> State | None:
        """The first state, at or after ``since``, whose object satisfies ``predicate``."""
        return next((state for state in self.states if state.t >= since and predicate(state.object)), None)


@dataclass(frozen=True)
class Injection:
    """One injection of a fault. ``steps`` has the first entry of each step that was reached, in the order reached."""

    id: str
    name: str
    experiment: str | None
    steps: dict[str, Entry]

    def _t(self, step: str) -> float | None:
        return self.steps[step]["t"] if step in self.steps else None

    @property
    def applied_at(self) -> float | None:
        """When it had been applied; its effect may have come a little earlier."""
        return self._t("apply")

    @property
    def effect_at(self) -> float | None:
        """When its effect had been seen; None if it never was."""
        return self._t("effect")

    @property
    def undo_at(self) -> float | None:
        """When its undoing began."""
        return self._t("undo")

    @property
    def undone_at(self) -> float | None:
        """When it had been undone."""
        return self._t("undone")


@dataclass(frozen=True)
class Probe:
    """One call of a probe; it lasted from ``t - took`` to ``t``."""

    n: int
    t: float
    name: str
    target: dict[str, Any]
    ok: bool
    took: float
    value: dict[str, Any]
    error: str


@dataclass(frozen=True)
class Gap:
    """From ``since`` to ``until`` nothing is known of ``resource``, or what is known has later times than it should."""

    n: int
    resource: str
    since: float
    until: float
    reason: str


@dataclass(frozen=True)
class Phase:
    """A milestone of an experiment: begin, steady, settled, end or error."""

    n: int
    t: float
    name: str
    experiment: str | None
    detail: dict[str, Any]


@dataclass(frozen=True)
class Expect:
    """What an arm of an experiment expects of the history: checks and their parameters."""

    n: int
    t: float
    experiment: str | None
    claim: str
    arm: str
    checks: list[dict[str, Any]]
    control: dict[str, Any] | None


@dataclass(frozen=True)
class Audit:
    """One answered request to the API server; ``requested`` and ``answered`` in epoch seconds, the server's clock."""

    n: int
    t: float
    verb: str
    resource: str
    namespace: str
    name: str
    user: str
    code: int
    requested: float
    answered: float
    id: str
    pod: str = ""  # that the user's token was made for


@dataclass(frozen=True)
class Note:
    """Anything a reader of the timeline should know."""

    n: int
    t: float
    text: str


class History:
    """A history, or an experiment's view of one. Read-only; what it returns is in the order of the entries.

    ``torn``: the file ended within a line, as after a crash; that line is left out.
    """

    def __init__(self, entries: Iterable[Entry], *, torn: bool = False) -> None:
        self.entries = list(entries)
        self.torn = torn
        self.name: str | None = None
        self.since = 0.0
        self.until: float = self.entries[-1]["t"] if self.entries else 0.0

    @classmethod
    def load(cls, path: Path) -> History:
        """Read a file. Raises UsageError when it can't be read or isn't a history, its last line aside."""
        entries: list[Entry] = []
        last: dict[str, Object] = {}
        try:
            with path.open("rb") as file, _uncollected():
                for number, line in enumerate(file, 1):
                    if not line.endswith(b"\n"):
                        return cls(entries, torn=True)
                    entries.append(_read(line, last, f"{path}, line {number}"))
        except OSError as error:
            raise UsageError(f"history {path} could not be read: {error.strerror}") from error
        return cls(entries)

    def experiment(self, name: str) -> History:
        """The view of one experiment.

        It has all entries up to the experiment's end, so that what lived before it is known, and the audited requests
        answered by then, which are read a little later. ``since`` and ``until`` are its first begin and last end; an
        experiment without an end, as after a crash, ends with the history. Raises UsageError when it never began.
        """
        own = [e for e in self.entries if e["what"] == What.PHASE and e["experiment"] == name]
        begin = next((e for e in own if e["phase"] == "begin"), None)
        if begin is None:
            raise UsageError(f"the history has no experiment {name!r}")
        end = next((e for e in reversed(own) if e["phase"] == "end"), self.entries[-1])
        view = History(
            (
                e
                for e in self.entries
                if e["n"] <= end["n"] or (e["what"] == What.AUDIT and e["answered"] <= end["wall"])
            ),
            torn=self.torn,
        )
        view.name, view.since, view.until = name, begin["t"], end["t"]
        return view

    def window(self, group: str) -> History:
        """The view of what one injection led to: its faults alone, up to the moment in which the next was recorded.

        Faults that were injected together are a group, named in their entries. Raises UsageError for an unknown group.
        """
        records = [e for e in self._own(What.FAULT) if e["step"] == "record"]
        first = next((e for e in records if e.get("group") == group), None)
        if first is None:
            raise UsageError(f"the history has no injection {group!r}")
        following = next((e for e in records if e["n"] > first["n"] and e.get("group") != group), None)
        until = self.until if following is None else float(following["t"])
        view = History(
            (e for e in self.entries if e["t"] <= until and (e["what"] != What.FAULT or e.get("group") == group)),
            torn=self.torn,
        )
        view.name, view.since, view.until = self.name, self.since, until
        return view

    @property
    def experiments(self) -> list[str]:
        """Names of the experiments that began, in order."""
        begun = (e["experiment"] for e in self._of(What.PHASE) if e["phase"] == "begin" and e["experiment"])
        return list(dict.fromkeys(begun))

    def objects(
        self,
        resource: str,
        *,
        namespace: str | None = None,
        labels: dict[str, str] | None = None,
        owner: str | None = None,
        name: str | None = None,
    ) -> list[Lifetime]:
        """Lifetimes of a resource, in the order in which they were first seen.

        Labels (each that is given has to match) and ``owner`` (the UID in an owner reference) are those of the last
        state.
        """
        return [
            life
            for life in self._lifetimes.get(resource, ())
            if (namespace is None or life.namespace == namespace)
            and (name is None or life.name == name)
            and (owner is None or owner in owners(life.latest.object))
            and _carries(life.latest.object, labels or {})
        ]

    def object(self, uid: str) -> Lifetime | None:
        """The lifetime of a UID, None when it was never seen."""
        return next((life for lives in self._lifetimes.values() for life in lives if life.uid == uid), None)

    def faults(self, name: str | None = None) -> list[Injection]:
        """Injections, by their first step."""
        found: dict[str, Injection] = {}
        for e in self._own(What.FAULT):
            if name in (None, e["fault"]):
                injection = found.setdefault(e["id"], Injection(e["id"], e["fault"], e["experiment"], {}))
                injection.steps.setdefault(e["step"], e)
        return list(found.values())

    def probes(self, name: str | None = None, **target: Json) -> list[Probe]:
        """Calls of a probe whose target has all the given names."""
        return [
            Probe(
                e["n"], e["t"], e["probe"], e["target"], e["ok"], e["took"], e.get("value") or {}, e.get("error") or ""
            )
            for e in self._own(What.PROBE)
            if name in (None, e["probe"]) and target.items() <= e["target"].items()
        ]

    def gaps(self, resource: str | None = None, since: float = 0.0, until: float = math.inf) -> list[Gap]:
        """Gaps that overlap ``[since, until]``."""
        return [
            Gap(e["n"], e["resource"], e["since"], e["until"], e["reason"])
            for e in self._of(What.GAP)
            if resource in (None, e["resource"]) and e["since"] <= until and e["until"] >= since
        ]

    def phases(self, name: str | None = None) -> list[Phase]:
        """Milestones."""
        return [
            Phase(e["n"], e["t"], e["phase"], e["experiment"], e.get("detail") or {})
            for e in self._own(What.PHASE)
            if name in (None, e["phase"])
        ]

    def expects(self) -> list[Expect]:
        """What the experiments expect."""
        return [
            Expect(e["n"], e["t"], e["experiment"], e["claim"], e["arm"], e["checks"], e.get("control"))
            for e in self._own(What.EXPECT)
        ]

    def audits(
        self,
        *,
        verb: str | None = None,
        resource: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        user: str | None = None,
    ) -> list[Audit]:
        """Audited requests, in the order in which the server logged them. ``resource`` includes any subresource."""
        wanted = {"verb": verb, "resource": resource, "namespace": namespace, "name": name, "user": user}
        given = {key: value for key, value in wanted.items() if value is not None}
        return [
            Audit(
                e["n"],
                e["t"],
                e["verb"],
                e["resource"],
                e["namespace"],
                e["name"],
                e["user"],
                e["code"],
                e["requested"],
                e["answered"],
                e["id"],
                e.get("pod", ""),
            )
            for e in self._of(What.AUDIT)
            if given.items() <= e.items()
        ]

    def notes(self) -> list[Note]:
        """Notes."""
        return [Note(e["n"], e["t"], e["text"]) for e in self._of(What.NOTE)]

    def _of(self, what: What) -> Iterator[Entry]:
        return (e for e in self.entries if e["what"] == what)

    def _own(self, what: What) -> Iterator[Entry]:
        """Entries of a kind that belongs to experiments: in a view, its experiment's alone."""
        return (e for e in self._of(what) if self.name in (None, e["experiment"]))

    @cached_property
    def _lifetimes(self) -> dict[str, list[Lifetime]]:
        states: dict[str, list[State]] = {}
        first: dict[str, Entry] = {}
        for e in self._of(What.OBJECT):
            first.setdefault(e["uid"], e)
            states.setdefault(e["uid"], []).append(
                State(e["n"], e["t"], e["wall"], e["change"], e["listed"], e["object"])
            )
        lifetimes: dict[str, list[Lifetime]] = {}
        for uid, e in first.items():
            life = Lifetime(uid, e["namespace"], e["name"], e["resource"], tuple(states[uid]))
            lifetimes.setdefault(e["resource"], []).append(life)
        return lifetimes


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """No cycle collection meanwhile: JSON has no cycles, and looking for some takes most of the time of a load."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read(line: bytes, last: dict[str, Object], where: str) -> Entry:
    """One entry; what its object has in common with the object's previous state, in ``last``, is held once."""
    try:
        entry: Entry = json.loads(line)
        if entry["what"] == What.OBJECT:
            uid = entry["uid"]
            entry["object"] = last[uid] = share(entry["object"], last.get(uid))
        return entry
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{where}: not an entry of a history: {error!r}") from error


def _carries(obj: Object, wanted: dict[str, str]) -> bool:
    return wanted.items() <= labels(obj).items()
