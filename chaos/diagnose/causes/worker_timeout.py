"""Workers gave up on the GCS before the head was back: their time-out is shorter than the recovery."""

from __future__ import annotations

import re

from chaos.diagnose.case import Case, Cause
from chaos.estate.raycluster import TIMEOUT_ENV
from chaos.estate.resource import Place, at
from chaos.history.objects import condition_time, epoch

_GAVE_UP = re.compile(r"Failed to connect to GCS within (\d+) seconds")


def worker_timeout(case: Case) -> Cause | None:
    """The cause, or None."""
    if not case.ft_effective or not case.workers:
        return None
    said = case.lines(case.workers, _GAVE_UP, most=1)
    lost = [place for _, place in case.lost(case.workers)]
    evidence = [line.place for line in said]
    if not evidence:
        evidence = _by_times(case)
        lost = []
    if not evidence:
        return None
    timeout, place = min((case.worker_timeout(worker) for worker in case.workers), key=lambda pair: pair[0])
    return Cause(
        "worker-timeout",
        "The workers' time-out is shorter than the head's recovery",
        f"workers wait {timeout:g} s for the GCS, and gave up before it was back",
        (*evidence[:3], place, *lost[:2]),
        "shorten the recovery first (the Ray image on every node, a node kept for the head), then raise "
        f"{TIMEOUT_ENV} on the workers, or take it away: KubeRay sets 600",
    )


def _by_times(case: Case) -> list[Place]:
    """Where logs are lost: workers that ended by themselves while the head was being made, for longer than they wait."""
    places = []
    for head in case.heads:
        made, ready = head.metadata.get("creationTimestamp"), condition_time(head.obj, "Ready")
        if not made or ready is None:
            continue
        for worker, place in case.lost(case.workers):
            statuses = worker.get("status", "containerStatuses") or []
            ended = at(statuses, 0, "lastState", "terminated") or {}
            timeout, _ = case.worker_timeout(worker)
            away = ready - epoch(made)
            if ended.get("exitCode") == 1 and epoch(made) < epoch(ended["finishedAt"]) <= ready and away > timeout:
                places += [place, head.place("status", "conditions", shows=f"Ready {away:.0f} s after it was made")]
    return places
