"""The cluster that a reading command is about: one's own by ``--context`` or ``--kubeconfig``, else the harness's stack.

Without either option no kubeconfig of the user's is read.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

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
    file = arguments.kubeconfig or _ambient()
    if not file.is_file():
        raise UsageError(f"there is no kubeconfig {file}", fix="give another with --kubeconfig FILE")
    return _connected(file, arguments.context)


def _ambient() -> Path:
    """The first file that kubectl would read."""
    named = [word for word in os.environ.get("KUBECONFIG", "").split(os.pathsep) if word]
    return Path(named[0]).expanduser() if named else Path.home() / ".kube" / "config"


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
