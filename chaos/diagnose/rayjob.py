"""Where is my RayJob? Four steps in the order in which the truth is made, then what the operator will do next.

1. *The attempt*: the cluster name and submission ID that the status holds. They were written before anything else was made.
2. *Kubernetes*: the RayCluster, the submitter Job and the pods of that attempt.
3. *Ray*: its own record of that submission ID, which alone says what became of the job.
4. *Left outside*: what earlier attempts left, in Kubernetes and in the world.

The status is two things (``jobDeploymentStatus`` is KubeRay's, ``jobStatus`` Ray's as last heard), so they may disagree with
each other and with what is there; each disagreement is marked. What comes next follows from the saved phase and the
objects alone, as it does for an operator that has just started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from packaging.version import Version

from chaos.estate.estate import Estate, env_of
from chaos.estate.resource import Object, Resource, at
from chaos.history.objects import is_ready, is_terminating
from chaos.snapshot.snapshot import Snapshot

TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")
_ORIGIN = "ray.io/originated-from-cr-name"
_WITH_SUBMITTER = "K8sJobMode"


@dataclass
class Step:
    """One step: what was found, and what disagrees with what came before."""

    title: str
    facts: list[str] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Standing:
    """Where a RayJob stands."""

    rayjob: str
    steps: tuple[Step, ...]
    next: str

    @property
    def disagrees(self) -> bool:
        """Whether anything disagrees."""
        return any(step.disagreements for step in self.steps)

    def as_json(self) -> Object:
        """A dict of JSON types."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [self.rayjob]
        for number, step in enumerate(self.steps, 1):
            lines.append(f"{number}. {step.title}")
            lines += [f"   {fact}" for fact in step.facts]
            lines += [f"   !! {disagreement}" for disagreement in step.disagreements]
        return "\n".join([*lines, f"Next: {self.next}"])


@dataclass(frozen=True)
class _Job:
    """A RayJob and the objects of its present attempt."""

    rayjob: Resource
    estate: Estate
    snapshot: Snapshot

    def status(self, name: str) -> str:
        return str(self.rayjob.get("status", name) or "")

    @property
    def phase(self) -> str:
        return self.status("jobDeploymentStatus")

    @property
    def cluster_name(self) -> str:
        return self.status("rayClusterName")

    @property
    def submission(self) -> str:
        return self.status("jobId")

    @property
    def mode(self) -> str:
        return str(self.rayjob.get("spec", "submissionMode") or _WITH_SUBMITTER)

    @property
    def borrows_cluster(self) -> bool:
        """Whether it runs on a cluster that isn't its own."""
        return bool(self.rayjob.get("spec", "clusterSelector"))

    @property
    def cluster(self) -> Resource | None:
        return self.estate.named("RayCluster", self.rayjob.namespace, self.cluster_name) if self.cluster_name else None

    @property
    def submitter(self) -> Resource | None:
        """The submitter's Job, which has the RayJob's name."""
        return self.estate.named("Job", self.rayjob.namespace, self.rayjob.name)

    @property
    def record(self) -> Mapping[str, Any]:
        return self.snapshot.record(self.rayjob.namespace, self.cluster_name)

    @property
    def ray_job(self) -> Mapping[str, Any] | None:
        """Ray's record of the submission."""
        jobs = self.record.get("jobs") or []
        return next((job for job in jobs if self.submission and job.get("submission_id") == self.submission), None)

    @property
    def pods(self) -> list[Resource]:
        return [p for p in self.estate.of("Pod") if p.namespace == self.rayjob.namespace]


def standing(rayjob: Resource, estate: Estate, snapshot: Snapshot) -> Standing:
    """All of it for one RayJob."""
    job = _Job(rayjob, estate, snapshot)
    return Standing(str(rayjob), (_attempt(job), _kubernetes(job), _ray(job), _outside(job)), _next(job))


# --- 1 --------------------------------------------------------------------------------------------------------------


