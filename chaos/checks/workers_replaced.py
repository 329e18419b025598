"""FT-1, the other way round: workers that were lost are replaced, and the replacements join the cluster.

The functional probe's value lists the nodes that Ray takes for alive: ``{"nodes": [{"id", "address", "head"}]}``.
"""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, is_ready
from chaos.verdict import Finding, Outcome


@check
def workers_replaced(history: History, *, namespace: str, cluster: str) -> Finding:
    """All workers alive at the first fault are gone, as many new pods are Ready at the end, and Ray lists each as a node."""
    fault = facts.applied(history)[0]
    since = facts.applied_at(fault)
    workers = facts.ray_pods(history, namespace, cluster, "worker")
    before = [pod for pod, _ in facts.alive(workers, since)]
    if not before:
        raise Unjudged(f"no worker of {cluster} was alive at the fault")
    if stayed := [pod.name for pod in before if facts.loss(pod, since) is None]:
        raise Unjudged(f"not all workers were lost: {', '.join(stayed)} stayed")
    new = [
        (pod, state)
        for pod, state in facts.alive(workers, history.until)
        if pod.born > since and is_ready(state.object)
    ]
    seen = (facts.fault_evidence(fault), *(facts.evidence(state, f"worker {pod.name} Ready") for pod, state in new))
    if len(new) < len(before):
        reason = f"{facts.plural(len(before), 'worker')} lost, {len(new)} replaced and Ready at the end"
        return Finding(Outcome.BROKEN, reason, seen)
    probes = [probe for probe in facts.functional_probes(history, namespace, cluster) if probe.ok and probe.t > since]
    if not probes:
        raise Unjudged(f"{cluster} was never functional after the fault, so nobody knows which nodes it has")
    listed = {node["address"] for node in probes[-1].value.get("nodes", [])}
    seen = (*seen, facts.probe_evidence(probes[-1], f"nodes at {', '.join(sorted(listed))}"))
    if strangers := [pod.name for pod, state in new if state.object["status"].get("podIP") not in listed]:
        return Finding(Outcome.BROKEN, f"Ready, but no node to Ray: {', '.join(strangers)}", seen)
    ready = max(first.t for pod, _ in new if (first := pod.first(is_ready)))
    return Finding(
        Outcome.HOLDS,
        f"{facts.plural(len(new), 'worker')} replaced and joined",
        seen,
        {"workers_ready_again": round(ready - since, 3)},
    )
