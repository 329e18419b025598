"""FT-18: whether the autoscaler grants what it is asked for after the head that it lives in was lost.

The probe ``workers-asked-for`` asks for a number of workers in all; whom Ray knows is in the functional probe's answer.
"""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Lifetime, Probe
from chaos.verdict import Finding, Outcome


@check
def scale_up_granted(history: History, *, namespace: str, cluster: str, workers: int, within: float = 75.0) -> Finding:
    """After the first fault ``workers`` workers were asked for: a new pod was made, and Ray lists so many workers, it among them.

    By hand a worker was Ready 19 s after it was asked for. ``recovery_seconds`` counts from the request: ``worker_created``
    and ``worker_joined``.
    """
    fault = facts.applied(history)[0]
    asked, until = _request(history, namespace, cluster, workers, facts.applied_at(fault))
    made = [
        pod for pod in facts.ray_pods(history, namespace, cluster, "worker") if facts.began(asked) < pod.born <= until
    ]
    seen = [facts.fault_evidence(fault), facts.probe_evidence(asked, f"{workers} workers were asked for")]
    seen += [facts.evidence(pod.states[0], f"worker {pod.name} was created") for pod in made]
    split = {"worker_created": made[0].born - asked.t} if made else {}
    looks = [
        probe
        for probe in facts.functional_probes(history, namespace, cluster)
        if probe.ok and asked.t < probe.t <= until
    ]
    for probe in looks:
        addresses = _workers(probe)
        joined = [pod for pod in made if _address(pod, probe.t) in addresses]
        if joined and len(addresses) >= workers:
            split["worker_joined"] = probe.t - asked.t
            reason = (
                f"{workers} workers were asked for and Ray lists {len(addresses)}: {', '.join(p.name for p in joined)} is "
                f"new, created after {split['worker_created']:.1f} s"
            )
            seen.append(facts.probe_evidence(probe))
            return Finding(Outcome.HOLDS, reason, tuple(seen), _rounded(split))
    facts.no_gap(history, "pods", asked.t, until)
    watched = looks[-1].t - asked.t if looks else 0.0
    if watched < within:
        raise Unjudged(f"too early to tell: watched {watched:.0f} s of {within:.0f} s after the request")
    new = facts.plural(len(made), "new pod") if made else "no new pod"
    reason = (
        f"{workers} workers were asked for, and {watched:.0f} s later Ray lists {len(_workers(looks[-1]))}: {new} since"
    )
    return Finding(Outcome.BROKEN, reason, (*seen, facts.probe_evidence(looks[-1])), _rounded(split))


def _request(history: History, namespace: str, cluster: str, workers: int, since: float) -> tuple[Probe, float]:
    """The request for so many, and until when it stood."""
    requests = [
        probe for probe in history.probes("workers-asked-for", namespace=namespace, cluster=cluster) if probe.t > since
    ]
    for number, probe in enumerate(requests):
        if probe.target["workers"] == workers:
            if not probe.ok:
                raise Unjudged(f"{workers} workers could not be asked for: {probe.error}")
            later = requests[number + 1 :]
            return probe, facts.began(later[0]) if later else history.until
    raise Unjudged(f"{workers} workers were not asked for after the fault")


def _workers(probe: Probe) -> list[str]:
    """The addresses of the workers that Ray took for alive."""
    return [node["address"] for node in probe.value.get("nodes", []) if not node["head"]]


def _address(pod: Lifetime, t: float) -> str:
    state = pod.at(t)
    return str(state.object["status"].get("podIP")) if state else ""


def _rounded(split: dict[str, float]) -> dict[str, float]:
    return {step: round(seconds, 3) for step, seconds in split.items()}
