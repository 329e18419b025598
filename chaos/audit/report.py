"""The checklist's result for people, for programs, and for CI (SARIF 2.1.0)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from chaos import __version__
from chaos.audit.item import Finding
from chaos.audit.items import ITEMS
from chaos.estate.resource import Place
from chaos.verdict import Outcome

_ORDER = [Outcome.BROKEN, Outcome.UNKNOWN, Outcome.HOLDS]
# The standard has a level for what failed alone. "open" is: not enough is known to tell.
_LEVEL = {Outcome.BROKEN: "error", Outcome.UNKNOWN: "none", Outcome.HOLDS: "none"}
_KIND = {Outcome.BROKEN: "fail", Outcome.UNKNOWN: "open", Outcome.HOLDS: "pass"}
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def text(found: Iterable[Finding]) -> str:
    """For people: worst first in each Ray cluster, evidence and fix where there is something to do."""
    findings = list(found)
    lines: list[str] = []
    for subject in dict.fromkeys(f.subject for f in findings):
        lines.append(subject)
        own = [f for f in findings if f.subject == subject]
        for finding in sorted(own, key=lambda f: _ORDER.index(f.answer.outcome)):
            answer = finding.answer
            lines.append(f"  {answer.outcome.upper():7}  {finding.item}: {answer.reason}")
            if answer.outcome is not Outcome.HOLDS:
                lines += [f"           at {place}" for place in answer.evidence]
                lines += [f"           fix: {answer.fix}"] if answer.fix else []
    counts = ", ".join(f"{sum(f.answer.outcome is o for f in findings)} {o}" for o in _ORDER)
    return "\n".join([*lines, f"{len(findings)} items: {counts}"])


def as_json(found: Iterable[Finding]) -> str:
    """A JSON list of objects."""
    return json.dumps([finding.as_json() for finding in found], indent=2)


def sarif(found: Iterable[Finding]) -> str:
    """A SARIF 2.1.0 log of one run; what holds is in it too, as passed."""
    rules = [{"id": i.id, "shortDescription": {"text": i.title}, "help": {"text": i.title}} for i in ITEMS]
    driver = {
        "name": "kuberay-chaos",
        "version": __version__,
        "rules": rules,
    }
    order = [rule["id"] for rule in rules]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, order) for finding in found],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _result(finding: Finding, order: list[Any]) -> dict[str, Any]:
    answer = finding.answer
    message = f"{finding.subject}: {answer.reason}" + (f". Fix: {answer.fix}" if answer.fix else "")
    result: dict[str, Any] = {
        "ruleId": finding.item,
        "ruleIndex": order.index(finding.item),
        "level": _LEVEL[answer.outcome],
        "kind": _KIND[answer.outcome],
        "message": {"text": message},
        # Lines move; what a finding is about doesn't.
        "partialFingerprints": {"itemAndSubject/v1": f"{finding.item}:{finding.subject}"},
    }
    locations = [_location(place) for place in answer.evidence]
    if locations:
        # A viewer shows a result at its first location, and the others beside it.
        result["locations"] = locations[:1]
        if len(locations) > 1:
            result["relatedLocations"] = [{"id": n, **at} for n, at in enumerate(locations[1:], 1)]
    return result


def _location(place: Place) -> dict[str, Any]:
    logical = {"fullyQualifiedName": f"{place.object}/{place.field}" if place.field else place.object, "kind": "object"}
    found: dict[str, Any] = {"logicalLocations": [logical], "message": {"text": f"{place.field}: {place.shows}"}}
    if place.line is not None and not place.source.startswith("<"):
        found["physicalLocation"] = {
            "artifactLocation": {"uri": _uri(place.source)},
            "region": {"startLine": place.line},
        }
    return found


def _uri(path: str) -> str:
    """A relative reference for a relative path, as CI wants it; else a file URI."""
    pure = PurePath(path)
    return pure.as_uri() if pure.is_absolute() else quote(pure.as_posix())
