"""FT-13: what an established connection went through, the proof that a partition is one.

A held-connection probe sends over one connection again and again. Each entry's value is ``{"stall": seconds, "error":
text or null}``: how long the answer that the entry ends with was waited for, and whether the connection broke.
"""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Injection, Probe
from chaos.verdict import Evidence, Finding, Outcome

# A retransmission after one lost segment takes 1 s and a second one 3 s: below 5 s is a network's everyday life.
EVERYDAY_STALL = 5.0


def _exchanges(history: History, probe: str) -> tuple[Injection, float, list[Probe]]:
    """The first fault, its end, and what the connection did since it was applied."""
    fault = facts.applied(history)[0]
    end = history.until if fault.undone_at is None else fault.undone_at
    entries = [
        e for e in history.probes("held-connection") if e.target.get("name") == probe and e.t >= facts.applied_at(fault)
    ]
    if not entries:
        raise Unjudged(f"connection {probe} was not watched during the fault")
    return fault, end, entries


def _require_heard(entries: list[Probe], end: float, probe: str) -> None:
    """Raise Unjudged when the last that was heard is older than an allowed stall: nobody knows what came then."""
    if (silent := end - entries[-1].t) > EVERYDAY_STALL:
        raise Unjudged(f"connection {probe} was last heard of {silent:.1f} s before the fault was over")


def _told(entry: Probe) -> Evidence:
    value = entry.value
    error = f", then {value['error']}" if value.get("error") else ""
    return facts.probe_evidence(entry, f"answer waited for {value['stall']:.1f} s{error}")


@check
def connection_stalled(history: History, *, probe: str, min_seconds: float) -> Finding:
    """One stall of the connection covers at least ``min_seconds`` of the time during which the first fault acted.

    Give the length of the hold, less what the probe's interval and the fault's application may cost.
    """
    fault, end, entries = _exchanges(history, probe)
    start = facts.applied_at(fault)
    covered = [(min(entry.t, end) - max(entry.t - entry.value["stall"], start), entry) for entry in entries]
    longest, entry = max(covered, key=lambda pair: pair[0])
    seen = (facts.fault_evidence(fault), _told(entry))
    if longest >= min_seconds:
        return Finding(Outcome.HOLDS, f"connection {probe} stalled for {longest:.1f} s of the fault", seen)
    broke = next((e for e in entries if e.value.get("error")), None)
    if broke is not None:
        reason = f"connection {probe} broke instead of stalling: {broke.value['error']}"
        return Finding(Outcome.BROKEN, reason, (*seen, _told(broke)))
    if fault.undone_at is None and history.until - start < min_seconds:
        raise Unjudged(f"too early to tell: watched {history.until - start:.1f} s of {min_seconds:.1f} s")
    reason = f"connection {probe} stalled for only {max(longest, 0.0):.1f} s of the fault, expected {min_seconds:.1f} s"
    return Finding(Outcome.BROKEN, reason, seen)


@check
def connection_broken(history: History, *, probe: str) -> Finding:
    """The connection broke while the first fault acted, as one does that is reset or closed; one that stalls does not."""
    fault, end, entries = _exchanges(history, probe)
    broke = next((e for e in entries if e.value.get("error")), None)
    if broke is None:
        _require_heard(entries, end, probe)
        worst = max(entries, key=lambda entry: float(entry.value["stall"]))
        reason = f"connection {probe} did not break, longest wait {worst.value['stall']:.1f} s"
        return Finding(Outcome.BROKEN, reason, (facts.fault_evidence(fault), _told(worst)))
    seen = (facts.fault_evidence(fault), _told(broke))
    if broke.t > end:
        reason = f"connection {probe} broke only {broke.t - end:.1f} s after the fault was over: {broke.value['error']}"
        return Finding(Outcome.BROKEN, reason, seen)
    after = broke.t - facts.applied_at(fault)
    return Finding(
        Outcome.HOLDS, f"connection {probe} broke {after:.1f} s after the fault: {broke.value['error']}", seen
    )


@check
def connection_kept(history: History, *, probe: str) -> Finding:
    """The connection did not break, and never waited more than 5 s for an answer, from the fault to the end."""
    fault, end, entries = _exchanges(history, probe)
    for entry in entries:
        if entry.value.get("error"):
            reason = f"connection {probe} broke: {entry.value['error']}"
            return Finding(Outcome.BROKEN, reason, (facts.fault_evidence(fault), _told(entry)))
        if entry.value["stall"] > EVERYDAY_STALL:
            reason = f"connection {probe} stalled for {entry.value['stall']:.1f} s"
            return Finding(Outcome.BROKEN, reason, (facts.fault_evidence(fault), _told(entry)))
    _require_heard(entries, end, probe)
    worst = max(entries, key=lambda entry: float(entry.value["stall"]))
    reason = f"connection {probe} kept, longest wait {worst.value['stall']:.1f} s"
    return Finding(Outcome.HOLDS, reason, (facts.fault_evidence(fault), _told(worst), _told(entries[-1])))
