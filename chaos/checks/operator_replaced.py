"""OP-14: an operator of another version finds pods that run, and leaves them as they are."""

from __future__ import annotations

from chaos.checks import facts
from chaos.checks.base import check
from chaos.checks.executions import ledger_lines
from chaos.errors import Unjudged
from chaos.history.reader import History, Lifetime, Object, State, is_terminating, labels
from chaos.verdict import Finding, Outcome

_LEASE = "ray-operator-leader"
_VERSION = "kuberay-chaos/kuberay-version"
_ROLES = ("head", "worker", "submitter")
_ENDED = ("Complete", "Failed")
_ATTEMPT = ("rayClusterName", "jobId", "failed")


@check
def pods_kept(history: History, *, namespace: str, watched: float = 40.0) -> Finding:
    """Ray's pods and submitters in the namespace are the same processes under another version of the operator.

    From the moment in which the operator began to be replaced, with those pods alive, until it is replaced again or their
    RayJob has ended. Same UID, same restart count, and no pod besides them. A new operator does nothing before it leads,
    and then looks at everything once: ``watched`` seconds after that are needed.
    """
    pods = _pods(history, namespace)
    since = _replaced_at(history, namespace)
    until = min([history.until, *(t for t in _steps(history) if t > since), *_job_ends(history, namespace)])
    before, after, leads = _operators(history, since, until)
    versions = f"{_version(before)} → {_version(after)}"
    seen = [facts.evidence(after.states[0], f"operator {_version(after)} made"), facts.evidence(leads, "it leads")]

    alive = facts.alive(pods, since)
    losses = [(pod, loss) for pod, _ in alive if (loss := facts.loss(pod, since)) and loss.state.t <= until]
    lost = [(pod, loss) for pod, loss in losses if not _has_done_its_work(loss.state.object)]
    made = [pod for pod in pods if since < pod.born <= until]
    if lost or made:
        told = [f"{pod.name} {loss.how}, {loss.state.t - since:.1f} s after it began" for pod, loss in lost]
        told += [f"{pod.name} made, {pod.born - since:.1f} s after it began" for pod in made]
        seen += [facts.evidence(loss.state, f"{pod.name} {loss.how}") for pod, loss in lost]
        seen += [facts.evidence(pod.states[0], f"{pod.name} made") for pod in made]
        reason = f"operator {versions}: {len(lost)} of {facts.plural(len(alive), 'pod')} lost: {'; '.join(told)}"
        return Finding(Outcome.BROKEN, reason, tuple(seen))
    if until - leads.t < watched:
        raise Unjudged(f"too early to tell: watched {until - leads.t:.0f} s of {watched:.0f} s after the operator led")
    facts.no_gap(history, "pods", since, until)
    seen += [facts.evidence(state, f"{pod.name} alive, UID {pod.uid}") for pod, state in alive]
    reason = (
        f"operator {versions}: {facts.plural(len(alive), 'pod')} kept UID and restarts and none was made, until "
        f"{until - leads.t:.0f} s after it led"
    )
    return Finding(Outcome.HOLDS, reason, tuple(seen), {"operator_replaced": round(leads.t - since, 3)})


@check
def job_kept(history: History, *, namespace: str, rayjob: str) -> Finding:
    """The RayJob that ran when the operator began to be replaced came to be Complete in the same attempt, executed once.

    What it was before and what it is at the end says so. Its watch is cut off when its definition is replaced, so there is no
    asking for what it was in every moment between.
    """
    since = _replaced_at(history, namespace)
    job = facts.rayjob_at(history, namespace, rayjob, since)
    before, end = job.at(since), job.latest
    assert before is not None
    if facts.status(before.object, "jobDeploymentStatus") != "Running":
        raise Unjudged(f"{rayjob} was not Running when the operator began to be replaced")
    stage = facts.status(end.object, "jobDeploymentStatus")
    if stage not in _ENDED:
        raise Unjudged(f"{rayjob} has not come to its end: it is {stage}")
    ledger, lines = ledger_lines(history, namespace, rayjob)
    seen = (
        facts.evidence(before, "Running"), facts.evidence(end, stage),
        facts.probe_evidence(ledger, f"ledger has {facts.plural(len(lines), 'execution')}"),
    )  # fmt: skip
    now, then = (tuple(facts.status(s.object, key) for key in _ATTEMPT) for s in (end, before))
    reason = (
        f"{rayjob} came to be {stage} in attempt {', '.join(now[:2])}, after {facts.plural(len(lines), 'execution')}"
    )
    if (stage, now, len(lines)) != ("Complete", then, 1):
        return Finding(Outcome.BROKEN, f"{reason}; it had been Running in {', '.join(then[:2])}", seen)
    return Finding(Outcome.HOLDS, f"{reason}, as it was before", seen)


def _has_done_its_work(pod: Object) -> bool:
    """A submitter that has ended as it should, a moment before its RayJob says so, isn't lost."""
    return facts.role(pod) == "submitter" and not is_terminating(pod) and facts.exit_code(pod) == 0


def _steps(history: History) -> list[float]:
    """When operators began to be replaced: a fault's undo replaces one as well."""
    faults = history.faults("replace-operator")
    return sorted(t for fault in faults for t in (fault.applied_at, fault.undo_at) if t is not None)


def _replaced_at(history: History, namespace: str) -> float:
    """When the operator first began to be replaced while pods of the namespace were alive."""
    pods = _pods(history, namespace)
    since = next((t for t in _steps(history) if facts.alive(pods, t)), None)
    if since is None:
        raise Unjudged(f"no operator was replaced while pods of {namespace} were alive")
    return since


def _pods(history: History, namespace: str) -> list[Lifetime]:
    found = history.objects("pods", namespace=namespace)
    return [pod for pod in facts.seen_in(history, found) if facts.role(pod.latest.object) in _ROLES]


def _job_ends(history: History, namespace: str) -> list[float]:
    jobs = history.objects("rayjobs", namespace=namespace)
    ends = (job.first(lambda obj: facts.status(obj, "jobDeploymentStatus") in _ENDED) for job in jobs)
    return [end.t for end in ends if end is not None]


def _operators(history: History, since: float, until: float) -> tuple[Lifetime, Lifetime, State]:
    """The operator that was there, the one that followed, and the first state of the lease that names it."""
    operators = facts.operator_pods(history)
    before = [pod for pod, _ in facts.alive(operators, since)]
    after = [pod for pod in operators if since < pod.born <= until]
    if len(before) != 1 or len(after) != 1:
        raise Unjudged(f"{facts.plural(len(before), 'operator')} followed by {len(after)}, one each expected")
    if _version(before[0]) == _version(after[0]):
        raise Unjudged(f"the operator was followed by one of the same version, {_version(after[0])}")
    for lease in history.objects("leases", name=_LEASE):
        for state in lease.states:
            holder = str(state.object["spec"].get("holderIdentity"))
            if state.t >= since and holder.startswith(f"{after[0].name}_"):
                return before[0], after[0], state
    raise Unjudged(f"the operator {after[0].name} never led")


def _version(operator: Lifetime) -> str:
    return labels(operator.latest.object).get(_VERSION, "(not told)")
