"""Reports: the same verdicts for machines (JSON, JUnit), for a CI page (Markdown) and for people (HTML)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.history.reader import History
from chaos.reports import html, json_report, junit, summary
from chaos.verdict import Verdict

__all__ = ["write_all"]


def write_all(folder: Path, history: History, verdicts: Sequence[Verdict], run: Mapping[str, Any]) -> None:
    """Write ``verdicts.json``, ``junit.xml``, ``summary.md`` and ``report.html`` into ``folder``, over older ones.

    ``run`` is the content of ``run.json``: ``versions`` (component to version), ``seed``, ``command``, ``started``,
    ``finished``, ``interrupted``. Whatever else is in the folder (history, logs) is linked from the HTML. Raises
    OSError.
    """
    for name, content in (
        ("verdicts.json", json_report.render(verdicts)),
        ("junit.xml", junit.render(verdicts)),
        ("summary.md", summary.render(verdicts, run)),
    ):
        (folder / name).write_text(content, encoding="utf-8")
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    page = html.render(history, verdicts, run, files=[name for name in files if name != "report.html"])
    (folder / "report.html").write_text(page, encoding="utf-8")
