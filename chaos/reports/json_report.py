"""``verdicts.json`` and ``rates.json``: verdicts, and what repetitions come to, for machines; one object each, in order."""

from __future__ import annotations

import json
from collections.abc import Iterable

from chaos.rates import Rate
from chaos.verdict import Verdict


def render(entries: Iterable[Verdict] | Iterable[Rate]) -> str:
    """A JSON list of what each says as JSON."""
    return json.dumps([entry.as_json() for entry in entries], indent=2, ensure_ascii=False) + "\n"
