"""The build cache: results are named by their content key and appear whole or not at all.

A key is a digest of everything that a result depends on, the recipe's own text included, so a result is re-made exactly
when an input changes. Builders work in a scratch folder and rename; an interrupted one leaves nothing that looks finished.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from chaos.errors import ImageError
from chaos.locks import hold
from chaos.paths import cache_dir


def key(*parts: object) -> str:
    """A digest of JSON-like parts, 16 hex digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Progress(Protocol):
    """Where a builder says what it is doing: a step of the console."""

    def say(self, text: str) -> None: ...


Make = Callable[[Path, Progress], None]
Show = Callable[[], AbstractContextManager[Progress]]


class _Silent:
    def say(self, text: str) -> None:
        return


def silent() -> AbstractContextManager[Progress]:
    """Shows nothing: for what takes no time worth showing."""
    return nullcontext(_Silent())


def cached(kind: str, name: str, make: Make, *, show: Show = silent) -> Path:
    """The file or folder ``<cache>/<kind>/<name>``; when it is missing, ``make(scratch, progress)`` creates it at ``scratch``.

    ``show`` opens a step of the console, and is called only when there is something to do. Two processes never make the same
    thing at once. Raises ImageError when the cache can't be written.
    """
    folder = cache_dir() / kind
    result = folder / name
    if result.exists():
        return result
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with hold(folder / f".{name}.lock", who=f"build of {name}", wait=3600):
            if result.exists():
                return result
            scratch = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder))
            try:
                made = scratch / "result"
                with show() as progress:
                    make(made, progress)
                os.replace(made, result)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except OSError as problem:
        raise ImageError(
            f"the build cache {folder} can't be written: {problem}",
            fix="free some disk space or set KUBERAY_CHAOS_CACHE to a folder with room; what is built so far is kept",
        ) from problem
    return result


def logs() -> Path:
    """Where the output of builders goes."""
    return cache_dir() / "logs"
