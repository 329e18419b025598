"""From a history to its verdicts: one for each (claim, experiment, arm), controls among them; each repetition by itself.

The history holds what each experiment expected: the checks of an arm and, with some, a *control*: the same kind of
check pointed where the opposite must be seen. The order of the rules, the first that applies decides:

1. the version table says that the claim isn't offered: not applicable;
2. a fault had no effect, the experiment ended in an error, or it never came to say what it expected: unknown;
3. a control did not bite (one of its checks wasn't broken): it, and the arm it controls, are unknown, since a check
   that can't fail shows nothing;
4. a check is broken: broken; a check is unknown: unknown; else holds.

Then the table sets the judgement. It never touches a control, whose job is to break.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from chaos.checks.base import Check
from chaos.history.reader import History
from chaos.repetition import parts
from chaos.verdict import Evidence, Finding, Judgement, Outcome, Role, Verdict
from chaos.versions.table import Kind, Row, Table


@dataclass
class _Arm:
    """What one experiment expects of one arm of one claim."""

    claim: str
    name: str
    checks: list[Check] = field(default_factory=list)
    controls: dict[str, list[Check]] = field(default_factory=dict)  # by the control arm's name


def judge(history: History, *, table: Table, versions: Mapping[str, str]) -> list[Verdict]:
    """All verdicts, by experiment in the order in which they began; of an experiment's view, those of it alone.

    ``versions`` is component to version, as the run had them. Raises UsageError for an expectation that is no check.
    """
    verdicts: list[Verdict] = []
    for experiment in [history.name] if history.name else history.experiments:
        view = history.experiment(experiment)
        blocked = _blocked(view)
        for arm in _arms(view):
            controls = [_control(view, experiment, arm, name, blocked) for name in arm.controls]
            verdict = _claim(view, experiment, arm, blocked or _toothless(controls))
            row = table.row_for(arm.claim, arm.name, versions)
            verdicts.append(_judged(verdict, row))
            if row is not None and row.kind is Kind.NOT_OFFERED:
                controls = [_not_applicable(control, row) for control in controls]
            verdicts.extend(controls)
    return verdicts


def _arms(view: History) -> list[_Arm]:
    """The arms that were declared when the experiment began and those that were expected, each once."""
    arms: dict[tuple[str, str], _Arm] = {}
    for phase in view.phases("begin"):
        for claim, name in phase.detail.get("claims", []):
            arms.setdefault((claim, name), _Arm(claim, name))
    for expect in view.expects():
        arm = arms.setdefault((expect.claim, expect.arm), _Arm(expect.claim, expect.arm))
        arm.checks += map(Check.from_json, expect.checks)
        if control := expect.control:
            arm.controls.setdefault(control["arm"], []).extend(map(Check.from_json, control["checks"]))
    return list(arms.values())


def _blocked(view: History) -> Finding | None:
    """Why nothing that this experiment expected can be judged, if so."""
    for fault in view.faults():
        if entry := fault.steps.get("no-effect"):
            seen = Evidence(entry["n"], entry["t"], f"fault {fault.name} had no effect")
            return Finding(Outcome.UNKNOWN, f"no effect: {fault.name}: {_text(entry['detail'])}", (seen,))
    for phase in view.phases("error"):
        seen = Evidence(phase.n, phase.t, "the experiment ended in an error")
        return Finding(Outcome.UNKNOWN, f"the experiment ended in an error: {_text(phase.detail)}", (seen,))
    return None


def _text(detail: object) -> str:
    """A step's detail for a reader: its one text if it has one, else its items."""
    if not isinstance(detail, dict):
        return str(detail)
    for key in ("error", "reason", "message", "seen"):
        if detail.get(key):
            return str(detail[key])
    return ", ".join(f"{key} {value}" for key, value in detail.items()) or "no detail"


def _claim(view: History, experiment: str, arm: _Arm, blocked: Finding | None) -> Verdict:
    if blocked:
        finding = blocked
    elif not arm.checks:
        finding = Finding(Outcome.UNKNOWN, "the experiment never came to say what it expected")
    else:
        finding = combine(check.judge(view) for check in arm.checks)
    return _verdict(finding, arm.claim, experiment, arm.name, Role.CLAIM)


