"""What checks ask a history over and over, in one place: faults, pods by role, container runs, the functional probe.

Times are seconds since the run began. A container *run* is a pod UID with a restart count: a pod that was recreated
and one that was restarted in place are both a new run, and nothing else is. Whatever is missing raises `Unjudged`,
which ``Check.judge`` turns into ``unknown``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chaos.errors import Unjudged
from chaos.history.reader import (
    History,
    Injection,
    Lifetime,
    Object,
    Probe,
    State,
    epoch,
    is_ready,
    is_terminating,
    labels,
    restart_count,
)
from chaos.verdict import Evidence

# --- faults ----------------------------------------------------------------------------------------------------------


def applied(history: History) -> list[Injection]:
    """The faults that were applied, in order. Raises Unjudged when there is none: then nothing is shown."""
    faults = [fault for fault in history.faults() if fault.applied_at is not None]
    if not faults:
        raise Unjudged("no fault was applied")
    return sorted(faults, key=applied_at)


def applied_at(fault: Injection) -> float:
    """The time of the fault's apply step."""
    if fault.applied_at is None:
        raise Unjudged(f"fault {fault.name} was never applied")
    return fault.applied_at


def ended_at(fault: Injection) -> float:
    """When the fault stopped acting: undone, else its apply step (a kill is over at once)."""
    return applied_at(fault) if fault.undone_at is None else fault.undone_at


def together(faults: Iterable[Injection]) -> bool:
    """Whether these faults were injected as one: they are of one group."""
    return len({fault.steps["apply"].get("group") for fault in faults}) == 1


def fault_evidence(fault: Injection) -> Evidence:
    entry = fault.steps["apply"]
    target = entry.get("target") or {}
    hit = target.get("pod") or target.get("job") or target.get("rayjob")
    return Evidence(entry["n"], entry["t"], f"fault {fault.name} applied{f' to {hit}' if hit else ''}")


def step_evidence(fault: Injection, step: str) -> Evidence:
    entry = fault.steps[step]
    return Evidence(entry["n"], entry["t"], f"fault {fault.name} {step}")


def operator_kill(history: History) -> Injection:
    """The first fault that killed an operator: named so, or aimed at the UID of an operator's pod."""
    operators = {pod.uid for pod in operator_pods(history)}
    for fault in applied(history):
        target = fault.steps["apply"].get("target") or {}
        if fault.name.startswith("kill-operator") or target.get("uid") in operators:
            return fault
    raise Unjudged("no fault killed an operator")


def new_operator(history: History, kill: Injection) -> State:
    """The state that first showed an operator's container running that began after the kill.

    Until then nothing can have been made by anyone but the operator that was killed.
    """
    since = applied_at(kill)
    for run in runs(operator_pods(history)):
        state = run.pod.first(running, since=run.seen.t)
        if run.seen.t > since and state is not None and restart_count(state.object) == run.restarts:
            return state
    raise Unjudged("no new operator was seen to run after the kill")


# --- objects ---------------------------------------------------------------------------------------------------------


def ray_pods(history: History, namespace: str, cluster: str, node_type: str) -> list[Lifetime]:
    """The pods of one RayCluster; ``node_type`` is head or worker, as KubeRay labels them."""
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": node_type}
    return history.objects("pods", namespace=namespace, labels=labels)


def role(pod: Object) -> str:
    """What a pod is to KubeRay: head, worker, clean-up, submitter, operator or Redis; empty for any other.

    KubeRay's own labels go first. It gives every Ray pod ``app.kubernetes.io/name: kuberay``, which the plain
    manifests give the operator as well, so that name says nothing; the chart's is ``kuberay-operator``.
    """
    carried = labels(pod)
    node_type = carried.get("ray.io/node-type")
    if node_type in ("head", "worker"):
        return node_type
    if node_type == "redis-cleanup":
        return "clean-up"
    if "ray.io/cluster" in carried:
        return ""
    if "kuberay-operator" in (carried.get("app.kubernetes.io/component"), carried.get("app.kubernetes.io/name")):
        return "operator"
    if "job-name" in carried or "batch.kubernetes.io/job-name" in carried:
        return "submitter"
    name = str(pod["metadata"].get("name", ""))
    return "Redis" if "redis" in name or "sentinel" in name else ""


