"""What a person sees while something runs: steps, what each is waiting for and until when, and the closing table.

A `Step` is a piece of work with a name, a begin and an end; steps nest. There are two ways to show the same steps:

- in a terminal, the steps that run are redrawn in place with a spinner and their elapsed time, and each leaves one line
  behind when it ends;
- elsewhere (CI, a pipe, a dumb terminal), each step is one line when it begins and one when it ends, and a step that
  takes long says every 30 s that it lives and what it waits for. No control sequences.

Everything goes to one stream, line by line and flushed. Steps may be opened and closed by any thread.

Locks are always taken in the order ours, then rich's: the redrawing thread holds rich's, so it must never need ours.
What it draws is therefore read without a lock, from values that are replaced as a whole.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

import rich.box
import rich.console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from chaos.errors import ChaosError
from chaos.rates import Rate, rates
from chaos.verdict import Evidence, Judgement, Outcome, Role, Verdict

HEARTBEAT_SECONDS = 30.0
_REDRAWS_PER_SECOND = 8
_FRAMES = Spinner("dots").frames

_WIDE = 100  # columns from which on a table needn't be brief
_STEPS = 2  # of a recovery, the last ones; the report has them all

_STYLES = {Outcome.HOLDS: "green", Outcome.BROKEN: "bold red", Outcome.UNKNOWN: "yellow"}


class Step:
    """A piece of work that is going on. Made by `Console.step`."""

    def __init__(self, console: Console, title: str, expect: float | None, parent: Step | None) -> None:
        self.title = _clean(title)
        self.expect = expect
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self._console = console
        self._began = console.clock()
        self._doing: tuple[str, float | None] = ("", None)  # what, and until when at most

    def say(self, text: str) -> None:
        """What is being done just now; replaces what was said or waited for before."""
        self._doing = (_clean(text), None)

    def waiting(self, what: str, *, deadline: float) -> None:
        """What is being waited for, and for how many seconds from now at most."""
        self._doing = (f"waiting for {_clean(what)}", self._console.clock() + deadline)

    @contextmanager
    def step(self, title: str, *, expect: float | None = None) -> Iterator[Step]:
        """A step below this one, from any thread."""
        with self._console.step(title, expect=expect, parent=self) as step:
            yield step

    def elapsed(self) -> float:
        """Seconds since it began."""
        return self._console.clock() - self._began

    def progress(self) -> str:
        """Elapsed, expected, and what is going on, in one line."""
        parts = [_seconds(self.elapsed()) + (f" of about {_seconds(self.expect)}" if self.expect else "")]
        what, until = self._doing
        if what:
            left = "" if until is None else f" (at most {_seconds(max(0, round(until - self._console.clock())))} more)"
            parts.append(what + left)
        return ", ".join(parts)

    def is_within(self, ancestor: Step) -> bool:
        """Whether it is ``ancestor`` or anywhere below it."""
        return self is ancestor or (self.parent is not None and self.parent.is_within(ancestor))


class _Terminal(rich.console.Console):
    """Rich's console, except that losing the reader of our output does not end the run."""

    def on_broken_pipe(self) -> None:
        # An interrupted fault must be undone and the results written, whoever reads along. The descriptor is pointed
        # elsewhere so that the interpreter's last flush does not fail either.
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