def combine(findings: Iterable[Finding]) -> Finding:
    """One finding of several: broken if any is, else unknown if any is, else holds; with the reasons of those."""
    every = list(findings)
    outcomes = [finding.outcome for finding in every]
    outcome = next(o for o in (Outcome.BROKEN, Outcome.UNKNOWN, Outcome.HOLDS) if o in outcomes)
    deciding = [finding for finding in every if finding.outcome is outcome]
    recovery: dict[str, float] = {}
    for finding in every:
        recovery |= finding.recovery_seconds
    return Finding(
        outcome,
        "; ".join(dict.fromkeys(finding.reason for finding in deciding)),
        tuple(sorted({item for finding in deciding for item in finding.evidence}, key=lambda e: (e.entry, e.shows))),
        recovery,
    )


def _control(view: History, experiment: str, arm: _Arm, name: str, blocked: Finding | None) -> Verdict:
    """A control holds when every one of its checks came out broken."""
    if blocked:
        return _verdict(blocked, arm.claim, experiment, name, Role.CONTROL)
    findings = [check.judge(view) for check in arm.controls[name]]
    blunt = [finding for finding in findings if finding.outcome is not Outcome.BROKEN]
    if blunt or not findings:
        told = "; ".join(finding.reason for finding in blunt) or "it has no checks"
        seen = tuple(item for finding in blunt for item in finding.evidence)
        finding = Finding(Outcome.UNKNOWN, f"control did not bite: {told}", seen)
    else:
        finding = replace(combine(findings), outcome=Outcome.HOLDS)
        finding = replace(finding, reason=f"the opposite was seen, as it must be: {finding.reason}")
    verdict = _verdict(finding, arm.claim, experiment, name, Role.CONTROL)
    return replace(verdict, judgement=Judgement.AS_DOCUMENTED) if verdict.verdict is Outcome.HOLDS else verdict


def _toothless(controls: list[Verdict]) -> Finding | None:
    """The finding of an arm of which a control did not bite."""
    for control in controls:
        if control.verdict is not Outcome.HOLDS:
            return Finding(Outcome.UNKNOWN, f"{control.reason} (control arm {control.arm})", control.evidence)
    return None


def _judged(verdict: Verdict, row: Row | None) -> Verdict:
    """The verdict with what the version table makes of it."""
    if row is not None and row.kind is Kind.NOT_OFFERED:
        return _not_applicable(verdict, row)
    if verdict.verdict is Outcome.HOLDS:
        return replace(verdict, judgement=Judgement.AS_DOCUMENTED)
    if verdict.verdict is Outcome.UNKNOWN:
        return verdict
    if row is None:
        return replace(verdict, judgement=Judgement.NEW_FINDING)
    if row.kind is Kind.ALLOWED:
        reason = f"{verdict.reason} (allowed on this version: {row.expected})"
        return replace(
            verdict,
            verdict=Outcome.HOLDS,
            reason=reason,
            judgement=Judgement.AS_DOCUMENTED,
            reference=row.reference,
        )
    return replace(verdict, judgement=Judgement.KNOWN_DEFECT, reference=row.reference)


def _not_applicable(verdict: Verdict, row: Row) -> Verdict:
    return replace(
        verdict,
        verdict=Outcome.UNKNOWN,
        judgement=Judgement.NOT_APPLICABLE,
        reason=f"not offered by this version: {row.expected}",
        reference=row.reference,
    )


def _verdict(finding: Finding, claim: str, name: str, arm: str, role: Role) -> Verdict:
    experiment, repetition = parts(name)
    return Verdict(
        claim=claim,
        experiment=experiment,
        arm=arm,
        verdict=finding.outcome,
        reason=finding.reason,
        evidence=finding.evidence,
        recovery_seconds=dict(finding.recovery_seconds),
        role=role,
        repetition=repetition,
    )
