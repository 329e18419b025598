"""Reports: the same verdicts for machines (JSON, JUnit), for a CI page (Markdown) and for people (HTML)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.errors import StackError
from chaos.history.reader import History
from chaos.locks import atomic_write
from chaos.rates import rates
from chaos.reports import html, json_report, junit, summary
from chaos.verdict import Verdict

__all__ = ["write_all"]


def write_all(folder: Path, history: History, verdicts: Sequence[Verdict], run: Mapping[str, Any]) -> None:
    """Write ``verdicts.json``, ``junit.xml``, ``summary.md`` and ``report.html`` into ``folder``, over older ones.

    Where experiments were repeated, also ``rates.json``.

    ``run`` is the content of ``run.json``: ``versions`` (component to version), ``seed``, ``command``, ``started``,
    ``finished``, ``interrupted``. Whatever else is in the folder (history, logs) is linked from the HTML. A report that
    can't be made doesn't keep the others from being written; it is then named by the StackError that this raises.
    """

    def page() -> str:
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        return html.render(history, verdicts, run, files=[name for name in files if name != "report.html"])

    reports: list[tuple[str, Callable[[], str]]] = [
        ("verdicts.json", lambda: json_report.render(verdicts)),
        ("junit.xml", lambda: junit.render(verdicts)),
        ("summary.md", lambda: summary.render(verdicts, run)),
        ("report.html", page),
    ]
    if repeated := rates(verdicts):
        reports.insert(1, ("rates.json", lambda: json_report.render(repeated)))
    failed = []
    for name, render in reports:
        try:
            atomic_write(folder / name, render(), mode=0o644)  # to be passed on
        except Exception as problem:
            failed.append(f"{name} could not be written: {type(problem).__name__}: {problem}")
    if failed:
        raise StackError(
            "; ".join(failed), fix=f"the history is kept: `kuberay-chaos recheck {folder}` writes them again"
        )
