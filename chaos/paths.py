"""Where things are kept: build cache, state of stacks, and the manifests that ship with the package.

Nothing but results is written into the current folder.

========= ============================== ==========================================================================
what      variable                       default
========= ============================== ==========================================================================
cache     ``KUBERAY_CHAOS_CACHE``        ``$XDG_CACHE_HOME/kuberay-chaos`` or ``~/.cache/kuberay-chaos``: images, programs,
                                         keyed by content; safe to delete when nothing runs
state     ``KUBERAY_CHAOS_STATE``        ``$XDG_STATE_HOME/kuberay-chaos`` or ``~/.local/state/kuberay-chaos``: one folder a
                                         stack (kubeconfig, undo log, ledger, audit log), one for our own engine
========= ============================== ==========================================================================
"""

from __future__ import annotations

import os
from pathlib import Path

from chaos.errors import UsageError


def expanded(text: str) -> Path:
    """A path as it was typed, with ``~`` written out. Raises UsageError for a user that doesn't exist."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{text}: {error}", fix="write the whole path") from error


def nearest(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    place = path.absolute()
    return next(each for each in (place, *place.parents) if each.exists())


def _base(variable: str, xdg: str, fallback: str) -> Path:
    if chosen := os.environ.get(variable):
        return expanded(chosen)
    home = os.environ.get(xdg)
    return (Path(home) if home else Path.home() / fallback) / "kuberay-chaos"


def cache_dir() -> Path:
    """The build cache, shared by every stack."""
    return _base("KUBERAY_CHAOS_CACHE", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """State of stacks and of an engine that we started."""
    return _base("KUBERAY_CHAOS_STATE", "XDG_STATE_HOME", ".local/state")


def stack_dir(name: str) -> Path:
    """The folder of one stack."""
    return state_dir() / "stacks" / name


def manifests() -> Path:
    """The folder of manifests: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).parent
    installed = package / "_manifests"
    return installed if installed.is_dir() else package.parent / "manifests"
