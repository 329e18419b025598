"""FT-15 and FT-16: what a deleted cluster leaves in Redis.

A redis-keys probe asks for the keys of one external storage namespace, all that begin with ``RAY<namespace>@``. Its target names
the RayCluster as well; its value is ``{"keys": [NAME, …], "pattern": PATTERN, "remove": COMMAND}``: the command is what
removes them by hand.
"""

from __future__ import annotations

from functools import partial

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Injection, Lifetime, Object, Probe, State, condition
from chaos.verdict import Evidence, Finding, Outcome


def _looks(history: History, namespace: str, cluster: str) -> tuple[Probe, Probe]:
    """The last look before the first fault, which must have found keys, and the last one of all, after it."""
    since = facts.applied_at(facts.applied(history)[0])
    looks = [probe for probe in history.probes("redis-keys", namespace=namespace, cluster=cluster) if probe.ok]
    before = [look for look in looks if look.t <= since]
    after = [look for look in looks if facts.began(look) > since]
    if not before or not before[-1].value["keys"]:
        raise Unjudged(f"no keys of {cluster} in {namespace} were found before the fault")
    if not after:
        raise Unjudged(f"the keys of {cluster} in {namespace} weren't looked for after the fault")
    return before[-1], after[-1]


def _told(look: Probe) -> Evidence:
    return facts.probe_evidence(look, f"{facts.plural(len(look.value['keys']), 'key')} of {look.value['pattern']}")


def _deletion(history: History, namespace: str, cluster: str) -> tuple[Injection, Lifetime]:
    """The fault that deleted the cluster, and the cluster."""
    for fault in facts.applied(history):
        uid = str((fault.steps["apply"].get("target") or {}).get("uid"))
        found = history.object(uid) if fault.name == "delete-cluster" else None
        if found is not None and (found.namespace, found.name) == (namespace, cluster):
            return fault, found
    raise Unjudged(f"no fault deleted {cluster} in {namespace}")


@check
def keys_removed(history: History, *, namespace: str, cluster: str) -> Finding:
    """The cluster had keys before the fault, and none when last looked for."""
    before, after = _looks(history, namespace, cluster)
    seen = (_told(before), _told(after))
    if left := after.value["keys"]:
        return Finding(Outcome.BROKEN, f"{facts.plural(len(left), 'key')} left: {', '.join(left)}", seen)
    return Finding(Outcome.HOLDS, f"all {len(before.value['keys'])} keys of {before.value['pattern']} removed", seen)


@check
def keys_untouched(history: History, *, namespace: str, cluster: str) -> Finding:
    """Every key that the cluster had before the fault is there when last looked for; more may have come."""
    before, after = _looks(history, namespace, cluster)
    seen = (_told(before), _told(after))
    lost = sorted(set(before.value["keys"]) - set(after.value["keys"]))
    if lost:
        return Finding(Outcome.BROKEN, f"{facts.plural(len(lost), 'key')} lost: {', '.join(lost)}", seen)
    kept = len(before.value["keys"])
    return Finding(Outcome.HOLDS, f"all {kept} keys of {before.value['pattern']} are still there", seen)


@check
def keys_left(history: History, *, namespace: str, cluster: str) -> Finding:
    """Keys of the cluster are there when last looked for; they are told with the command that removes them."""
    before, after = _looks(history, namespace, cluster)
    seen = (_told(before), _told(after))
    left = after.value["keys"]
    if not left:
        return Finding(Outcome.BROKEN, f"no key of {after.value['pattern']} is left", seen)
    reason = f"{len(left)} of {len(before.value['keys'])} keys of {after.value['pattern']} left; they are removed by: "
    return Finding(Outcome.HOLDS, reason + str(after.value["remove"]), seen)