def _attempt(job: _Job) -> Step:
    step = Step("The attempt that the status names")
    failed, limit = int(job.rayjob.get("status", "failed") or 0), int(job.rayjob.get("spec", "backoffLimit") or 0)
    over = job.phase in {"Complete", "Failed", "ValidationFailed"}
    # A failed attempt is counted when it fails; the one that goes on is the one after it.
    present = max(failed, 1) if over and job.phase == "Failed" else failed + 1
    if job.phase == "Retrying":
        present = failed
    step.facts += [
        f"jobDeploymentStatus {job.phase or 'New (not written yet)'}, jobStatus {job.status('jobStatus') or 'none yet'}",
        f"cluster {job.cluster_name or 'none'}, submission ID {job.submission or 'none'}",
        f"attempt {present} of at most {limit + 1}; {failed} failed",
    ]
    for name in ("reason", "message"):
        if said := job.status(name):
            step.facts.append(f"{name}: {said}")
    if is_terminating(job.rayjob.obj):
        step.facts.append(
            f"is being deleted, held by {', '.join(job.rayjob.metadata.get('finalizers') or []) or 'nothing'}"
        )
    said = job.status("jobStatus")
    if job.phase == "Complete" and said not in TERMINAL:
        step.disagreements.append(f"Complete, but jobStatus is {said or 'empty'}")
    if job.phase == "Failed" and said in {"RUNNING", "PENDING", "SUCCEEDED"}:
        step.disagreements.append(
            f"Failed, but jobStatus is {said}: what failed is not Ray's job as it was last heard of"
        )
    if job.phase == "Running" and said in TERMINAL:
        step.disagreements.append(
            f"Running, but jobStatus is {said}: the submitter has not ended yet, or the write is due"
        )
    if failed > limit + 1:
        step.disagreements.append(f"{failed} attempts failed, more than backoffLimit {limit} allows")
    chosen = job.rayjob.get("spec", "jobId")
    if chosen and job.submission and chosen != job.submission:
        step.disagreements.append(f"spec.jobId is {chosen}, the status says {job.submission}")
    return step


# --- 2 --------------------------------------------------------------------------------------------------------------


def _kubernetes(job: _Job) -> Step:
    step = Step("Kubernetes' objects of that attempt")
    _add_cluster(job, step)
    if job.mode == _WITH_SUBMITTER:
        _add_submitter(job, step)
    return step


def _add_cluster(job: _Job, step: Step) -> None:
    wanted = job.phase in {"Initializing", "Running"} and bool(job.cluster_name)
    if job.cluster is None:
        if job.cluster_name:
            step.facts.append(f"RayCluster {job.cluster_name}: not there")
        if job.phase == "Running":
            step.disagreements.append(f"Running, but there is no RayCluster {job.cluster_name}")
        return
    state = str(job.cluster.get("status", "state") or "no state yet")
    deleted = ", is being deleted" if is_terminating(job.cluster.obj) else ""
    step.facts.append(f"RayCluster {job.cluster.name}: {state}{deleted}")
    if deleted and wanted:
        step.disagreements.append(f"{job.phase}, but its RayCluster is being deleted")
    owner = [o.get("uid") for o in job.cluster.metadata.get("ownerReferences") or []]
    if not job.borrows_cluster and job.rayjob.metadata.get("uid") not in owner:
        step.disagreements.append(
            f"RayCluster {job.cluster.name} belongs to another object of that name, not to this RayJob"
        )
    heads = [
        p
        for p in job.pods
        if p.labels.get("ray.io/cluster") == job.cluster_name and p.labels.get("ray.io/node-type") == "head"
    ]
    workers = [
        p
        for p in job.pods
        if p.labels.get("ray.io/cluster") == job.cluster_name and p.labels.get("ray.io/node-type") == "worker"
    ]
    ready = sum(is_ready(p.obj) for p in workers)
    shown = ", ".join(f"{h.name} ({'Ready' if is_ready(h.obj) else h.get('status', 'phase')})" for h in heads) or "none"
    step.facts.append(f"head: {shown}; workers: {ready} of {len(workers)} Ready")
    if state == "ready" and not any(is_ready(h.obj) for h in heads):
        step.disagreements.append("the RayCluster says ready, and no head is")
    if len(heads) > 1:
        step.disagreements.append(f"{len(heads)} heads of one cluster")


def _add_submitter(job: _Job, step: Step) -> None:
    if job.submitter is None:
        step.facts.append(f"submitter Job {job.rayjob.name}: not there")
        if job.phase == "Running":
            step.disagreements.append(
                "Running, but there is no submitter Job: the operator doesn't make another in this phase"
            )
        return
    own = job.submitter
    step.facts.append(f"submitter Job {own.name}: {_ended(own) or 'running'}, its pods: {_submitters(job)}")
    env = env_of(at(own.obj, "spec", "template", "spec", "containers", 0), "RAY_JOB_SUBMISSION_ID")
    submits = str(env[1].get("value", "")) if env else ""
    if submits and job.submission and submits != job.submission:
        step.disagreements.append(f"the submitter Job submits {submits}, the status says {job.submission}")
    if job.rayjob.metadata.get("uid") not in [o.get("uid") for o in own.metadata.get("ownerReferences") or []]:
        step.disagreements.append("the submitter Job belongs to another object of that name, not to this RayJob")
    if job.phase == "Initializing":
        step.facts.append("it was made and the status isn't written yet: the operator will find and keep it")
    if _ended(own) and job.phase == "Running" and job.status("jobStatus") not in TERMINAL:
        step.disagreements.append(f"the submitter {_ended(own)}, and jobStatus is {job.status('jobStatus') or 'empty'}")


