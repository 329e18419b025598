"""OP-13: of several operators one writes at a time, and only while it holds the lease."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import Audit, History, epoch
from chaos.verdict import Evidence, Finding, Outcome

_LEASE = "ray-operator-leader"
_WRITES = ("create", "update", "patch", "delete", "deletecollection")
_SHOWN = 8


@check
def one_writer(history: History, *, account: str = "") -> Finding:
    """By the API server's audit log and clock, whoever had written and was followed by another never wrote again.

    Writers are told apart by the pod that their token was made for, else by their user; several are needed. With an
    ``account`` its writes alone count, and each must fall into the time in which the lease names its pod. Without one all
    writers count, and no lease is asked for.
    """
    writes = sorted(_writes(history, account), key=lambda each: (each.requested, each.n))
    if account and any(not each.pod for each in writes):
        raise Unjudged("the audit log does not say which pod wrote")
    turns = [(who, list(group)) for who, group in groupby(writes, key=_who)]
    writers = {who for who, _ in turns}
    if len(writers) < 2:
        raise Unjudged(f"{facts.plural(len(writers), 'writer')} in the audit log, two are needed")
    seen = tuple(_evidence(group[0], f"{who} begins to write") for who, group in turns[:_SHOWN])
    if len(turns) > len(writers):
        order = ", ".join(who for who, _ in turns[:_SHOWN])
        return Finding(Outcome.BROKEN, f"{len(writers)} writers took {len(turns)} turns: {order} …", seen)
    if account:
        leads = _leaders(history)
        facts.no_gap(history, "leases", history.since, history.until)
        for each in writes:
            if not any(led.pod == each.pod and led.since <= each.requested < led.until for led in leads):
                reason = f"{each.pod} wrote ({each.verb} {each.resource}/{each.name}) while the lease did not name it"
                return Finding(Outcome.BROKEN, reason, (*seen, _evidence(each, "a write without the lease")))
    pauses = [after[0].requested - before[-1].requested for (_, before), (_, after) in pairwise(turns)]
    told = ", ".join(f"{pause:.1f} s" for pause in pauses)
    reason = f"{len(writes)} writes by {len(writers)} writers, one after the other, and none for {told} between them"
    return Finding(Outcome.HOLDS, reason, seen, {"no_writer": round(max(pauses), 3)})


@dataclass(frozen=True)
class _Lead:
    """When the lease named a pod, in epoch seconds."""

    pod: str
    since: float
    until: float


def _writes(history: History, account: str) -> list[Audit]:
    audits = history.audits(user=account) if account else history.audits()
    return [each for each in audits if each.verb in _WRITES and each.t >= history.since]


def _who(write: Audit) -> str:
    return write.pod or write.user


def _leaders(history: History) -> list[_Lead]:
    """Each process that took the lease, until the next one took it."""
    taken: dict[str, float] = {}
    for lease in history.objects("leases", name=_LEASE):
        for state in lease.states:
            spec = state.object["spec"]
            if spec.get("holderIdentity") and spec.get("acquireTime"):
                taken.setdefault(spec["holderIdentity"], epoch(spec["acquireTime"]))
    ends = [*list(taken.values())[1:], float("inf")]
    return [
        _Lead(holder.rpartition("_")[0], since, until)
        for (holder, since), until in zip(taken.items(), ends, strict=True)
    ]


def _evidence(write: Audit, shows: str) -> Evidence:
    return Evidence(write.n, write.t, f"{shows}: {write.verb} {write.resource}/{write.name}")
