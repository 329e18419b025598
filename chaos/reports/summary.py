"""``summary.md``, what a CI job's page shows: the sentence, the counts, a table, worst first, how to reproduce."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from chaos.reports.ranking import ORDER, claim_text, counts, headline, recovery_text, standing, worst_first
from chaos.verdict import Role, Verdict

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")


def render(verdicts: Sequence[Verdict], run: Mapping[str, Any]) -> str:
    """The Markdown document. ``run`` is the content of ``run.json``."""
    found = counts(verdicts)
    lines = [
        f"## {_plain(headline(verdicts, interrupted=bool(run.get('interrupted'))))}",
        "",
        ", ".join(f"**{found[place]}** {place}" for place in ORDER if found[place]) or "**0** verdicts",
        "",
        ", ".join(f"{_plain(name)} {_plain(str(value))}" for name, value in (run.get("versions") or {}).items()),
        "",
    ]
    if verdicts:
        lines += ["| verdict | claim | experiment, arm | recovery | reason |", "|---|---|---|---|---|"]
        lines += [_row(verdict) for verdict in worst_first(verdicts)]
        lines.append("")
    if command := run.get("command"):
        seed = f" (seed {_plain(str(run['seed']))})" if run.get("seed") is not None else ""
        # Four-space indentation: no content can end an indented code block on its own line.
        lines += [f"To reproduce{seed}:", "", f"    {' '.join(str(command).split())}", ""]
    return "\n".join(lines)


def _row(verdict: Verdict) -> str:
    control = " (control)" if verdict.role is Role.CONTROL else ""
    reference = f" ({verdict.reference})" if verdict.reference else ""
    cells = (
        f"{standing(verdict)}{reference}",
        f"**{_plain(verdict.claim)}**{control} {_plain(claim_text(verdict))}",
        f"{_plain(verdict.experiment)}, {_plain(verdict.arm)}",
        _plain(recovery_text(verdict)),
        _plain(verdict.reason),
    )
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text as Markdown that shows just that text, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split())).replace(r"\<", "&lt;").replace(r"\>", "&gt;")