def _ended(submitter: Resource) -> str:
    for condition in submitter.get("status", "conditions") or []:
        if condition.get("type") in {"Complete", "Failed"} and condition.get("status") == "True":
            return str(condition["type"]).lower()
    return ""


def _submitters(job: _Job) -> str:
    assert job.submitter is not None
    uid = job.submitter.metadata.get("uid")
    own = [p for p in job.pods if uid in [o.get("uid") for o in p.metadata.get("ownerReferences") or []]]
    return ", ".join(f"{p.name} ({p.get('status', 'phase')})" for p in own) or "none"


# --- 3 --------------------------------------------------------------------------------------------------------------


def _ray(job: _Job) -> Step:
    step = Step("Ray's record of the job")
    if "error" in job.record:
        step.facts.append(f"not known: {job.record['error']}")
        return step
    found, said = job.ray_job, job.status("jobStatus")
    if found is None:
        step.facts.append(f"Ray has no record of {job.submission or 'it'}")
        if said and said not in TERMINAL:
            step.disagreements.append(
                f"jobStatus is {said}, and Ray knows nothing of it: the record was lost, or never made"
            )
        elif job.phase == "Running" and job.submitter is not None and _ended(job.submitter):
            step.disagreements.append("the submitter has ended, and Ray knows nothing of the job")
        return step
    status = str(found.get("status"))
    message = " ".join(str(found.get("message") or "").split())[:200]
    step.facts.append(f"{job.submission}: {status}" + (f" ({message})" if message else ""))
    if said and said != status:
        step.disagreements.append(f"Ray says {status}, jobStatus still says {said}")
    if job.phase == "Failed" and status in {"RUNNING", "PENDING", "SUCCEEDED"}:
        step.disagreements.append(f"the RayJob is Failed, and Ray's job is {status}")
    others = [j for j in job.record["jobs"] if j.get("submission_id") not in (None, job.submission)]
    if others and not job.borrows_cluster:
        names = ", ".join(f"{j['submission_id']} {j.get('status')}" for j in others)
        step.disagreements.append(f"Ray has records of other submissions on this attempt's cluster: {names}")
    return step


# --- 4 --------------------------------------------------------------------------------------------------------------


def _outside(job: _Job) -> Step:
    step = Step("What earlier attempts left outside")
    uid = job.rayjob.metadata.get("uid")
    for cluster in job.estate.of("RayCluster"):
        owners = [o.get("uid") for o in cluster.metadata.get("ownerReferences") or []]
        if cluster.namespace == job.rayjob.namespace and uid in owners and cluster.name != job.cluster_name:
            held = ", ".join(cluster.metadata.get("finalizers") or [])
            gone = (
                f"is being deleted, held by {held or 'nothing'}"
                if is_terminating(cluster.obj)
                else "is not being deleted"
            )
            step.disagreements.append(f"RayCluster {cluster.name} of an earlier attempt {gone}")
    for pod in job.pods:
        made_for = pod.labels.get("ray.io/cluster", "")
        of_job = pod.labels.get(_ORIGIN) == job.rayjob.name or made_for.startswith(f"{job.rayjob.name}-")
        if (
            made_for
            and made_for != job.cluster_name
            and of_job
            and pod.get("status", "phase") in {"Running", "Pending"}
        ):
            step.disagreements.append(
                f"pod {pod.name} of the earlier cluster {made_for} is still {pod.get('status', 'phase')}"
            )
    for other in job.estate.of("Job"):
        if (
            other.namespace == job.rayjob.namespace
            and other.labels.get("ray.io/node-type") == "redis-cleanup"
            and _ended(other) == "failed"
        ):
            step.disagreements.append(f"clean-up Job {other.name} failed: its cluster's keys are still in Redis")
    if not step.disagreements:
        step.facts.append("nothing in Kubernetes")
    failed = int(job.rayjob.get("status", "failed") or 0)
    if failed or job.status("jobStatus"):
        step.facts.append(
            "what the entrypoint wrote elsewhere (files, databases, messages) is not undone by an attempt's end: look for "
            "it by a key of your own that is the same in every attempt"
        )
    return step


# --- next -----------------------------------------------------------------------------------------------------------


