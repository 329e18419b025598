"""The operator is killed in each state that a RayJob can rest in. Its successor knows spec, status and objects, and nothing else.

Each time the RayJob must come to the end that it would have come to, and nothing may be made a second time.
"""

from collections.abc import Callable

import pytest

from chaos.checks.attempts import attempts_opened
from chaos.checks.owned import owned_gone
from chaos.checks.resumed import resumed, shut_down_after
from chaos.experiment import experiment
from chaos.faults.delete_pod import DeletePod
from chaos.faults.hold_deletion import HoldDeletion
from chaos.faults.refuse_write import RefuseWrite
from chaos.lab import RUNNING_SECONDS, Lab, job_target
from chaos.settings import Level
from chaos.stack.kuberay import ACCOUNT, CLUSTER_ROLE
from chaos.stack.ray import RayJobHandle
from chaos.turns import Part

_ARM = ("OP-1", "same-end")
# After this a cluster of a RayJob that has ended is deleted: longer than a killed operator's lease lasts.
_TTL = 45
# A lease, a reconcile, and the grace periods of what is deleted with the RayJob.
_GONE_SECONDS = 60
# What KubeRay asks of a RayJob that is to be suspended, or whose cluster is to be deleted after a time.
_SHUT_DOWN = {"shutdownAfterJobFinishes": True, "deletionStrategy": None}