class Console:
    """The one place that prints.

    ``live`` says whether steps are redrawn in place; by default they are if the stream is a terminal that can. NO_COLOR
    is respected in either case.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        live: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.clock = clock
        stream = stream or sys.stdout
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name in another alphabet must not end a run
        self._in_place = stream.isatty() and os.environ.get("TERM") != "dumb" if live is None else live
        self._terminal = _Terminal(file=stream, highlight=False, force_terminal=self._in_place)
        self._heartbeat = heartbeat
        self._lock = threading.RLock()
        self._running: tuple[Step, ...] = ()  # in the order in which they are drawn
        self._innermost = threading.local()
        self._live: Live | None = None
        self._idle = threading.Event()

    # --- steps --------------------------------------------------------------------------------------------------

    @contextmanager
    def step(self, title: str, *, expect: float | None = None, parent: Step | None = None) -> Iterator[Step]:
        """Show the block as a step; ``expect`` is how many seconds it usually takes.

        It stands below ``parent``, or else below the step that this thread is in. An exception marks it as failed and
        goes on.
        """
        outer: Step | None = getattr(self._innermost, "step", None)
        step = Step(self, title, expect, parent or outer)
        self._innermost.step = step
        self._begin(step)
        failed = True
        try:
            yield step
            failed = False
        finally:
            self._innermost.step = outer
            self._end(step, failed=failed)

    def _begin(self, step: Step) -> None:
        with self._lock:
            if not self._in_place:
                about = f" (about {_seconds(step.expect)})" if step.expect else ""
                self._print(Text(f"{_indent(step)}{step.title} ...{about}"))
            running = list(self._running)
            # Right below its parent and that one's other children, so that the list can be drawn as it is.
            family = [n for n, other in enumerate(running) if step.parent and other.is_within(step.parent)]
            running.insert(family[-1] + 1 if family else len(running), step)
            self._running = tuple(running)
            if len(running) == 1:
                self._start_showing()

    def _end(self, step: Step, *, failed: bool) -> None:
        with self._lock:
            self._running = tuple(other for other in self._running if other is not step)
            took = _seconds(step.elapsed())
            if self._in_place:
                mark, style = ("✗", "red") if failed else ("✓", "green")
                line = Text.assemble(_indent(step), (mark, style), f" {step.title}  ", (took, "dim"))
            else:
                line = Text(f"{_indent(step)}{step.title}: {'FAILED after' if failed else 'done in'} {took}")
            self._print(line)
            if not self._running:
                self._stop_showing()

    def _start_showing(self) -> None:
        if self._in_place:
            self._live = Live(
                get_renderable=self._draw,
                console=self._terminal,
                refresh_per_second=_REDRAWS_PER_SECOND,
                transient=True,
            )
            self._live.start()
        else:
            self._idle = threading.Event()
            threading.Thread(target=self._beat, args=[self._idle], name="heartbeat", daemon=True).start()

    def _stop_showing(self) -> None:
        self._idle.set()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> Table:
        rows = Table.grid()
        rows.add_column(no_wrap=True, overflow="ellipsis")
        for step in self._running:
            frame = _FRAMES[int(step.elapsed() * _REDRAWS_PER_SECOND) % len(_FRAMES)]
            line = Text.assemble(_indent(step), (frame, "cyan"), f" {step.title}  ", (step.progress(), "dim"))
            rows.add_row(line)
        return rows

    def _beat(self, idle: threading.Event) -> None:
        while not idle.wait(self._heartbeat):
            with self._lock:
                parents = {step.parent for step in self._running}
                for step in self._running:
                    if step not in parents and step.elapsed() >= self._heartbeat:
                        self._print(Text(f"{_indent(step)}{step.title}: still at it, {step.progress()}"))

    # --- lines --------------------------------------------------------------------------------------------------

    def info(self, text: str, *, style: str = "") -> None:
        """One line of text, or several; ``style`` is one of rich's and shows in a terminal only."""
        self._print(Text(_clean(text), style=style))

    def fail(self, error: BaseException) -> None:
        """The error that ends the command: what happened, and what to do about it."""
        if not isinstance(error, ChaosError):
            self._print(Text(f"error: {type(error).__name__}: {_clean(str(error))}", style="bold red"))
            return
        self._print(Text(f"error: {_clean(str(error.args[0]))}", style="bold red"))
        if error.fix:
            self._print(Text(f"what to do: {_clean(error.fix)}"))

    def table(self, verdicts: Iterable[Verdict]) -> None:
        """The closing table: worst first, then by experiment, controls last; reasons only for what does not hold.

        The repetitions of an experiment are one row, which stands where the worst of them would.
        """
        order = [Outcome.BROKEN, Outcome.UNKNOWN, Outcome.HOLDS]
        every = sorted(
            verdicts,
            key=lambda v: (
                order.index(v.verdict), v.experiment, v.role is Role.CONTROL, _number(v), v.arm, v.repetition or 0,
            ),
        )  # fmt: skip
        rows = [_Row(rate.verdicts[0], rate) for rate in rates(every)] or [_Row(verdict, None) for verdict in every]
        if self._in_place:
            self._print(_rich_table(rows, narrow=self._terminal.width < _WIDE))
        else:
            for row in rows:
                self._print(Text(_line(row)))
        for verdict in every:
            if verdict.verdict is not Outcome.HOLDS:
                self._print(Text(_clean(_sentence(verdict))))
        counts = ", ".join(f"{sum(v.verdict is outcome for v in every)} {outcome}" for outcome in Outcome)
        self._print(Text(f"{len(every)} verdicts: {counts}"))

    def _print(self, renderable: Text | Table) -> None:
        with self._lock:
            # Soft-wrapped, so that a pipe gets whole lines and a terminal breaks them itself. Rich flushes.
            self._terminal.print(renderable, soft_wrap=isinstance(renderable, Text))


