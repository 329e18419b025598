"""Judging a stored run again: the history says all, so a newer release's checks apply to an old run without a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from chaos import reports
from chaos.claims import CLAIMS
from chaos.errors import UsageError
from chaos.history.reader import History
from chaos.judge import judge
from chaos.verdict import Verdict, exit_code
from chaos.versions.table import Table


def recheck(folder: Path, tell: Callable[[str], None] = lambda text: None) -> tuple[list[Verdict], int]:
    """Judge, and replace the reports of a folder of results; the verdicts and their exit code.

    Raises UsageError, and leaves the reports as they are, when the history is not whole: what is missing from its middle may be
    what a verdict rests on, and of one that holds no experiment nothing can be said.
    """
    try:
        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        versions = {str(name): str(version) for name, version in run["versions"].items()}
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as problem:
        raise UsageError(
            f"{folder} is not a folder of results: run.json: {type(problem).__name__}: {problem}",
            fix="give one, such as results/latest",
        ) from problem
    history = History.load(folder / "history.jsonl")
    _require_whole(history, folder)
    if history.torn:
        tell("the last line of the history was cut off, as by the end of a run that was killed; it is left out")
    verdicts = judge(history, table=Table.load(), versions=versions)
    _require_known(verdicts, folder)
    reports.write_all(folder, history, verdicts, run)
    return verdicts, exit_code(verdicts)


def _require_whole(history: History, folder: Path) -> None:
    """Raises UsageError. A last line that was cut off is no fault: it is what a run that was killed leaves."""
    if not history.experiments:
        raise UsageError(
            f"the history in {folder} has no experiment", fix="its reports stay; give another run's folder"
        )
    for number, entry in enumerate(history.entries):
        if entry["n"] != number:
            raise UsageError(
                f"the history in {folder} is not whole: line {number + 1} is entry {entry['n']}, not {number}",
                fix="its reports stay; use the file as the run wrote it",
            )


def _require_known(verdicts: list[Verdict], folder: Path) -> None:
    if unknown := sorted({verdict.claim for verdict in verdicts} - CLAIMS.keys()):
        raise UsageError(
            f"the history in {folder} is about {', '.join(unknown)}, which this release doesn't know",
            fix="use the release that wrote it, or the file as the run wrote it",
        )
