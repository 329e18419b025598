"""Which namespaces are ours: those that we made, by their label and the beginning of their name; what they are called."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # reports name namespaces too, and need no cluster
    from chaos.stack.cluster import Cluster

OWNED = {"kuberay-chaos/owned": "true"}
PREFIX = "chaos-"
# A namespace's name is a DNS label of at most 63 characters. What is longer ends in a hash instead of its own end.
_LONGEST = 63
_HASH = 6


def namespace_name(experiment: str, arm: str) -> str:
    """The namespace of one arm of an experiment, which no other arm, experiment or repetition has."""
    name = _label(f"{experiment}-{arm}").rstrip("-")
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - _HASH - 1]}-{hashlib.sha256(f'{experiment} {arm}'.encode()).hexdigest()[:_HASH]}"


def namespaces_begin(experiment: str) -> str:
    """What the names of all namespaces of an experiment begin with."""
    return _label(f"{experiment}-")[: _LONGEST - _HASH - 1]


def _label(text: str) -> str:
    return re.sub("[^a-z0-9]+", "-", f"{PREFIX}{text}".lower())


def is_ours(cluster: Cluster, namespace: str) -> bool:
    """Whether the namespace exists and is one that we made. The name alone would not do: others may begin like that."""
    if not namespace.startswith(PREFIX):
        return False
    found = cluster.get("namespaces", None, namespace)
    labels = found["metadata"].get("labels") or {} if found else {}
    return OWNED.items() <= labels.items()
