"""FT-8: which environment KubeRay gave the Ray containers of a cluster's pods."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.errors import Unjudged
from chaos.history.reader import History, Object
from chaos.verdict import Finding, Outcome

_UNSET = "not set"


@check
def environment_is(
    history: History, *, namespace: str, cluster: str, node_type: str, variable: str, value: str | None
) -> Finding:
    """In every pod of ``node_type`` that was ever seen the variable has ``value``; None: it isn't set at all.

    Read from the pods as the operator made them, whether they ever ran or not: what isn't set there is Ray's default.
    """
    pods = facts.seen_in(history, facts.ray_pods(history, namespace, cluster, node_type))
    if not pods:
        raise Unjudged(f"no {node_type} of {cluster} was ever seen")
    wanted = _UNSET if value is None else value
    found = {pod.name: (pod.states[0], _value(pod.states[0].object, variable)) for pod in pods}
    seen = tuple(facts.evidence(state, f"{name}: {variable} {is_}") for name, (state, is_) in found.items())
    others = [f"{name} has {is_}" for name, (_, is_) in found.items() if is_ != wanted]
    if others:
        return Finding(Outcome.BROKEN, f"{variable} should be {wanted}: {', '.join(others)}", seen)
    return Finding(Outcome.HOLDS, f"{variable} is {wanted} in {facts.plural(len(pods), node_type)}", seen)


def _value(pod: Object, variable: str) -> str:
    """What the Ray container, always the first, has; the last entry of a name wins, as it does in the container."""
    named = [entry for entry in pod["spec"]["containers"][0].get("env") or [] if entry["name"] == variable]
    if not named:
        return _UNSET
    return "a reference" if "valueFrom" in named[-1] else str(named[-1].get("value", ""))
