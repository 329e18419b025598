"""All faults there are, by name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from difflib import get_close_matches

import chaos.faults
from chaos.errors import UsageError
from chaos.faults.base import Fault


def known_faults() -> dict[str, type[Fault]]:
    """Every fault of this package."""
    modules = [importlib.import_module(m.name) for m in pkgutil.iter_modules(chaos.faults.__path__, "chaos.faults.")]
    found = [each for module in modules for _, each in inspect.getmembers(module, inspect.isclass)]
    return {each.name: each for each in found if issubclass(each, Fault) and not inspect.isabstract(each)}


def require_known(name: str) -> None:
    """Raises UsageError when there is no fault of that name."""
    names = sorted(known_faults())
    if name not in names:
        near = get_close_matches(name, names, n=1)
        raise UsageError(
            f"there is no fault named {name!r}",
            fix=f"one of {', '.join(names)}" + (f"; did you mean {near[0]}?" if near else ""),
        )