def operator_pods(history: History) -> list[Lifetime]:
    """The KubeRay operator's pods, in whichever namespace it was installed."""
    return [pod for pod in history.objects("pods") if role(pod.latest.object) == "operator"]


def rayjob_at(history: History, namespace: str, name: str, t: float) -> Lifetime:
    """The RayJob of that name that existed at ``t``."""
    for lifetime in history.objects("rayjobs", namespace=namespace, name=name):
        if existing(lifetime, t):
            return lifetime
    raise Unjudged(f"RayJob {name} was not there at the fault")


def status(obj: Object, key: str) -> str:
    """One field of an object's status as text; KubeRay leaves out what is empty or 0: that reads as ``""``."""
    return str(obj.get("status", {}).get(key) or "")


def existing(lifetime: Lifetime, t: float) -> State | None:
    """Its state at ``t``; None before it was born and after it was deleted."""
    state = lifetime.at(t)
    return None if state is None or state.change == "DELETED" else state


def seen_in(history: History, lifetimes: Iterable[Lifetime]) -> list[Lifetime]:
    """Those that existed at some time of the view, which also knows what came and went before it began."""
    return [lifetime for lifetime in lifetimes if lifetime.gone is None or lifetime.gone >= history.since]


def ended(pod: Object) -> bool:
    """Whether a pod has run to its end; such a pod still exists but nothing in it does."""
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def containers(pod: Object) -> list[Object]:
    """The statuses of the pod's main containers (not the init containers)."""
    statuses: list[Object] = pod.get("status", {}).get("containerStatuses") or []
    return statuses


def running(pod: Object) -> bool:
    """Whether every main container runs, ready or not."""
    return bool(containers(pod)) and all("running" in c.get("state", {}) for c in containers(pod))


def alive(lifetimes: Iterable[Lifetime], t: float) -> list[tuple[Lifetime, State]]:
    """Those that existed at ``t``, with their state then, less what was terminating or had run to its end."""
    there = ((lifetime, existing(lifetime, t)) for lifetime in lifetimes)
    return [
        (pod, state) for pod, state in there if state and not is_terminating(state.object) and not ended(state.object)
    ]


def exit_code(pod: Object) -> int | None:
    """The exit code of the container that ended last, if the pod's status tells."""
    ends = [
        terminated
        for container in containers(pod)
        for key in ("state", "lastState")
        if (terminated := container.get(key, {}).get("terminated"))
    ]
    ends.sort(key=lambda terminated: str(terminated.get("finishedAt", "")))
    return ends[-1].get("exitCode") if ends else None


# --- container runs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One run of a pod's containers; ``seen`` is the first state that showed it."""

    pod: Lifetime
    restarts: int
    seen: State


def runs(lifetimes: Iterable[Lifetime]) -> list[Run]:
    """Every run of these pods, in the order in which they were seen."""
    found: list[Run] = []
    for pod in lifetimes:
        last = -1
        for state in pod.states:
            if (count := restart_count(state.object)) > last:
                found.append(Run(pod, count, state))
                last = count
    return sorted(found, key=lambda run: (run.seen.t, run.seen.n))


# --- loss of a pod ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """How and when a pod that lived at some moment stopped being the same processes."""

    how: str
    state: State


def loss(pod: Lifetime, since: float) -> Loss | None:
    """The first sign after ``since`` that ``pod`` didn't survive, or None.

    A container that has ended and waits for its restart counts at once: its restart count only grows when the kubelet's
    back-off is over, and until then a comparison of counts would call the dead alive.
    """
    before = existing(pod, since)
    if before is None:
        raise Unjudged(f"pod {pod.name} was not there at {since:.1f} s")
    count = restart_count(before.object)
    for state in pod.states:
        if state.t <= since:
            continue
        if state.change == "DELETED":
            return Loss("deleted, its UID is gone", state)
        if is_terminating(state.object):
            return Loss("is being deleted", state)
        now = restart_count(state.object)
        code = exit_code(state.object)
        told = "exit code not told" if code is None else f"exit code {code}"
        if ended(state.object):
            return Loss(f"ended as {state.object['status']['phase']}, {told}", state)
        if now > count:
            return Loss(f"restarted in place, restart count {count}→{now}, {told}", state)
        if any("terminated" in c.get("state", {}) for c in containers(state.object)):
            return Loss(f"ended in place, {told}", state)
    return None


