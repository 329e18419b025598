"""Reading manifests as people have them: several documents a file, lists, folders, standard input, rendered charts, JSON.

Read with the safe loader, and composed into nodes first, so that every field is known by its line. Documents that are
no Kubernetes objects (a values file, an empty document) are passed over; what is no YAML is an error that names file and
line. A chart or a Kustomize folder is refused: its files are pieces, and only what they are rendered to can be judged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from chaos.errors import UsageError
from chaos.estate.resource import Resource

STDIN = "-"
_MERGE = "<<"  # YAML's way to take in another mapping
# In one document; the API server takes less.
_MOST_VALUES = 100_000
_SUFFIXES = {".yaml", ".yml", ".json"}
_RENDER = {
    "Chart.yaml": "helm template {folder} | kuberay-chaos audit -",
    "kustomization.yaml": "kubectl kustomize {folder} | kuberay-chaos audit -",
    "kustomization.yml": "kubectl kustomize {folder} | kuberay-chaos audit -",
    "Kustomization": "kubectl kustomize {folder} | kuberay-chaos audit -",
}


def read(paths: Iterable[str]) -> list[Resource]:
    """The objects of all paths, in order. Raises UsageError that names the file, and the line where there is one."""
    found: list[Resource] = []
    for path in paths:
        if path == STDIN:
            found += parse(sys.stdin.buffer.read(), "<stdin>")
        else:
            try:
                for file in _files(Path(path)):
                    found += parse(file.read_bytes(), str(file))
            except OSError as error:
                what = str(error.filename or path)[:200]
                raise UsageError(f"{what} can't be read: {error.strerror}", fix="check the path") from error
    return found


def _files(path: Path) -> Iterator[Path]:
    if path.is_char_device() or path.is_block_device():
        raise UsageError(f"{path} is a device", fix="give a file, a folder, or - for standard input")
    if not path.is_dir():
        yield path
        return
    inside = sorted(p for p in path.rglob("*") if not any(part.startswith(".") for part in p.relative_to(path).parts))
    for file in inside:
        if file.name in _RENDER and file.is_file():
            raise UsageError(
                f"{file} says that its folder is to be rendered before anything can be said of it",
                fix=_RENDER[file.name].format(folder=file.parent),
            )
    yield from (file for file in inside if file.suffix in _SUFFIXES and file.is_file())


def parse(data: bytes, source: str) -> list[Resource]:
    """The objects in a stream of documents. Raises UsageError."""
    whole = _as_json(data)
    if whole is not None:
        data = data.replace(b"\t", b" ")  # between tokens only, in valid JSON; YAML allows none there
    found: list[Resource] = []
    try:
        loader = yaml.SafeLoader(data)
        try:
            while loader.check_node():
                node = loader.get_node()
                assert node is not None
                _require_plain(node, source)
                value = loader.construct_document(node)
                found += _objects(value, node, source)
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        # A position in the bytes when they could not be decoded, and else in the text.
        broken = error.encoding != "unicode"
        before = data[: error.position].decode(errors="replace") if broken else data.decode()[: error.position]
        line = before.count("\n") + 1
        raise UsageError(
            f"{source}:{line}: not text that YAML may have: {error.reason}",
            fix="save it as UTF-8" if broken else "take that character out",
        ) from error
    except yaml.MarkedYAMLError as error:
        raise _faulty(error, data, source) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{source}: no valid YAML: {error}", fix="correct it") from error
    return found


def _require_plain(document: yaml.Node, source: str) -> None:
    """Raises UsageError for what no API server takes: keys that come twice, more values than it reads, and a value in itself.

    A few lines can say any number of values, since YAML can repeat them by name.
    """
    sizes: dict[int, int] = {}  # by node, and 0 while it is being counted
    stack = [(document, False)]
    while stack:
        node, counted = stack.pop()
        children = _children(node)
        if counted:
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children)
            if sizes[id(node)] > _MOST_VALUES:
                raise _refused(node, source, "more values than the API server takes", "look at its YAML aliases")
        elif id(node) not in sizes:
            sizes[id(node)] = 0
            _require_keys_once(node, source)
            stack.append((node, True))
            stack += [(child, False) for child in children]
        elif sizes[id(node)] == 0:
            raise _refused(node, source, "contains itself", "correct its YAML aliases")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [value for _, value in node.value]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _require_keys_once(node: yaml.Node, source: str) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in seen and key.value != _MERGE:
                raise _refused(key, source, f"{key.value} a second time", "leave one of them")
            seen.add(key.value)


def _refused(node: yaml.Node, source: str, what: str, fix: str) -> UsageError:
    return UsageError(f"{source}:{node.start_mark.line + 1}: {what}", fix=fix)


def _as_json(data: bytes) -> Any:
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _faulty(error: yaml.MarkedYAMLError, data: bytes, source: str) -> UsageError:
    # Of a line that is no "key: value" the scanner complains one line later.
    late = error.problem == "could not find expected ':'"
    mark = (error.context_mark if late else None) or error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    templated = b"{{" in data
    return UsageError(
        f"{source}:{line}: no valid YAML: {error.problem or error.context}",
        fix="it is a template: render it first (`helm template`), and audit what comes out"
        if templated
        else "correct that line",
    )


def _objects(value: Any, node: yaml.Node | None, source: str) -> Iterator[Resource]:
    """The Kubernetes objects in a document: itself, or the items of a list of any kind."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _objects(item, _item(node, number), source)
        return
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or "apiVersion" not in value:
        return
    items = value.get("items")
    if value["kind"].endswith("List") and isinstance(items, list):
        for number, item in enumerate(items):
            # Items of a typed list may leave out what the list says.
            if isinstance(item, dict) and value["kind"] != "List":
                item.setdefault("kind", value["kind"].removesuffix("List"))
                item.setdefault("apiVersion", value["apiVersion"])
            yield from _objects(item, _item(_field(node, "items"), number), source)
        return
    yield Resource(value, source, node)


def _field(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if getattr(key, "value", None) == name), None)
    return None


def _item(node: yaml.Node | None, number: int) -> yaml.Node | None:
    return node.value[number] if isinstance(node, yaml.SequenceNode) and number < len(node.value) else None
