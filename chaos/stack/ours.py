"""Which namespaces are ours: those that we made, by their label and the beginning of their name."""

from __future__ import annotations

from chaos.stack.cluster import Cluster

OWNED = {"kuberay-chaos/owned": "true"}
PREFIX = "chaos-"


def is_ours(cluster: Cluster, namespace: str) -> bool:
    """Whether the namespace exists and is one that we made. The name alone would not do: others may begin like that."""
    if not namespace.startswith(PREFIX):
        return False
    found = cluster.get("namespaces", None, namespace)
    labels = found["metadata"].get("labels") or {} if found else {}
    return OWNED.items() <= labels.items()
