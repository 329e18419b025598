"""The head recovers in much less time than the workers wait for it.

Recovery is taken from a measured run, or from the head pod's own times on a live cluster: from its creation to Ready,
and before that the grace that a deleted head may take, since KubeRay makes the new one only when the old one is gone.
"Much less" is a third: what holds a recovery up (an image to be pulled, a full node, kubelet's back-off) easily doubles it.
"""

from __future__ import annotations

from chaos.audit.item import Answer, Inputs, Item, asks, broken, holds, unknown
from chaos.estate.estate import Estate
from chaos.estate.policies import matches
from chaos.estate.raycluster import TIMEOUT_ENV, RayCluster
from chaos.estate.resource import Place
from chaos.history.objects import condition_time, epoch, restart_count

_MARGIN = 3.0
_GRACE = 30.0  # Kubernetes' default
_ADVICE = (
    "shorten the recovery first: the Ray image on every node that the head may go to, a node kept for the head, "
    "a short terminationGracePeriodSeconds; only then a longer time-out "
    f"({TIMEOUT_ENV} on the workers), which also finds a real loss that much later"
)


def judge(cluster: RayCluster, inputs: Inputs) -> Answer:
    """Recovery against the workers' time-out."""
    timeout, places = cluster.worker_timeout()
    if not places:
        places = [cluster.place("workerGroupSpecs", shows=f"{TIMEOUT_ENV} not set: KubeRay sets 600")]
    if timeout is None:
        return unknown("a worker group's time-out isn't a plain number", *places, fix=f"set {TIMEOUT_ENV} to a value")
    taken = _recovery(cluster, inputs)
    if taken is None:
        return unknown(
            f"how long the head takes to recover isn't known; the workers wait {timeout:g} s",
            *places,
            fix="measure it with `kuberay-chaos run -k head` and give the results with --measured, or audit the live cluster",
        )
    seconds, place = taken
    said = f"the head recovers in {seconds:.0f} s, the workers wait {timeout:g} s"
    if seconds * _MARGIN > timeout:
        short = "less than that" if timeout < seconds else f"less than {_MARGIN:g} times that"
        return broken(f"{said}: {short}", place, *places, fix=_ADVICE)
    return holds(said, place, *places)


def _recovery(cluster: RayCluster, inputs: Inputs) -> tuple[float, Place] | None:
    if inputs.recovery is not None:
        seconds, source = inputs.recovery
        return seconds, Place(source, None, "head recovery", "recovery_seconds", f"{seconds:.1f} s")
    return _own_times(cluster, inputs.estate)


def _own_times(cluster: RayCluster, estate: Estate) -> tuple[float, Place] | None:
    wanted = {"ray.io/cluster": cluster.name, "ray.io/node-type": "head"}
    for pod in estate.of("Pod"):
        if pod.namespace != cluster.namespace or not matches({"matchLabels": wanted}, pod.labels):
            continue
        ready = condition_time(pod.obj, "Ready")
        # A container that restarted, or a probe that failed for a while, is Ready since later than its start took.
        if ready is None or restart_count(pod.obj):
            return None
        grace = pod.get("spec", "terminationGracePeriodSeconds")
        started = ready - epoch(str(pod.metadata["creationTimestamp"]))
        seconds = started + (_GRACE if grace is None else float(grace))
        return seconds, pod.place(
            "status",
            "conditions",
            shows=f"Ready {started:.0f} s after its creation; grace {seconds - started:g} s before",
        )
    return None


ITEM = Item("head-recovery", "The head recovers in much less time than workers wait", judge, asks)
