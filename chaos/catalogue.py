"""What there is to run: claim, experiment, arms, level and expected time, as the experiments declare them."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable
from dataclasses import asdict, dataclass

import chaos.experiments
from chaos.claims import CLAIMS
from chaos.experiment import MARKER, Declaration


@dataclass(frozen=True)
class Offer:
    """One claim as one experiment shows it; ``seconds`` is what the whole experiment usually takes."""

    claim: str
    experiment: str
    arms: list[str]
    level: str
    seconds: int


def offers() -> list[Offer]:
    """All of them, in the order of the claims."""
    found = [offer for name, declared, _ in declarations() for offer in _offers(name, declared)]
    order = list(CLAIMS)
    return sorted(found, key=lambda offer: (order.index(offer.claim), offer.experiment))


def declarations() -> list[tuple[str, Declaration, Callable[..., object]]]:
    """Every experiment: its name, what it declares, and the function."""
    found = []
    for module in pkgutil.iter_modules(chaos.experiments.__path__, "chaos.experiments."):
        for name, value in vars(importlib.import_module(module.name)).items():
            for mark in getattr(value, "pytestmark", []):
                if mark.name == MARKER and name.startswith("test_"):
                    found.append((name.removeprefix("test_"), mark.args[0], value))
    return found


def _offers(name: str, declared: Declaration) -> list[Offer]:
    claims = dict.fromkeys(claim for claim, _ in declared.shows)
    return [
        Offer(claim, name, [arm for c, arm in declared.shows if c == claim], str(declared.level), declared.seconds)
        for claim in claims
    ]


def listing(*, as_json: bool) -> str:
    """A table for people, or a JSON list of objects."""
    if as_json:
        return json.dumps([asdict(offer) for offer in offers()], indent=2)
    rows = [(o.claim, o.experiment, ", ".join(o.arms), o.level, f"{o.seconds} s", CLAIMS[o.claim]) for o in offers()]
    head = ("claim", "experiment", "arms", "level", "takes", "what it says")
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head) - 1)]
    lines = ["  ".join([*(f"{row[i]:<{w}}" for i, w in enumerate(widths)), row[-1]]) for row in [head, *rows]]
    return "\n".join(lines)
