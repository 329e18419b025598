"""OP-10: deleting a RayJob asks Ray to stop the job, and the RayJob is gone before the job is."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History
from chaos.verdict import Finding, Outcome

# The entrypoint writes five times a second.
_QUIET_SECONDS = 3.0


@check
def stopped_later(history: History, *, namespace: str, rayjob: str, within: float = 10.0) -> Finding:
    """After the first fault the RayJob's object goes within ``within`` seconds, and its entrypoint writes on for a time.

    That it was told to stop is seen in the entrypoint, by SIGTERM. The entrypoint's clock is that of this machine, whose nodes
    are containers. Its last write must be known to be the last: it is read when nothing has been written for seconds.
    """
    fault = facts.applied(history)[0]
    at = fault.steps["apply"]
    job = facts.rayjob_at(history, namespace, rayjob, at["t"])
    seen = [facts.fault_evidence(fault)]
    if job.gone is None or job.gone > at["t"] + within:
        if history.until < at["t"] + within:
            raise Unjudged(f"too early to tell: watched {history.until - at['t']:.0f} s of {within:.0f} s")
        facts.no_gap(history, "rayjobs", at["t"], at["t"] + within)
        return Finding(Outcome.BROKEN, f"{rayjob} is still there {within:.0f} s after the fault", tuple(seen))
    gone = job.latest
    seen.append(facts.evidence(gone, f"RayJob {rayjob} gone"))
    read = [each for each in history.probes("writes", namespace=namespace, rayjob=rayjob) if each.ok]
    if not read or not read[-1].value["writes"]:
        raise Unjudged(f"no write of the entrypoint of {rayjob} is known")
    last, told = read[-1].value["last"], [t for t in read[-1].value["told_to_stop"] if t >= at["wall"]]
    if (quiet := _wall(history, read[-1].n) - last) < _QUIET_SECONDS:
        raise Unjudged(f"the entrypoint of {rayjob} wrote {quiet:.1f} s before its writes were read: it may go on")
    seen.append(facts.probe_evidence(read[-1], f"{read[-1].value['writes']} writes, told to stop {len(told)} times"))
    if not told:
        return Finding(Outcome.BROKEN, f"the entrypoint of {rayjob} was never told to stop", tuple(seen))
    longer = round(last - gone.wall, 3)
    took = f"{rayjob} was gone {gone.t - at['t']:.1f} s after the fault"
    if longer <= 0:
        return Finding(Outcome.BROKEN, f"{took}, and nothing was written any more by then", tuple(seen))
    reason = (
        f"{took}; its entrypoint was told to stop {told[0] - at['wall']:.1f} s after it and wrote {longer:.1f} s longer"
    )
    return Finding(Outcome.HOLDS, reason, tuple(seen), {"written_longer": longer})


def _wall(history: History, n: int) -> float:
    return next(float(entry["wall"]) for entry in history.entries if entry["n"] == n)
