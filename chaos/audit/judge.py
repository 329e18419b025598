"""Going through the checklist, and what its result is for the process's exit code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from chaos.audit.item import Answer, Finding, Inputs, Item
from chaos.audit.items import ITEMS
from chaos.errors import UsageError
from chaos.estate.raycluster import RayCluster
from chaos.verdict import Outcome

# Claims whose verdicts measure how long a head that was lost takes to come back with fault tolerance.
_RECOVERY_STEPS = ("functional", "ready")


def findings(inputs: Inputs) -> list[Finding]:
    """Every item that applies, for every Ray cluster, in the order of clusters and items."""
    return [
        Finding(item.id, item.title, str(cluster), _judged(item, cluster, inputs))
        for cluster in inputs.clusters
        for item in ITEMS
        if item.applies(cluster, inputs)
    ]


def _judged(item: Item, cluster: RayCluster, inputs: Inputs) -> Answer:
    try:
        return item.judge(cluster, inputs)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        # A manifest may be valid YAML and yet nothing that the API would take: a string where a list belongs.
        return Answer(
            Outcome.UNKNOWN,
            f"an object isn't of the form that the API has ({type(error).__name__}: {error})",
            (cluster.place(shows="or an object that goes with it"),),
            "validate it: kubectl apply --dry-run=server",
        )


def exit_code(found: Iterable[Finding]) -> int:
    """0 all hold, 1 something is broken, 2 nothing broken but something unknown."""
    outcomes = {finding.answer.outcome for finding in found}
    if Outcome.BROKEN in outcomes:
        return 1
    return 2 if Outcome.UNKNOWN in outcomes else 0


def measured_recovery(folder: Path) -> tuple[float, str]:
    """The longest recovery of a head with fault tolerance in a folder of results. Raises UsageError."""
    source = folder / "verdicts.json"
    try:
        verdicts = json.loads(source.read_text(encoding="utf-8"))
        taken = [
            float(verdict["recovery_seconds"][step])
            for verdict in verdicts
            if verdict["claim"] in {"FT-2", "FT-10"} and verdict["role"] == "claim"
            for step in _RECOVERY_STEPS
            if step in verdict["recovery_seconds"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UsageError(
            f"{folder} is not a folder of results: {problem}", fix="give one, such as results/latest"
        ) from problem
    if not taken:
        raise UsageError(
            f"{folder} has no measured recovery of a head with fault tolerance",
            fix="make one with `kuberay-chaos run -k head`",
        )
    return max(taken), str(source)