@dataclass(frozen=True)
class _Row:
    """One row of the closing table: a verdict, or the worst of several repetitions with what all of them come to."""

    verdict: Verdict
    rate: Rate | None

    def recovery(self) -> list[str]:
        """The last steps, in the order of time."""
        if self.rate:
            return [f"{name.replace('_', ' ')} {spread}" for name, spread in self.rate.recovery[-_STEPS:]]
        steps = sorted(self.verdict.recovery_seconds.items(), key=lambda step: step[1])
        return [f"{name.replace('_', ' ')} {_seconds(value)}" for name, value in steps[-_STEPS:]]

    def interval(self) -> str:
        """Between which shares the true rate is."""
        return f"({text})" if self.rate and (text := self.rate.interval_text()) else ""


def _line(row: _Row) -> str:
    verdict, rate = row.verdict, str(row.rate or "")
    subject = f"{verdict.experiment} [{verdict.arm}]{_role(verdict)}"
    cells = (
        subject, rate, row.interval(), _judgement(verdict), ", ".join(row.recovery()), _pointers(verdict.evidence, 3)
    )  # fmt: skip
    return _clean(f"{verdict.verdict.upper():7}  {verdict.claim:5}  " + "  ".join(cell for cell in cells if cell))


def _sentence(verdict: Verdict) -> str:
    repetition = f" repetition {verdict.repetition}" if verdict.repetition else ""
    return f"{verdict.claim} [{verdict.arm}]{repetition} {verdict.verdict}: {verdict.reason}{_hint(verdict)}"


def _rich_table(rows: list[_Row], *, narrow: bool) -> Table:
    table = Table(box=rich.box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0) if narrow else (0, 1))
    table.add_column("experiment", ratio=3)
    table.add_column("arm", ratio=3)
    table.add_column("claim", no_wrap=True)
    table.add_column("verdict", ratio=2, min_width=8, overflow="fold")
    table.add_column("recovery", ratio=4)
    table.add_column("evidence", no_wrap=True)
    above: tuple[Outcome, str] | None = None
    for row in rows:
        verdict = row.verdict
        # Words break at spaces only, and a narrow terminal has to break somewhere.
        name = verdict.experiment.removeprefix("test_").replace("_", " ")
        what = Text(str(row.rate or verdict.verdict), style=_STYLES[verdict.verdict])
        for more in filter(None, (row.interval(), _judgement(verdict))):
            what.append(f" {_clean(more)}", style="dim")
        here = (verdict.verdict, verdict.experiment)
        table.add_row(
            Text(_clean(name), style="dim" if here == above else ""),
            Text(_clean(verdict.arm)).append(_role(verdict), style="dim"),
            Text(verdict.claim),
            what,
            Text(_clean("\n".join(row.recovery()))),
            Text(_pointers(verdict.evidence, 1 if narrow else 3)),
        )
        above = here
    return table


def _number(verdict: Verdict) -> tuple[str, int]:
    """So that FT-2 comes before FT-13."""
    family, _, number = verdict.claim.partition("-")
    return family, int(number) if number.isdigit() else 0


def _role(verdict: Verdict) -> str:
    return " control" if verdict.role is Role.CONTROL else ""


def _hint(verdict: Verdict) -> str:
    if verdict.evidence or verdict.judgement is Judgement.NOT_APPLICABLE:
        return ""
    return " (no entry of the history decides it: see the logs in the run's folder)"


def _judgement(verdict: Verdict) -> str:
    if verdict.judgement in {Judgement.NONE, Judgement.AS_DOCUMENTED}:
        return ""
    return f"({' '.join(filter(None, [verdict.judgement, verdict.reference]))})"


def _pointers(evidence: tuple[Evidence, ...], most: int) -> str:
    """Numbers of the history's entries; the first few, since the report has them all."""
    first = " ".join(f"#{item.entry}" for item in evidence[:most])
    return first + (f" +{len(evidence) - most}" if len(evidence) > most else "")


def _indent(step: Step) -> str:
    return "  " * step.depth


def _seconds(value: float) -> str:
    if value < 120:
        return f"{value} s" if isinstance(value, int) else f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    return f"{minutes} min {seconds:02d} s"


# What Docker, Kubernetes and images say is printed too: escape sequences in it must not reach the terminal.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _clean(text: str) -> str:
    return _CONTROL.sub("", text)
