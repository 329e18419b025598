"""What NetworkPolicies say of a connection from one pod to another.

The model is the API's: a pod that no policy selects for a direction takes and makes any connection; one that is
selected only what some policy allows. Address ranges (``ipBlock``) can't be compared with pods that may move, so what
depends on one is None, neither yes nor no. Named ports are taken to match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.estate.resource import Resource, at


@dataclass(frozen=True)
class End:
    """A pod as policies see it. ``namespace_labels`` is None when they aren't known."""

    namespace: str
    labels: Mapping[str, str]
    namespace_labels: Mapping[str, str] | None = None


def same_namespace(one: str, other: str) -> bool:
    """Whether two objects can be in one namespace; manifests may leave it to whoever applies them."""
    return not one or not other or one == other


def selecting(policies: Iterable[Resource], end: End, direction: str) -> list[Resource]:
    """The policies that govern a pod in a direction, ``Ingress`` or ``Egress``."""
    return [
        policy
        for policy in policies
        if same_namespace(policy.namespace, end.namespace)
        and direction in _directions(policy)
        and matches(policy.get("spec", "podSelector") or {}, end.labels)
    ]


def admitted(policies: Iterable[Resource], source: End, target: End, port: int) -> bool | None:
    """Whether the policies let ``source`` connect to ``target``; None when that can't be told."""
    policies = list(policies)
    out = _allowed(selecting(policies, source, "Egress"), "egress", "to", target, port)
    into = _allowed(selecting(policies, target, "Ingress"), "ingress", "from", source, port)
    if out is False or into is False:
        return False
    return None if out is None or into is None else True


def open_to_all(policies: Iterable[Resource], target: End) -> bool:
    """Whether some policy that governs the pod lets everything in."""
    rules = [rule for policy in selecting(policies, target, "Ingress") for rule in policy.get("spec", "ingress") or []]
    return any(_is_open(rule) for rule in rules)


def _is_open(rule: Mapping[str, Any]) -> bool:
    peers = rule.get("from")
    return not peers or any(
        (peer.get("namespaceSelector") == {} and not peer.get("podSelector"))
        or at(peer, "ipBlock", "cidr") in {"0.0.0.0/0", "::/0"}
        for peer in peers
    )


def _directions(policy: Resource) -> list[str]:
    stated = policy.get("spec", "policyTypes")
    if stated:
        return list(stated)
    return ["Ingress", "Egress"] if policy.get("spec", "egress") else ["Ingress"]


def _allowed(policies: list[Resource], rules: str, peers: str, other: End, port: int) -> bool | None:
    if not policies:
        return True
    answers = [
        _rule_allows(rule, peers, policy.namespace, other, port)
        for policy in policies
        for rule in policy.get("spec", rules) or []
    ]
    if True in answers:
        return True
    return None if None in answers else False


def _rule_allows(rule: Mapping[str, Any], peers: str, home: str, other: End, port: int) -> bool | None:
    if not _has_port(rule.get("ports"), port):
        return False
    if not rule.get(peers):
        return True
    answers = [_is_peer(peer, home, other) for peer in rule[peers]]
    if True in answers:
        return True
    return None if None in answers else False


def _has_port(ports: list[Mapping[str, Any]] | None, port: int) -> bool:
    if not ports:
        return True
    for entry in ports:
        wanted = entry.get("port")
        if entry.get("protocol", "TCP") != "TCP":
            continue
        if wanted is None or isinstance(wanted, str) or wanted <= port <= entry.get("endPort", wanted):
            return True
    return False


def _is_peer(peer: Mapping[str, Any], home: str, other: End) -> bool | None:
    if "ipBlock" in peer:
        return None
    if "podSelector" in peer and not matches(peer["podSelector"] or {}, other.labels):
        return False
    if "namespaceSelector" not in peer:
        return same_namespace(home, other.namespace)
    selector = peer["namespaceSelector"] or {}
    if not selector:
        return True
    labels = dict(other.namespace_labels or {})
    if other.namespace:
        labels.setdefault("kubernetes.io/metadata.name", other.namespace)
    if matches(selector, labels):
        return True
    return None if other.namespace_labels is None else False


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector, with ``matchLabels`` and ``matchExpressions``, takes these labels."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(expression, labels) for expression in selector.get("matchExpressions") or [])


def _expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