def _next(job: _Job) -> str:  # noqa: PLR0911  # one answer a phase
    """What the operator does at its next reconcile, from the saved phase and the objects alone."""
    if is_terminating(job.rayjob.obj):
        ask = "" if job.status("jobStatus") in TERMINAL else "asks Ray once to stop the job, doesn't wait for it, and "
        return f"{ask}takes its finalizer away; the cluster and the submitter go with the RayJob"
    match job.phase:
        case "":
            return "chooses the cluster's name and the submission ID, writes them, and goes to Initializing"
        case "Initializing":
            return _next_initializing(job)
        case "Waiting":
            return "waits until spec.jobId is set by whoever submits the job"
        case "Running":
            return _next_running(job)
        case "Retrying" | "Suspending":
            rest = [w for w, there in (("RayCluster", job.cluster), ("submitter Job", job.submitter)) if there]
            then = "goes to New with new names" if job.phase == "Retrying" else "goes to Suspended"
            waits = f"deletes the {' and the '.join(rest)}, waits until they are gone, then " if rest else ""
            return f"{waits}clears the attempt's names and {then}; pods of the old attempt may still be there then"
        case "Suspended":
            return "nothing until spec.suspend is false; then it begins anew"
        case "Complete" | "Failed":
            return _next_ended(job)
        case "ValidationFailed":
            return "nothing until the spec is corrected"
        case _:
            return f"not known for the phase {job.phase}"


def _next_initializing(job: _Job) -> str:
    if job.cluster is None:
        return f"makes RayCluster {job.cluster_name}"
    if job.cluster.get("status", "state") != "ready":
        return f"waits for RayCluster {job.cluster.name} to become ready"
    if job.mode != _WITH_SUBMITTER:
        return "goes to Running"
    if job.submitter is None:
        return f"makes the submitter Job {job.rayjob.name}, then goes to Running"
    return f"finds the submitter Job {job.submitter.name}, makes no other, and goes to Running"


def _next_running(job: _Job) -> str:  # noqa: PLR0911  # in the order in which the operator asks
    if job.cluster is None:
        return f"makes RayCluster {job.cluster_name} again, empty: Ray's record of the job is lost with the old one"
    if job.rayjob.get("spec", "suspend"):
        return "goes to Suspending"
    ended = _ended(job.submitter) if job.submitter else ""
    if ended == "failed":
        reason = "AppFailed" if job.status("jobStatus") == "FAILED" else "SubmissionFailed"
        return f"goes to Failed, reason {reason}; {_after_failure(job)}"
    status = str((job.ray_job or {}).get("status") or "")
    if "error" in job.record:
        return "asks Ray every 3 s; as long as Ray doesn't answer, the status stays" + _time_out(job)
    if not status:
        if job.mode == "HTTPMode":
            return "submits the job again, since Ray doesn't know it: it may be executed a second time"
        if ended:
            return f"goes to Failed, since the submitter ended and Ray has no such job; {_after_failure(job)}"
        return "waits for the submitter, which submits the job when Ray doesn't know it (KubeRay 1.3 and newer)"
    if status not in TERMINAL:
        return "asks Ray every 3 s; nothing else while the job runs"
    if job.mode == _WITH_SUBMITTER and not ended:
        return f"waits for the submitter to end, then writes {status}"
    if status == "FAILED":
        return f"goes to Failed, reason AppFailed; {_after_failure(job)}"
    return f"goes to Complete with jobStatus {status}"


def _time_out(job: _Job) -> str:
    known = job.estate.operator_version
    if known is None or known.version < Version("1.7"):
        return ""
    return ", until after 300 s it goes to Failed, reason JobStatusCheckTimeoutExceeded"


def _after_failure(job: _Job) -> str:
    """What follows when the present attempt fails."""
    failed, limit = int(job.rayjob.get("status", "failed") or 0), int(job.rayjob.get("spec", "backoffLimit") or 0)
    if failed + 1 <= limit:
        return f"since {failed} of {limit} retries are used, to Retrying in the same write: a new cluster, a new submission"
    return "no retry is left"


def _next_ended(job: _Job) -> str:
    if job.borrows_cluster:
        return "nothing; the cluster isn't its own and stays"
    if job.rayjob.get("spec", "deletionStrategy"):
        return "deletes what deletionStrategy says"
    if job.rayjob.get("spec", "shutdownAfterJobFinishes"):
        ttl = job.rayjob.get("spec", "ttlSecondsAfterFinished") or 0
        if job.cluster is None:
            return "nothing; its cluster is deleted already"
        return f"deletes RayCluster {job.cluster.name}, {ttl} s after the end"
    return "nothing; the cluster stays, since shutdownAfterJobFinishes isn't set"
