"""OP-10: deleting a RayJob asks Ray to stop the job, and the RayJob is gone before the job is."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Injection, Lifetime, State
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
    gone = _gone_within(history, job, at["t"], within)
    if gone is None:
        return Finding(Outcome.BROKEN, f"{rayjob} is still there {within:.0f} s after the fault", tuple(seen))
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


@check
def gone_untold(history: History, *, namespace: str, rayjob: str, within: float = 10.0) -> Finding:
    """The RayJob's object goes within ``within`` seconds after its deletion, though its entrypoint was not told to stop."""
    fault = next((each for each in facts.applied(history) if _target(each) == (namespace, rayjob)), None)
    if fault is None:
        raise Unjudged(f"no fault deleted {rayjob} in {namespace}")
    at = fault.steps["apply"]
    job = facts.rayjob_at(history, namespace, rayjob, at["t"])
    seen = [facts.fault_evidence(fault)]
    gone = _gone_within(history, job, at["t"], within)
    if gone is None:
        return Finding(Outcome.BROKEN, f"{rayjob} is still there {within:.0f} s after its deletion", tuple(seen))
    seen.append(facts.evidence(gone, f"RayJob {rayjob} gone"))
    read = [
        each for each in history.probes("writes", namespace=namespace, rayjob=rayjob) if each.ok and each.t > gone.t
    ]
    if not read or not read[-1].value["writes"]:
        raise Unjudged(f"no write of the entrypoint of {rayjob} is known")
    value = read[-1].value
    told = [t for t in value["told_to_stop"] if at["wall"] <= t <= gone.wall]
    seen.append(facts.probe_evidence(read[-1], f"{value['writes']} writes, told to stop {len(told)} times by then"))
    took = f"{rayjob} was gone {gone.t - at['t']:.1f} s after its deletion"
    if told:
        return Finding(Outcome.BROKEN, f"{took}, and its entrypoint had been told to stop", tuple(seen))
    if value["last"] < gone.wall:
        raise Unjudged(f"the entrypoint of {rayjob} had ended when it went, so nobody can have told it to stop")
    longer = round(value["last"] - gone.wall, 3)
    reason = f"{took}, its entrypoint had not been told to stop and wrote {longer:.1f} s longer"
    return Finding(Outcome.HOLDS, reason, tuple(seen), {"written_longer": longer})


def _gone_within(history: History, job: Lifetime, since: float, within: float) -> State | None:
    """The state in which the RayJob went, in time; None when it surely didn't. Raises Unjudged where that isn't known."""
    if job.gone is not None and job.gone <= since + within:
        return job.latest
    if history.until < since + within:
        raise Unjudged(f"too early to tell: watched {history.until - since:.0f} s of {within:.0f} s")
    facts.no_gap(history, "rayjobs", since, since + within)
    return None


def _target(fault: Injection) -> tuple[str, str]:
    target = fault.steps["apply"].get("target") or {}
    return str(target.get("namespace")), str(target.get("rayjob"))


def _wall(history: History, n: int) -> float:
    return next(float(entry["wall"]) for entry in history.entries if entry["n"] == n)
