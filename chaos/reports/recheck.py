"""Judging a stored run again: the history says all, so a newer release's checks apply to an old run without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

from chaos import reports
from chaos.errors import UsageError
from chaos.history.reader import History
from chaos.judge import judge
from chaos.verdict import Verdict, exit_code
from chaos.versions.table import Table


def recheck(folder: Path) -> tuple[list[Verdict], int]:
    """Judge and rewrite the reports of a folder of results; the verdicts and their exit code."""
    try:
        run = json.loads((folder / "run.json").read_text())
        history = History.load(folder / "history.jsonl")
    except (OSError, ValueError) as problem:
        raise UsageError(
            f"{folder} is not a folder of results: {problem}", fix="give one, such as results/latest"
        ) from problem
    verdicts = judge(history, table=Table.load(), versions=run["versions"])
    reports.write_all(folder, history, verdicts, run)
    return verdicts, exit_code(verdicts)
