"""One Kubernetes object and where each of its fields is written.

Objects from manifests know the file, and for each field the line; objects from a cluster know the cluster alone. A
`Place` is evidence: enough to find the spot again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import yaml

Object = dict[str, Any]
Step = str | int


@dataclass(frozen=True)
class Place:
    """A field of an object. ``line`` is that of the field, or of the nearest one above it that is written down."""

    source: str  # the file, or the cluster
    line: int | None
    object: str
    field: str
    shows: str

    def as_json(self) -> Object:
        """A dict of JSON types."""
        return asdict(self)

    def __str__(self) -> str:
        at = self.source if self.line is None else f"{self.source}:{self.line}"
        return (
            f"{at}  {self.object}  {self.field}: {self.shows}" if self.field else f"{at}  {self.object}: {self.shows}"
        )


@dataclass(frozen=True)
class Resource:
    """One object. ``node`` is its YAML node, None for what didn't come from YAML."""

    obj: Object
    source: str
    node: yaml.Node | None = None

    @property
    def kind(self) -> str:
        return str(self.obj.get("kind") or "")

    @property
    def metadata(self) -> Object:
        found = self.obj.get("metadata")
        return found if isinstance(found, dict) else {}

    @property
    def name(self) -> str:
        return str(self.metadata.get("name") or self.metadata.get("generateName") or "")

    @property
    def namespace(self) -> str:
        """Its namespace; empty when a manifest leaves it to whoever applies it."""
        return str(self.metadata.get("namespace") or "")

    @property
    def labels(self) -> dict[str, str]:
        return dict(at(self.obj, "metadata", "labels") or {})

    @property
    def annotations(self) -> dict[str, str]:
        return dict(at(self.obj, "metadata", "annotations") or {})

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def get(self, *path: Step) -> Any:
        """The value at a path, None when there is none."""
        return at(self.obj, *path)

    def place(self, *path: Step, shows: str = "") -> Place:
        """Evidence: the field at a path, and by default its value."""
        value = self.get(*path)
        return Place(self.source, self._line(path), str(self), dotted(path), shows or _brief(value))

    def _line(self, path: tuple[Step, ...]) -> int | None:
        node = self.node
        if node is None:
            return None
        line = node.start_mark.line
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            line, node = found
        return int(line) + 1


def at(value: Any, *path: Step) -> Any:
    """The value at a path into nested dicts and lists; None when the path leads nowhere."""
    for step in path:
        in_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if not in_list and not (isinstance(value, Mapping) and step in value):
            return None
        value = value[step]
    return value


def dotted(path: tuple[Step, ...]) -> str:
    """A path as people write it: ``spec.containers[0].env``."""
    words = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(words).lstrip(".")


def _child(node: yaml.Node, step: Step) -> tuple[int, yaml.Node] | None:
    """The line that names a child, and the child."""
    if isinstance(node, yaml.MappingNode):
        # Merged keys were put first by the constructor, so the last of a name is the one that counts.
        for key, value in reversed(node.value):
            if isinstance(key, yaml.ScalarNode) and key.value == str(step):
                return key.start_mark.line, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        child: yaml.Node = node.value[step]
        return child.start_mark.line, child
    return None


def _brief(value: Any) -> str:
    if value is None:
        return "not set"
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