@check
def cleanup_failed(history: History, *, namespace: str, cluster: str) -> Finding:
    """The clean-up Job of the cluster ended as Failed; ``recovery_seconds`` tells after how many seconds."""
    fault, _ = _deletion(history, namespace, cluster)
    kind, ended = _cleanup(history, namespace, cluster)
    took = round(ended.t - facts.applied_at(fault), 3)
    seen = (facts.fault_evidence(fault), facts.evidence(ended, f"clean-up Job {kind}"))
    outcome = Outcome.HOLDS if kind == "Failed" else Outcome.BROKEN
    return Finding(outcome, f"clean-up Job {kind} {took:.1f} s after the deletion", seen, {"cleanup_ended": took})


@check
def gone_after_cleanup(history: History, *, namespace: str, cluster: str, within: float = 60.0) -> Finding:
    """The deleted RayCluster's object goes within ``within`` seconds after its clean-up Job has ended, however that did."""
    fault, lifetime = _deletion(history, namespace, cluster)
    kind, ended = _cleanup(history, namespace, cluster)
    seen = (facts.fault_evidence(fault), facts.evidence(ended, f"clean-up Job {kind}"))
    if lifetime.gone is not None and (took := lifetime.gone - ended.t) <= within:
        gone = facts.evidence(lifetime.latest, f"RayCluster {cluster} gone")
        whole = round(lifetime.gone - facts.applied_at(fault), 3)
        reason = f"{cluster} gone {took:.1f} s after its clean-up Job was {kind}, {whole:.1f} s after its deletion"
        return Finding(Outcome.HOLDS, reason, (*seen, gone), {"object_gone": whole})
    if (watched := history.until - ended.t) < within:
        raise Unjudged(f"too early to tell: watched {watched:.0f} s of {within:.0f} s after the clean-up Job's end")
    facts.no_gap(history, "rayclusters", ended.t, ended.t + within)
    state = lifetime.at(ended.t + within)
    assert state is not None
    held = ", ".join(state.object["metadata"].get("finalizers") or []) or "nothing"
    reason = f"{cluster} still there {within:.0f} s after its clean-up Job was {kind}, held by {held}"
    return Finding(Outcome.BROKEN, reason, (*seen, facts.evidence(state, f"RayCluster {cluster} still there")))


def _cleanup(history: History, namespace: str, cluster: str) -> tuple[str, State]:
    """How the clean-up Job of the cluster ended, Complete or Failed, and the state that first said so."""
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": "redis-cleanup"}
    jobs = facts.seen_in(history, history.objects("jobs", namespace=namespace, labels=labels))
    if not jobs:
        raise Unjudged(f"no clean-up Job of {cluster} was seen")
    for kind in ("Complete", "Failed"):
        if ended := jobs[-1].first(partial(_has, kind)):
            return kind, ended
    raise Unjudged(f"the clean-up Job {jobs[-1].name} was not seen to end")


def _has(kind: str, job: Object) -> bool:
    found = condition(job, kind)
    return found is not None and found.get("status") == "True"


@check
def cluster_gone(history: History, *, namespace: str, cluster: str, within: float) -> Finding:
    """The deleted RayCluster's object is gone within ``within`` seconds; ``recovery_seconds`` tells after how many."""
    fault, lifetime = _deletion(history, namespace, cluster)
    since = facts.applied_at(fault)
    seen = (facts.fault_evidence(fault), facts.evidence(lifetime.latest, f"last state of RayCluster {cluster}"))
    if lifetime.gone is None:
        watched = history.until - since
        if watched < within:
            raise Unjudged(f"too early to tell: watched {watched:.0f} s of {within:.0f} s")
        facts.no_gap(history, "rayclusters", since, history.until)
        held = ", ".join(lifetime.latest.object["metadata"].get("finalizers") or []) or "nothing"
        return Finding(Outcome.BROKEN, f"{cluster} still there after {watched:.0f} s, held by {held}", seen)
    took = lifetime.gone - since
    outcome = Outcome.HOLDS if took <= within else Outcome.BROKEN
    return Finding(outcome, f"{cluster} gone {took:.1f} s after its deletion", seen, {"object_gone": round(took, 3)})
