"""What a check is: a pure function of a history, named, with parameters that JSON can hold.

``@check`` splits the two moments of a check's life. Calling the decorated function does not run it: it gives a
`Check`, which is data (a name and parameters) that an experiment writes into its history as an expectation.
``Check.judge`` runs the function, today or on a stored history years later, without a cluster::

    expectation = workers_survived(namespace="demo", cluster="c1")   # data
    finding = expectation.judge(History.load("history.jsonl"))        # the function runs here

A check has no side effects and reads no clock. One that raises has shown nothing: the finding is ``unknown`` and its
reason carries the error. Only the parameters that the caller gave are kept, so that a newer release judges an old
history by its own bounds; what was asked for explicitly stays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec

from chaos.errors import Unjudged, UsageError
from chaos.history.reader import History
from chaos.verdict import Finding, Outcome

P = ParamSpec("P")

_registry: dict[str, Callable[..., Finding]] = {}


@dataclass(frozen=True)
class Check:
    """One expectation as data: which check, with which parameters, of what one injection led to or of the whole view."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    window: str = ""  # a group of faults; empty: the whole view

    def during(self, group: str) -> Check:
        """The same check of one injection's window (`History.window`), in an experiment that injects one after another."""
        return replace(self, window=group)

    def as_json(self) -> dict[str, Any]:
        """``{"check": name, "params": {…}, "window": group}``, as the history's ``expect`` entries hold it."""
        return {"check": self.name, "params": self.params, "window": self.window}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Check:
        """The inverse of `as_json`. Raises UsageError when ``data`` has another shape.

        A name that this release doesn't know is no error here: judging it gives ``unknown``, like any check that can't
        run.
        """
        match data:
            case {"check": str(name), "params": dict(params)}:
                return cls(name, params, str(data.get("window", "")))
        raise UsageError(f"not a check: {data!r}", fix='expected {"check": NAME, "params": {…}}')

    def judge(self, history: History) -> Finding:
        """Run the check. Never raises: an error is an ``unknown`` whose reason has its type and text."""
        if self.name not in _registry:
            return Finding(Outcome.UNKNOWN, f"this release has no check named {self.name}")
        try:
            view = history.window(self.window) if self.window else history
            return _registry[self.name](view, **self.params)
        except Unjudged as missing:
            return Finding(Outcome.UNKNOWN, str(missing.args[0]))
        except Exception as error:
            return Finding(Outcome.UNKNOWN, f"check {self.name} raised {type(error).__name__}: {error}")


def check(function: Callable[Concatenate[History, P], Finding]) -> Callable[P, Check]:
    """Register ``function`` under its own name; the result, called with its keyword parameters, gives a `Check`.

    Raises TypeError for parameters that ``function`` doesn't take, when the expectation is made and not when it is
    judged.
    """
    name = function.__name__
    if name in _registry:
        raise ValueError(f"two checks are named {name}")
    _registry[name] = function
    signature = inspect.signature(function)

    def make(*args: P.args, **kwargs: P.kwargs) -> Check:
        if args:
            raise TypeError(f"{name}() takes keyword parameters only")
        signature.bind(None, **kwargs)
        return Check(name, dict(kwargs))

    make.__name__, make.__qualname__, make.__doc__ = name, function.__qualname__, function.__doc__
    make.__module__ = function.__module__
    return make