def _in_state(seconds: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return experiment(_ARM, seconds=seconds, level=Level.FULL, disturbs=[Part.OPERATOR], relies_on=[Part.NODES])


@_in_state(110)
@pytest.mark.parametrize("stage", ["Initializing", "Running"])
def test_killed_in(lab: Lab, stage: str) -> None:
    """While the Ray cluster starts, and while the job runs: the same attempt goes on."""
    job = lab.rayjob("job")
    lab.rayjob_reaches(job, stage, deadline=RUNNING_SECONDS)
    lab.ray_cluster_made(job)
    _kill(lab)
    _end(lab, job, stage)


@_in_state(120)
@pytest.mark.parametrize(
    ("stage", "refused"), [("", "rayjobs/status"), ("Initializing", "rayclusters")], ids=["New", "bare"]
)
def test_killed_before(lab: Lab, stage: str, refused: str) -> None:
    """Before the first status is written, and before there is a Ray cluster: the refused write keeps it there."""
    with lab.inject(RefuseWrite(CLUSTER_ROLE, ACCOUNT, "ray.io", refused)):
        job = lab.rayjob("job")
        lab.write_refused(job, refused)
        _kill(lab, wait=False)
    _end(lab, job, stage)


@_in_state(120)
def test_killed_in_waiting(lab: Lab) -> None:
    """While it waits for a user to say which job is his."""
    job = lab.rayjob("job", spec={"submissionMode": "InteractiveMode"})
    lab.rayjob_reaches(job, "Waiting", deadline=RUNNING_SECONDS)
    _kill(lab)
    lab.submit(job, "by-hand")
    lab.change(job, jobId="by-hand")
    _end(lab, job, "Waiting")


@_in_state(170)
@pytest.mark.parametrize("stage", ["Suspending", "Suspended"])
def test_killed_when_suspended(lab: Lab, stage: str) -> None:
    """While its Ray cluster is being deleted, which a finalizer holds up, and when it is gone: later it runs again."""
    job = lab.rayjob("job", spec=_SHUT_DOWN)
    lab.ray_job_runs(job)
    with lab.inject(HoldDeletion.of("rayclusters", lab.ray_cluster_made(job))):
        lab.change(job, suspend=True)
        if stage == "Suspending":
            lab.rayjob_reaches(job, stage, deadline=30)
            _kill(lab)
    lab.rayjob_reaches(job, "Suspended", deadline=30)
    if stage == "Suspended":
        _kill(lab)
    lab.change(job, suspend=False)
    _end(lab, job, stage, attempts=2)


@experiment(
    _ARM, ("OP-5", "operator-killed-in-retrying"),
    seconds=240, level=Level.FULL, disturbs=[Part.OPERATOR], relies_on=[Part.NODES],
)  # fmt: skip
def test_killed_in_retrying(lab: Lab) -> None:
    """While a failed attempt's Ray cluster is being deleted, which a finalizer holds up: two more attempts, and no fourth.

    Control: a RayJob that may be tried once.
    """
    job, once = (lab.rayjob(arm, exit_code=1, backoff_limit=limit) for arm, limit in (("job", 2), ("once", 0)))
    lab.release(once)
    lab.rayjob_reaches(job, "Initializing", deadline=60)
    with lab.inject(HoldDeletion.of("rayclusters", lab.ray_cluster_made(job))):
        lab.release(job)
        lab.rayjob_reaches(job, "Retrying", deadline=RUNNING_SECONDS)
        _kill(lab)
    _end(lab, job, "Retrying", attempts=3, failed=3)
    lab.rayjob_reaches(once, "Failed", "Complete", deadline=RUNNING_SECONDS)
    lab.record_ledger(once)
    this, other = (attempts_opened(**job_target(each), attempts=3, failed=3) for each in (job, once))
    lab.expect("OP-5", "operator-killed-in-retrying", this, control=("tried-once", other))


@_in_state(150)
@pytest.mark.parametrize(("stage", "exit_code"), [("Complete", 0), ("Failed", 1)])
def test_killed_in_end(lab: Lab, stage: str, exit_code: int) -> None:
    """When it has ended and its Ray cluster is yet to be deleted: the cluster goes when its time has come."""
    job = lab.rayjob("job", exit_code=exit_code, backoff_limit=0, spec={**_SHUT_DOWN, "ttlSecondsAfterFinished": _TTL})
    lab.release(job)
    lab.rayjob_reaches(job, stage, deadline=RUNNING_SECONDS)
    _kill(lab)
    lab.observe(_TTL + 10, why="whether the cluster goes in time")
    _end(lab, job, stage, failed=exit_code)
    lab.expect(*_ARM, shut_down_after(**job_target(job), ttl=_TTL))


@_in_state(150)
def test_killed_in_deletion(lab: Lab) -> None:
    """When Ray was told to stop, before the finalizer is taken off, which is refused: it goes, with all that it owns.

    Control: a RayJob that nobody deletes.
    """
    job, kept = lab.rayjob("job"), lab.rayjob("kept")
    lab.ray_job_runs(job, kept)
    with lab.inject(RefuseWrite(CLUSTER_ROLE, ACCOUNT, "ray.io", "rayjobs")):
        lab.delete(job)
        lab.write_refused(job, "rayjobs")
        _kill(lab, wait=False)
    lab.observe(_GONE_SECONDS, why="whether the RayJob goes, and what goes with it")
    this, other = job_target(job), job_target(kept)
    lab.expect(
        *_ARM, resumed(**this, stage="Running"), owned_gone(**this, within=_GONE_SECONDS),
        control=("kept-beside", owned_gone(**other, within=_GONE_SECONDS)),
    )  # fmt: skip


def _kill(lab: Lab, *, wait: bool = True) -> None:
    """Kill the operator; by default until another one leads."""
    lab.phase("steady")
    with lab.inject(DeletePod.of(lab.operator())) as kill:
        if wait:
            lab.operator_leads_again(since=kill.began)


def _end(lab: Lab, job: RayJobHandle, stage: str, *, attempts: int = 1, failed: int = 0) -> None:
    """Let the job end, and expect what would have been without the kill."""
    lab.release(job)
    lab.rayjob_reaches(job, "Complete", "Failed", deadline=RUNNING_SECONDS + 60)
    lab.record_ledger(job)
    this = job_target(job)
    lab.expect(*_ARM, resumed(**this, stage=stage), attempts_opened(**this, attempts=attempts, failed=failed))
