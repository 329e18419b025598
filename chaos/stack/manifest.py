"""Manifests with placeholders.

A placeholder is ``${NAME}`` in capitals. It is replaced after the YAML was parsed, inside its strings, so no value can
change a document's structure and none needs quoting. A string that is nothing but a placeholder becomes the value
itself, of its own type: ``replicas: ${WORKERS}`` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

Value = str | int | bool

_PLACEHOLDER = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


def render(path: Path, values: Mapping[str, Value] | None = None) -> list[dict[str, Any]]:
    """The documents of a manifest, each placeholder replaced.

    Raises `ValueError` for a placeholder without a value and for a value without a placeholder.
    """
    given = dict(values or {})
    used: set[str] = set()

    def look_up(name: str) -> Value:
        if name not in given:
            raise ValueError(f"{path.name}: no value for ${{{name}}}")
        used.add(name)
        return given[name]

    def fill(node: Any) -> Any:
        match node:
            case str() if whole := _PLACEHOLDER.fullmatch(node):
                return look_up(whole[1])
            case str():
                return _PLACEHOLDER.sub(lambda found: str(look_up(found[1])), node)
            case list():
                return [fill(item) for item in node]
            case dict():
                return {fill(key): fill(item) for key, item in node.items()}
            case _:
                return node

    documents = [fill(document) for document in yaml.safe_load_all(path.read_text("utf-8")) if document is not None]
    if unused := given.keys() - used:
        raise ValueError(f"{path.name}: no placeholder for {', '.join(sorted(unused))}")
    return documents
