"""What counts executions: the ledger, which the entrypoint itself writes outside Ray, Kubernetes and Redis."""

from __future__ import annotations

from typing import Any

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Probe
from chaos.verdict import Finding, Outcome


def _last(history: History, probe: str, namespace: str, rayjob: str) -> Probe:
    read = [entry for entry in history.probes(probe, namespace=namespace, rayjob=rayjob) if entry.ok]
    if not read:
        raise Unjudged(f"the {probe} of {rayjob} could not be read")
    return read[-1]


def ledger_lines(history: History, namespace: str, rayjob: str) -> tuple[Probe, list[dict[str, Any]]]:
    """The ledger as it was read last, and its executions. Raises Unjudged when it was never read."""
    ledger = _last(history, "ledger", namespace, rayjob)
    return ledger, ledger.value["lines"]


@check
def one_submission(history: History, *, namespace: str, rayjob: str, executions: int = 1) -> Finding:
    """The entrypoint ran ``executions`` times by the ledger, and Ray knows one submission ID.

    Counts of objects would not do: a job that is submitted again to a new head runs twice under one Job and one ID.
    """
    ledger, lines = ledger_lines(history, namespace, rayjob)
    submissions = _last(history, "submissions", namespace, rayjob)
    ids = submissions.value["ids"]
    seen = (
        facts.probe_evidence(ledger, f"ledger has {facts.plural(len(lines), 'line')}"),
        facts.probe_evidence(submissions, f"submissions known to Ray: {', '.join(ids) or 'none'}"),
    )
    if len(lines) != executions:
        by = ", ".join(f"{line['submission_id']} attempt {line['attempt']}" for line in lines) or "never"
        reason = f"the entrypoint ran {facts.plural(len(lines), 'time')}, expected {executions}: {by}"
        return Finding(Outcome.BROKEN, reason, seen)
    if len(set(ids)) != 1:
        return Finding(Outcome.BROKEN, f"Ray knows {len(set(ids))} submissions, expected 1", seen)
    return Finding(
        Outcome.HOLDS, f"the entrypoint ran {facts.plural(len(lines), 'time')}, one submission {ids[0]}", seen
    )
