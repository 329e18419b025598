"""Changing a copy of a Kubernetes object so that no change goes unlisted.

An `Edit` stands for one mapping in the copy. What is put into it or taken out of it becomes a `Change`, which names the field
as people do; items of a list are named by what Kubernetes knows them by, ``containers[ray-head].env[HOME]``, since their numbers
shift when one of them is taken out. What is of another shape than expected is passed over: the API server is who judges it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeGuard

from chaos.estate.resource import Object

_ABSENT = object()
_LONGEST = 60
# What tells an item from its neighbours: mounts share the name of their volume.
_NAMES = ("mountPath", "groupName", "name")


@dataclass(frozen=True)
class Change:
    """One field that is not as it was given; ``before`` or ``after`` is empty where it isn't there."""

    path: str
    before: str
    after: str
    why: str

    def as_json(self) -> dict[str, str]:
        return {"path": self.path, "from": self.before, "to": self.after, "why": self.why}


class Edit:
    """One mapping of the copy, by its path. Made by `of`, and from there by `child` and `items`."""

    def __init__(self, node: Object, path: str, changes: list[Change], attach: Callable[[], None]) -> None:
        self.node = node
        self.path = path
        self.changes = changes
        self._attach = attach

    @classmethod
    def of(cls, given: Object) -> Edit:
        """A copy of a whole object."""
        return cls(deepcopy(given), "", [], lambda: None)

    def child(self, key: str) -> Edit:
        """The mapping below a key; where there is none, one that is made when something is put into it."""
        found = self.node.get(key)
        if isinstance(found, dict):
            return Edit(found, self._at(key), self.changes, self._attach)
        fresh: Object = {}

        def attach() -> None:
            self._attach()
            if self.node.get(key) is not fresh:
                self.node[key] = fresh

        return Edit(fresh, self._at(key), self.changes, attach)

    def items(self, key: str) -> list[Edit]:
        """The mappings in the list below a key."""
        found = self.node.get(key)
        listed = enumerate(found if isinstance(found, list) else [])
        return [
            Edit(item, f"{self._at(key)}[{_label(item, number)}]", self.changes, self._attach)
            for number, item in listed
            if isinstance(item, dict)
        ]

    def put(self, key: str, value: object, why: str, *, after: str = "") -> None:
        """Give a field this value; ``after`` is what to say of one that isn't always this, which is listed in any case."""
        before = self.node.get(key, _ABSENT)
        if before == value and not after:
            return
        self._attach()
        self.node[key] = deepcopy(value)
        self._note(self._at(key), before, after or brief(value), why)

    def drop(self, key: str, why: str) -> None:
        """Take a field out."""
        if key in self.node:
            self._note(self._at(key), self.node.pop(key), "", why)

    def place(self, key: str, item: Object, why: str) -> None:
        """Put an item into a list, in the place of the ones by its name."""
        found = self.node.get(key)
        listed = found if isinstance(found, list) else []
        same = [number for number, each in enumerate(listed) if _label(each, -1) == _label(item, -2)]
        if [listed[number] for number in same] == [item]:
            return
        self._attach()
        at = same[0] if same else len(listed)
        rest = [each for number, each in enumerate(listed) if number not in same]
        self.node[key] = [*rest[:at], deepcopy(item), *rest[at:]]
        before = listed[at] if same else _ABSENT
        self._note(f"{self._at(key)}[{_label(item, at)}]", before, brief(item), why)

    def discard(self, key: str, item: Edit, why: str) -> None:
        """Take one of `items` out of its list."""
        listed = self.node[key]
        listed[:] = [each for each in listed if each is not item.node]
        self._note(item.path, item.node, "", why)

    def _at(self, key: str) -> str:
        return f"{self.path}.{key}".lstrip(".")

    def _note(self, path: str, before: object, after: str, why: str) -> None:
        self.changes.append(Change(path, "" if before is _ABSENT else brief(before), after, why))


def differences(before: object, after: object, path: str = "") -> Iterator[Change]:
    """What tells two JSON values apart, field by field and without a reason; lists of named items by name."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            yield from _differ(before.get(key, _ABSENT), after.get(key, _ABSENT), f"{path}.{key}".lstrip("."))
    elif _is_named(before) and _is_named(after):
        first, second = ({_label(item, n): item for n, item in enumerate(each)} for each in (before, after))
        for name in dict.fromkeys([*first, *second]):
            yield from _differ(first.get(name, _ABSENT), second.get(name, _ABSENT), f"{path}[{name}]")
    elif before != after:
        yield Change(path, brief(before), brief(after), "")


def _differ(before: object, after: object, path: str) -> Iterator[Change]:
    if before is _ABSENT or after is _ABSENT:
        old, new = ("" if each is _ABSENT else brief(each) for each in (before, after))
        yield Change(path, old, new, "")
    else:
        yield from differences(before, after, path)


def brief(value: object) -> str:
    """A value on one line that is not too long; of an item with a name only what is beside the name."""
    if isinstance(value, Mapping):
        beside = {key: item for key, item in value.items() if key != "name"}
        value = next(iter(beside.values())) if list(beside) == ["value"] else beside or value
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    text = " ".join(text.split()) or '""'
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _label(item: Any, number: int) -> str:
    if isinstance(item, Mapping):
        for key in _NAMES:
            if isinstance(item.get(key), str):
                return str(item[key])
    return str(number)


def _is_named(value: object) -> TypeGuard[Sequence[Any]]:
    return (
        isinstance(value, Sequence) and not isinstance(value, str) and all(_label(item, -1) != "-1" for item in value)
    )
