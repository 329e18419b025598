"""FT-13: outages are told apart by their length, so an arm must show that its fault was of the length that it is named by."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Finding, Outcome


@check
def fault_lasted(history: History, *, namespace: str, at_least: float) -> Finding:
    """The first fault in the namespace was in force for ``at_least`` seconds.

    Surely in force is a fault from its effect, as seen, to its undoing; surely not before it was applied and after it was
    undone. What lies between the two can't be told.
    """
    faults = [f for f in facts.applied(history) if f.steps["apply"].get("target", {}).get("namespace") == namespace]
    if not faults:
        raise Unjudged(f"no fault was applied in {namespace}")
    fault = faults[0]
    if fault.effect_at is None or fault.undo_at is None or fault.undone_at is None:
        raise Unjudged(f"{fault.name} was not seen to begin and to end")
    least, most = fault.undo_at - fault.effect_at, fault.undone_at - facts.applied_at(fault)
    told = f"{fault.name} in {namespace} was in force for {least:.1f} to {most:.1f} s"
    seen = (facts.fault_evidence(fault), facts.step_evidence(fault, "undone"))
    if least >= at_least:
        return Finding(Outcome.HOLDS, told, seen)
    if most < at_least:
        return Finding(Outcome.BROKEN, f"{told}, less than {at_least:g} s", seen)
    raise Unjudged(f"{told}: whether it was {at_least:g} s can't be told")
