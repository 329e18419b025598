"""``verdicts.json``: the verdicts for machines, one object each, in the order in which they were reached."""

from __future__ import annotations

import json
from collections.abc import Iterable

from chaos.verdict import Verdict


def render(verdicts: Iterable[Verdict]) -> str:
    """A JSON list of ``Verdict.as_json()``."""
    return json.dumps([verdict.as_json() for verdict in verdicts], indent=2, ensure_ascii=False) + "\n"
