"""OP-8 and OP-9: what Ray answers when a submission ID comes again, and how often the entrypoint was executed under it."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.checks.executions import ledger_lines
from chaos.errors import Unjudged
from chaos.history.reader import History, Probe
from chaos.verdict import Evidence, Finding, Outcome

_NO_RECORD = "ABSENT"


@check
def id_refused(history: History, *, namespace: str, rayjob: str, submission_id: str) -> Finding:
    """The last time that the ID was submitted it was refused, and by the ledger it was executed once."""
    last, executions, seen = _submitted(history, namespace, rayjob, submission_id)
    before = last.value["before"]
    if last.value["accepted"]:
        return Finding(Outcome.BROKEN, f"{submission_id} was accepted, with record {before}", seen)
    if before == _NO_RECORD:
        raise Unjudged(f"{submission_id} was refused, and Ray had no record of it")
    if executions != 1:
        reason = f"{submission_id} was refused and was executed {facts.plural(executions, 'time')}, expected once"
        return Finding(Outcome.BROKEN, reason, seen)
    return Finding(Outcome.HOLDS, f"{submission_id} was refused, with record {before}, and was executed once", seen)


@check
def id_accepted_again(history: History, *, namespace: str, rayjob: str, submission_id: str) -> Finding:
    """An ID that was accepted once was accepted the last time as well, and by the ledger it was executed both times."""
    last, executions, seen = _submitted(history, namespace, rayjob, submission_id)
    earlier = [each for each in _answered(history, namespace, rayjob, submission_id)[:-1] if each.value["accepted"]]
    if not earlier:
        raise Unjudged(f"{submission_id} was never accepted before, so nothing came again")
    if not last.value["accepted"]:
        return Finding(Outcome.BROKEN, f"{submission_id} was refused, with record {last.value['before']}", seen)
    accepted = len(earlier) + 1
    if executions != accepted:
        times = facts.plural(executions, "execution")
        raise Unjudged(f"{submission_id} was accepted {accepted} times and the ledger has {times}")
    reason = f"{submission_id} was accepted {accepted} times and executed {executions} times"
    return Finding(Outcome.HOLDS, reason, seen)


@check
def written_once(history: History, *, namespace: str, rayjob: str, submission_id: str, keyed: bool) -> Finding:
    """Executed more than once under one ID, the entrypoint has written to the outside world once.

    ``keyed`` are the writes under the ID as a unique key, which the outside world takes once; else those without, of which
    each execution makes one.
    """
    ledger, lines = ledger_lines(history, namespace, rayjob)
    executions = sum(line["submission_id"] == submission_id for line in lines)
    if executions < 2:
        raise Unjudged(f"{submission_id} was executed {facts.plural(executions, 'time')}, so nothing was written again")
    writes = executions
    if keyed:
        writes = sum(line["submission_id"] == submission_id for line in ledger.value["keyed"])
    how = "with" if keyed else "without"
    reason = f"{executions} executions of {submission_id} wrote {facts.plural(writes, 'time')} {how} a unique key"
    seen = (facts.probe_evidence(ledger, reason),)
    return Finding(Outcome.HOLDS if writes == 1 else Outcome.BROKEN, reason, seen)


def _answered(history: History, namespace: str, rayjob: str, submission_id: str) -> list[Probe]:
    target = {"namespace": namespace, "rayjob": rayjob, "submission_id": submission_id}
    return [each for each in history.probes("submission", **target) if each.ok]


def _submitted(
    history: History, namespace: str, rayjob: str, submission_id: str
) -> tuple[Probe, int, tuple[Evidence, ...]]:
    """The last submission of the ID that was answered, and its executions as the ledger had them afterwards."""
    answered = _answered(history, namespace, rayjob, submission_id)
    if not answered:
        raise Unjudged(f"no submission of {submission_id} was answered")
    ledger, lines = ledger_lines(history, namespace, rayjob)
    if ledger.t < answered[-1].t:
        raise Unjudged(f"the ledger was not read after {submission_id} was submitted")
    executions = sum(line["submission_id"] == submission_id for line in lines)
    told = [
        facts.probe_evidence(each, f"{submission_id} {'accepted' if each.value['accepted'] else 'refused'}")
        for each in answered
    ]
    ran = facts.probe_evidence(ledger, f"ledger has {facts.plural(executions, 'execution')} of {submission_id}")
    return answered[-1], executions, (*told, ran)
