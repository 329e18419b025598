"""The cluster that a reading command is about: one's own by ``--context`` or ``--kubeconfig``, else the harness's stack.

Without either option no kubeconfig of the user's is read.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import yaml

from chaos import paths
from chaos.errors import StackError, UsageError
from chaos.settings import Settings
from chaos.stack.cluster import Cluster


def given(arguments: argparse.Namespace) -> bool:
    """Whether a cluster was named."""
    return bool(arguments.context or arguments.kubeconfig)


def cluster(arguments: argparse.Namespace) -> Cluster:
    """The handle to it. Raises UsageError."""
    if not given(arguments):
        file = paths.stack_dir(Settings().name) / "kubeconfig"
        if not file.is_file():
            raise UsageError(
                "no cluster was named, and no stack is up", fix="give --context NAME, or --kubeconfig FILE"
            )
        return _connected(file, None)
    file = arguments.kubeconfig or _ambient(arguments.context)
    if not file.is_file():
        raise UsageError(f"there is no kubeconfig {file}", fix="give another with --kubeconfig FILE")
    return _connected(file, arguments.context)


def _ambient(context: str) -> Path:
    """Of the files that kubectl would read, the first that has the context; where none has, the first that is there."""
    named = [paths.expanded(word) for word in os.environ.get("KUBECONFIG", "").split(os.pathsep) if word]
    files = named or [Path.home() / ".kube" / "config"]
    there = [file for file in files if file.is_file()]
    return next((file for file in there if context in _contexts(file)), (there or files)[0])


def _contexts(file: Path) -> set[str]:
    """Names of a file's contexts; none where it can't be read, which is told of the one that is chosen."""
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        return {str(item["name"]) for item in document["contexts"]}
    except (OSError, ValueError, yaml.YAMLError, RecursionError, KeyError, TypeError):
        return set()


def _kubectl() -> str:
    """The program; of a stack that was built here it may be in the cache alone."""
    found = shutil.which("kubectl")
    cached = () if found else paths.cache_dir().glob("**/kubectl")
    return found or next((str(file) for file in cached if file.is_file() and os.access(file, os.X_OK)), "kubectl")


def _connected(file: Path, context: str | None) -> Cluster:
    try:
        return Cluster(context or file.stem, file, _kubectl(), context=context)
    except StackError as error:
        raise UsageError(str(error.args[0]), fix=error.fix or "see that the context is in that kubeconfig") from error
    except (ValueError, RecursionError, OSError) as error:
        raise UsageError(
            f"{file} is not a kubeconfig: {type(error).__name__}", fix="`kubectl config view` shows what one looks like"
        ) from error
