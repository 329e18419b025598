"""The version table: what a version is known to do about a claim, as data.

A claim's sentence doesn't depend on versions; what to make of a verdict does. The rows are in ``table.yaml`` beside
this module, which also explains their fields. The first row that matches decides, so put the narrow one before the
wide one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from chaos.claims import CLAIMS
from chaos.errors import UsageError

COMPONENTS = ("kuberay", "ray", "kubernetes", "redis")
_FIELDS = {"claim", "arms", "versions", "kind", "expected", "reference", "note"}


class Kind(StrEnum):
    """What a row says of its versions."""

    DEFECT = "defect"
    ALLOWED = "allowed"
    NOT_OFFERED = "not offered"


@dataclass(frozen=True)
class Row:
    """One claim and version range. ``arms`` are shell patterns; an empty tuple is every arm."""

    claim: str
    versions: Mapping[str, SpecifierSet]
    kind: Kind
    expected: str
    reference: str = ""
    note: str = ""
    arms: tuple[str, ...] = ()

    def matches(self, claim: str, arm: str, versions: Mapping[str, Version]) -> bool:
        """Whether the row is about this arm on these versions; a component whose version isn't known doesn't match."""
        return (
            claim == self.claim
            and (not self.arms or any(fnmatchcase(arm, pattern) for pattern in self.arms))
            and all(name in versions and versions[name] in specifier for name, specifier in self.versions.items())
        )


@dataclass(frozen=True)
class Table:
    """The rows, in order."""

    rows: tuple[Row, ...]

    @classmethod
    def load(cls, path: Path | None = None) -> Table:
        """Read a table, the one that comes with this package by default. Raises UsageError that names the row."""
        source, data = _read(path)
        return cls(tuple(_row(number, item, source) for number, item in enumerate(data, start=1)))

    def row_for(self, claim: str, arm: str, versions: Mapping[str, str]) -> Row | None:
        """The first row about this arm on these versions (component to version, such as ``{"kuberay": "1.6.2"}``)."""
        parsed = parse_versions(versions)
        return next((row for row in self.rows if row.matches(claim, arm, parsed)), None)


def faults(path: Path | None = None) -> tuple[list[str], int]:
    """What is wrong with a table, one line a fault, and its number of rows. Raises UsageError when it is no list at all.

    Beyond what keeps a row from being read: a row that an earlier one of the same claim and versions always comes before.
    """
    source, data = _read(path)
    found, rows = [], []
    for number, item in enumerate(data, start=1):
        try:
            rows.append((number, _row(number, item, source)))
        except UsageError as error:
            found.append(str(error.args[0]))
    for at, (number, row) in enumerate(rows):
        for earlier, first in rows[:at]:
            if first.claim == row.claim and first.versions == row.versions and first.arms in ((), row.arms):
                found.append(
                    f"version table {source}, row {number} ({row.claim}): never reached, row {earlier} matches all it does"
                )
                break
    return found, len(data)


def _read(path: Path | None) -> tuple[Path, list[object]]:
    source = path or Path(__file__).with_name("table.yaml")
    try:
        data = yaml.safe_load(source.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"version table {source}, line {line}: {error.problem}", fix="correct that line") from error
    except OSError as error:
        raise UsageError(f"version table {source} can't be read: {error.strerror}", fix="check the path") from error
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise UsageError(
            f"version table {source} is no YAML: {error}", fix="correct it, or save it as UTF-8"
        ) from error
    if not isinstance(data, list) or not data:
        raise UsageError(
            f"version table {source}: expected a list of rows", fix="see docs/design.md for what a row has"
        )
    return source, data


def parse_versions(versions: Mapping[str, str]) -> dict[str, Version]:
    """Versions by component, those left out that are no version (a nightly build's name, say): no row is about them."""
    parsed: dict[str, Version] = {}
    for name, text in versions.items():
        try:
            parsed[name] = Version(text)
        except InvalidVersion:
            continue
    return parsed


def _row(number: int, item: object, source: Path) -> Row:
    where = f"version table {source}, row {number}"
    if not isinstance(item, dict):
        raise UsageError(f"{where}: expected a mapping")
    where += f" ({item.get('claim')})"
    if unknown := set(item) - _FIELDS:
        raise UsageError(f"{where}: unknown fields {sorted(map(str, unknown))}")
    if missing := {"claim", "versions", "kind", "expected"} - set(item):
        raise UsageError(f"{where}: missing fields {sorted(missing)}")
    if not isinstance(item["claim"], str) or item["claim"] not in CLAIMS:
        raise UsageError(f"{where}: no such claim")
    if not isinstance(item["kind"], str) or item["kind"] not in list(Kind):
        raise UsageError(f"{where}: kind {item['kind']!r} is none of {[str(kind) for kind in Kind]}")
    if not isinstance(item["expected"], str) or not item["expected"].strip():
        raise UsageError(f"{where}: expected is empty")
    arms = item.get("arms", [])
    if not isinstance(arms, list) or not all(isinstance(arm, str) for arm in arms):
        raise UsageError(f"{where}: arms is no list of names")
    kind, reference = Kind(item["kind"]), item.get("reference", "")
    if not isinstance(reference, str) or not isinstance(item.get("note", ""), str):
        raise UsageError(f"{where}: reference and note are texts")
    if kind is Kind.DEFECT and not reference:
        raise UsageError(f"{where}: a defect needs a reference, else it is a new finding")
    return Row(
        claim=item["claim"],
        versions=_ranges(item["versions"], where),
        kind=kind,
        expected=item["expected"].strip(),
        reference=reference,
        note=item.get("note", "").strip(),
        arms=tuple(arms),
    )


def _ranges(data: object, where: str) -> dict[str, SpecifierSet]:
    if not isinstance(data, dict) or not data:
        raise UsageError(f"{where}: versions is no mapping of component to range")
    ranges: dict[str, SpecifierSet] = {}
    for name, text in data.items():
        if name not in COMPONENTS:
            raise UsageError(f"{where}: component {name!r} is none of {list(COMPONENTS)}")
        try:
            ranges[name] = SpecifierSet(str(text), prereleases=True)
        except InvalidSpecifier as error:
            raise UsageError(f"{where}: {text!r} is no version range") from error
        if not str(text).strip():
            raise UsageError(f"{where}: the range of {name} is empty")
    return ranges
