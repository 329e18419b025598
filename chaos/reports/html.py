"""``report.html``: one file that says what was found and shows why, and that can be mailed.

Self-contained: no network, no library; a content security policy in the page forbids what it doesn't need. Pictures
are SVG made here, and everything that comes from a history passes through autoescape. The look is in
``report.html.j2``; logs stay in files beside the report and are linked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from chaos.history.reader import History
from chaos.rates import ENOUGH_FOR_P95, Rate, Spread, rates
from chaos.repetition import in_words
from chaos.reports.ranking import (
    ARMS_EXPLAINED,
    ORDER,
    RATES_EXPLAINED,
    Standing,
    claim_text,
    counts,
    headline,
    reasons,
    recovery,
    standing,
    undecided,
    where_to_look,
    worst_first,
    worst_of,
    worst_rate_first,
)
from chaos.reports.timeline import Timeline, timeline
from chaos.verdict import Evidence, Role, Verdict

MAX_BYTES = 500_000
# Limits on what is drawn and listed, tried in this order until the page is small enough.
_LIMITS = (10_000, 2_000, 500, 100)


@dataclass(frozen=True)
class _Row:
    """One verdict as the table shows it."""

    verdict: Verdict
    standing: Standing
    text: str
    reasons: list[str]
    recovery: list[tuple[str, float]]
    control: bool
    anchor: str
    look: str  # which files may tell more, when no evidence does


@dataclass(frozen=True)
class _RateRow:
    """One claim and arm over all repetitions, as the table of rates shows it."""

    rate: Rate
    standing: Standing
    text: str
    recovery: list[tuple[str, Spread]]
    control: bool


@dataclass(frozen=True)
class _Fact:
    """One piece of evidence: an entry of the history with what it shows."""

    entry: int
    anchor: str
    at: str
    wall: str
    shows: list[str]


@dataclass(frozen=True)
class _Experiment:
    """One experiment's section."""

    name: str
    anchor: str
    open: bool
    verdicts: list[_Row]
    timeline: Timeline
    facts: list[_Fact]
    facts_dropped: int


def render(history: History, verdicts: Sequence[Verdict], run: Mapping[str, Any], *, files: Sequence[str] = ()) -> str:
    """The page. ``files`` are paths relative to it that are linked: history, logs, the other reports.

    Detail is left out, and said to be, until the page is below `MAX_BYTES`; verdicts never are.
    """
    page = ""
    for limit in _LIMITS:
        page = _page(history, verdicts, run, files, limit)
        if len(page.encode()) < MAX_BYTES:
            break
    return page


def _page(
    history: History, verdicts: Sequence[Verdict], run: Mapping[str, Any], files: Sequence[str], limit: int
) -> str:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = list(dict.fromkeys([*history.experiments, *(verdict.begun_as for verdict in verdicts)]))
    anchors = {name: f"x{number}" for number, name in enumerate(names, start=1)}
    rows = [_row(verdict, anchors) for verdict in worst_first(verdicts)]
    sections = _sections(history, rows, anchors, limit)
    found = counts(verdicts)
    worst = rows[0].standing if rows else Standing.UNKNOWN
    return environment.get_template("report.html.j2").render(
        headline=headline(verdicts, interrupted=bool(run.get("interrupted"))),
        worst=_css(worst),
        counts=[(place, _css(place), found[place]) for place in ORDER],
        versions=run.get("versions") or {},
        seed=run.get("seed"),
        command=run.get("command") or "",
        own=run.get("own") or [],
        started=_moment(run.get("started")),
        finished=_moment(run.get("finished")),
        shards=run.get("shards") or [],
        rates=[_rate_row(rate) for rate in worst_rate_first(rates(verdicts))],
        rates_explained=RATES_EXPLAINED,
        enough=ENOUGH_FOR_P95,
        rows=rows,
        arms_explained=ARMS_EXPLAINED,
        experiments=sections,
        files=_folders(files),
        css=_css,
    )


def _rate_row(rate: Rate) -> _RateRow:
    worst = worst_of(rate)
    return _RateRow(
        rate=rate,
        standing=standing(worst),
        text=claim_text(worst),
        recovery=[(step.replace("_", " "), spread) for step, spread in rate.recovery],
        control=rate.role is Role.CONTROL,
    )


def _row(verdict: Verdict, anchors: Mapping[str, str]) -> _Row:
    return _Row(
        verdict=verdict,
        standing=standing(verdict),
        text=claim_text(verdict),
        reasons=reasons(verdict),
        recovery=recovery(verdict),
        control=verdict.role is Role.CONTROL,
        anchor=anchors[verdict.begun_as],
        look=where_to_look(verdict) if undecided(verdict) else "",
    )


def _sections(history: History, rows: list[_Row], anchors: Mapping[str, str], limit: int) -> list[_Experiment]:
    """The experiments, those with the worst verdicts first; ``limit`` is shared out in that order."""
    order = list(dict.fromkeys([*(row.verdict.begun_as for row in rows), *anchors]))
    room = limit
    sections = []
    for name in order:
        mine = [row for row in rows if row.verdict.begun_as == name]
        view = history.experiment(name)
        facts = _facts(mine, anchors[name], view)
        shown = facts[: max(room, 0)]
        drawn = timeline(view, limit=max(room - len(shown), 0))
        room -= len(shown) + drawn.size()
        sections.append(
            _Experiment(
                name=in_words(name),
                anchor=anchors[name],
                open=any(row.standing not in (Standing.HOLDS, Standing.NOT_APPLICABLE) for row in mine),
                verdicts=mine,
                timeline=drawn,
                facts=shown,
                facts_dropped=len(facts) - len(shown),
            )
        )
    return sections


def _facts(rows: list[_Row], anchor: str, view: History) -> list[_Fact]:
    """The evidence of these verdicts, each entry once, in the order of the history."""
    faults = [fault.applied_at for fault in view.faults() if fault.applied_at is not None]
    zero = min(faults, default=view.since)
    items: dict[int, list[Evidence]] = {}
    for row in rows:
        for item in row.verdict.evidence:
            items.setdefault(item.entry, []).append(item)
    return [
        _Fact(
            entry=entry,
            anchor=f"{anchor}-e{entry}",
            at=f"{round(found[0].at - zero, 1) + 0.0:+.1f} s",  # no -0.0
            wall=f"{found[0].at:.1f} s",
            shows=list(dict.fromkeys(item.shows for item in found)),
        )
        for entry, found in sorted(items.items())
    ]


def _folders(files: Sequence[str]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The files by folder, that of the report first: name and link each."""
    folders: dict[str, list[tuple[str, str]]] = {"": []}
    for path in files:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append((name, quote(path)))
    return [(folder, links) for folder, links in folders.items() if links]


def _css(place: Standing) -> str:
    """A class name."""
    return place.value.replace(",", "").replace(" ", "-")


def _moment(value: object) -> str:
    """A time of ``run.json``: seconds since the epoch, or text that is shown as it is."""
    if isinstance(value, int | float):
        moment = datetime.fromtimestamp(value, tz=UTC)
    else:
        try:
            moment = datetime.fromisoformat(str(value or ""))
        except ValueError:
            return str(value or "")
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
