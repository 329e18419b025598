"""A network policy guards Redis, and lets the head and the clean-up Job through.

The clean-up Job's pod is made from the head's template, but its node type is ``redis-cleanup``: a policy that names the
node type ``head`` shuts it out, and the cluster's keys stay behind when it is deleted.
"""

from __future__ import annotations

from dataclasses import replace

from chaos.audit.item import Answer, Inputs, Item, broken, holds, on_redis, unknown
from chaos.estate import policies, redis
from chaos.estate.estate import Estate
from chaos.estate.raycluster import RayCluster

_FIX = "allow the head's labels on Redis' port, and nothing else"


def judge(cluster: RayCluster, inputs: Inputs) -> Answer:
    """What the policies say of the way from the head to Redis."""
    estate = inputs.estate
    found = redis.find(cluster, estate)
    if found is None:
        return unknown("Redis' address can't be seen", cluster.form_place, fix="set the address as a plain value")
    if found.end is None:
        return unknown(
            f"the pods of the Redis at {found.address.text} aren't among the objects",
            found.address.place,
            fix="include Redis' manifests and policies; outside of Kubernetes its own firewall must do this",
        )
    if "NetworkPolicy" in estate.missing:
        return unknown(
            f"network policies can't be read: {estate.missing['NetworkPolicy']}", fix="allow list on networkpolicies"
        )
    return _guarded(cluster, estate, found, found.end)


def _guarded(cluster: RayCluster, estate: Estate, found: redis.Redis, end: policies.End) -> Answer:
    assert found.workload is not None
    target = replace(end, namespace_labels=estate.namespace_labels(end.namespace))
    every = list(estate.of("NetworkPolicy"))
    guarding = policies.selecting(every, target, "Ingress")
    if not guarding:
        pods = found.workload.place("spec", "template", "metadata", "labels", shows="Redis' pods")
        return broken("no network policy selects Redis' pods: any pod may connect", pods, fix=f"add one: {_FIX}")
    places = [policy.place("spec", shows=f"selects {found.workload}") for policy in guarding]
    if policies.open_to_all(every, target):
        return broken("the network policy lets every pod through to Redis", *places, fix=_FIX)
    sources = {"the head": cluster.head_end, "the Job that cleans Redis up": cluster.cleanup_end}
    admitted = {
        who: policies.admitted(
            every, replace(source, namespace_labels=estate.namespace_labels(source.namespace)), target, found.pod_port
        )
        for who, source in sources.items()
    }
    if shut_out := [who for who, answer in admitted.items() if answer is False]:
        return broken(
            f"the network policies don't let {' and '.join(shut_out)} through to Redis",
            *places,
            cluster.place("headGroupSpec", "template", "metadata", "labels"),
            fix="allow a label that the head's template sets itself, since the clean-up Job has those too",
        )
    if None in admitted.values():
        return unknown(
            "whether the network policies let the head through depends on address ranges, or on a namespace's labels",
            *places,
            fix="select pods and namespaces by label, and include the Namespace",
        )
    return holds("a network policy guards Redis and lets the head through", *places)


ITEM = Item("network-policy", "A network policy guards Redis", judge, on_redis)
