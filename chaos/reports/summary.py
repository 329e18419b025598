"""``summary.md``, what a CI job's page shows: the sentence, the counts, a table, worst first, how to reproduce.

A control that did its job is named below the table; one that didn't is a row like any other. Where experiments were
repeated, a table of rates comes first, and then the repetitions that did not hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from chaos.rates import Rate, rates
from chaos.repetition import in_words
from chaos.reports.ranking import (
    ARMS_EXPLAINED,
    MARKS,
    ORDER,
    RATES_EXPLAINED,
    Standing,
    claim_text,
    counts,
    headline,
    reasons,
    recovery_text,
    standing,
    undecided,
    where_to_look,
    worst_first,
    worst_of,
    worst_rate_first,
)
from chaos.verdict import Role, Verdict

_STEPS = 2  # of the recovery, the last ones
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")


def render(verdicts: Sequence[Verdict], run: Mapping[str, Any]) -> str:
    """The Markdown document. ``run`` is the content of ``run.json``."""
    found = counts(verdicts)
    lines = [
        f"## {_plain(headline(verdicts, interrupted=bool(run.get('interrupted'))))}",
        "",
        ", ".join(f"{MARKS[place]} **{found[place]}** {place}" for place in ORDER if found[place]) or "**0** verdicts",
        "",
        ", ".join(f"{_plain(name)} {_plain(str(value))}" for name, value in (run.get("versions") or {}).items()),
        "",
    ]
    if shards := run.get("shards"):
        lines += [f"{_plain(line)}  " for line in shards] + [""]
    if verdicts:
        lines += _rates(repeated) if (repeated := rates(verdicts)) else _verdicts(verdicts)
        lines += [f"{ARMS_EXPLAINED} Evidence and timelines are in report.html, all that was seen is beside it.", ""]
    for own in run.get("own") or []:
        lines += _own(own)
    if command := run.get("command"):
        seed = f" (seed {_plain(str(run['seed']))})" if run.get("seed") is not None else ""
        # Four-space indentation: no content can end an indented code block on its own line.
        lines += [f"To reproduce{seed}:", "", f"    {' '.join(str(command).split())}", ""]
    return "\n".join(lines)


def _verdicts(verdicts: Sequence[Verdict]) -> list[str]:
    """The table of verdicts, and the controls that did their job."""
    silent = [v for v in verdicts if v.role is Role.CONTROL and standing(v) is Standing.HOLDS]
    lines = _table([verdict for verdict in worst_first(verdicts) if verdict not in silent])
    if silent:
        named = ", ".join(f"{_plain(v.claim)} in {_plain(v.experiment)} ({_plain(v.arm)})" for v in silent)
        lines += [f"Controls that saw the opposite, as they must: {named}.", ""]
    return lines


def _table(verdicts: Sequence[Verdict]) -> list[str]:
    head = ["| verdict | claim | experiment, arm | what was seen | after the fault |", "|---|---|---|---|---|"]
    return [*head, *map(_row, verdicts), ""]


def _rates(repeated: Sequence[Rate]) -> list[str]:
    """The table of rates, controls among them, and that of the repetitions that came out otherwise than they should."""
    lines = [
        "| over all repetitions | 95 % interval | claim | experiment, arm | after the fault |",
        "|---|---|---|---|---|",
    ]
    for rate in worst_rate_first(repeated):
        worst = worst_of(rate)
        cells = (
            f"{MARKS[standing(worst)]} {rate}",
            rate.interval_text(),
            f"**{_plain(rate.claim)}** {_plain(claim_text(worst))}",
            f"{_plain(rate.experiment)}, {_plain(rate.arm)}",
            "<br>".join(_plain(f"{step.replace('_', ' ')} {spread}") for step, spread in rate.recovery[-_STEPS:]),
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", RATES_EXPLAINED, ""]
    good = (Standing.HOLDS, Standing.NOT_APPLICABLE)
    bad = [verdict for rate in repeated for verdict in rate.verdicts if standing(verdict) not in good]
    return lines + (_table(worst_first(bad)) if bad else [])


def _own(own: Mapping[str, Any]) -> list[str]:
    """What was made in the place of a manifest of ours, and how it differs from what the user gave."""
    lines = [
        f"{_plain(own['kind'])} **{_plain(own['name'])}** of {_plain(own['file'])} was made, with these changes:",
        "",
    ]
    lines += ["| field | from | to | why |", "|---|---|---|---|"]
    for change in own["changes"]:
        cells = (change["path"], change["from"] or "(not set)", change["to"] or "(removed)", change["why"])
        lines.append(f"| {' | '.join(map(_plain, cells))} |")
    lines.append("")
    for what, names in (("With it, in each namespace", own["beside"]), ("Left out", own["left_out"])):
        if names:
            lines += [f"{what}: {_plain(', '.join(names))}.", ""]
    return lines


def _row(verdict: Verdict) -> str:
    reference = f" ({_plain(verdict.reference)})" if verdict.reference else ""
    seen = [_plain(reason) for reason in reasons(verdict)]
    if undecided(verdict):
        seen.append(f"No entry decides it; where to look: {_plain(where_to_look(verdict))}")
    cells = (
        f"{MARKS[standing(verdict)]} {standing(verdict)}{reference}",
        f"**{_plain(verdict.claim)}** {_plain(claim_text(verdict))}",
        f"{_plain(in_words(verdict.begun_as))}, {_plain(verdict.arm)}",
        "<br>".join(seen),
        _plain(recovery_text(verdict, last=_STEPS)),
    )
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text as Markdown that shows just that text, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split())).replace(r"\<", "&lt;").replace(r"\>", "&gt;")