# --- probes ----------------------------------------------------------------------------------------------------------


def began(probe: Probe) -> float:
    """When a probe was started; its own time is its end."""
    return probe.t - probe.took


def functional_probes(history: History, namespace: str, cluster: str) -> list[Probe]:
    return history.probes("functional", namespace=namespace, cluster=cluster)


def head_runs_since(history: History, namespace: str, cluster: str, since: float) -> list[Run]:
    """The runs of a head that began after ``since``, in order; none where the head is the same processes."""
    return [run for run in runs(ray_pods(history, namespace, cluster, "head")) if run.seen.t > since]


def head_settled_at(history: History, namespace: str, cluster: str, since: float) -> float:
    """When the head's last run after ``since`` began; ``since`` itself if there was none.

    By the kubelet's stamp where the container ran when it was first seen to: on a busy machine a head can answer before
    the watch tells of its restart.
    """
    return max([since, *map(_began, head_runs_since(history, namespace, cluster, since))])


def _began(run: Run) -> float:
    running = [state for c in containers(run.seen.object) if (state := c.get("state", {}).get("running"))]
    stamps = [epoch(state["startedAt"]) for state in running if state.get("startedAt")]
    return min([run.seen.t, *(stamp - run.seen.wall + run.seen.t for stamp in stamps)])


def functional_again(history: History, namespace: str, cluster: str, since: float) -> Probe | None:
    """The first functional probe that succeeded and was begun after the last change of the head since ``since``.

    A head that is deleted gracefully still answers for seconds after the fault, so a success alone may be the old
    head's.
    """
    settled = head_settled_at(history, namespace, cluster, since)
    for probe in functional_probes(history, namespace, cluster):
        if probe.ok and probe.t > since and began(probe) >= settled:
            return probe
    return None


def functional_stretch(history: History, namespace: str, cluster: str, since: float) -> list[Probe]:
    """The functional probes begun after ``since`` at the view's end, with no failed one and no new head among them."""
    probes = [probe for probe in functional_probes(history, namespace, cluster) if began(probe) >= since]
    failed = max((probe.t for probe in probes if not probe.ok), default=since)
    unbroken = max(head_settled_at(history, namespace, cluster, since), failed)
    return [probe for probe in probes if began(probe) >= unbroken]


def back_at(history: History, namespace: str, cluster: str, since: float) -> float | None:
    """When the cluster was functional again and its last head Ready, whichever came later; None while it isn't both.

    From here on checks count the time in which a raylet must have noticed that its GCS is another one.
    """
    back = functional_again(history, namespace, cluster, since)
    if back is None:
        return None
    later = head_runs_since(history, namespace, cluster, since)
    if not later:
        return back.t
    ready = later[-1].pod.first(is_ready, since=later[-1].seen.t)
    return None if ready is None else max(back.t, ready.t)


def probe_evidence(probe: Probe, shows: str = "") -> Evidence:
    result = "succeeded" if probe.ok else f"failed: {probe.error or 'no error text'}"
    return Evidence(probe.n, probe.t, shows or f"probe {probe.name} {result}")


def evidence(state: State, shows: str) -> Evidence:
    return Evidence(state.n, state.t, shows)


# --- gaps ------------------------------------------------------------------------------------------------------------


def no_gap(history: History, resource: str, since: float, until: float) -> None:
    """Raise Unjudged when the record of ``resource`` has a hole between the two times."""
    for gap in history.gaps(resource, since, until):
        raise Unjudged(
            f"the history of {resource} has a gap from {gap.since:.1f} s to {gap.until:.1f} s ({gap.reason})"
        )


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
