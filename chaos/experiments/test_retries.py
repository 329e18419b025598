"""What is tried again when something fails: the whole RayJob, or its submitter alone."""

from collections.abc import Callable

from chaos.checks.attempts import attempts_cleared, attempts_opened
from chaos.checks.executions import one_submission
from chaos.checks.submitter import one_submitter_job
from chaos.checks.submitter_retried import submitter_retried
from chaos.experiment import experiment
from chaos.faults.base import Fault
from chaos.faults.delete_pod import DeletePod
from chaos.faults.kill_process import KillProcess
from chaos.lab import BY_SUBMITTER, RUNNING_SECONDS, Lab, job_target
from chaos.settings import Level
from chaos.stack.cluster import Object
from chaos.turns import Part

_ATTEMPTS = 3
_GIVEN = "given-by-a-user"
# A submitter that can't take up a job that is there has used up its three tries after 35 s.
_RETRIES_SECONDS = 40.0
_RETRIES = 2  # as KubeRay has it by itself


@experiment(
    ("OP-5", "backoff-limit-2"), ("OP-5", "backoff-limit-0"), seconds=150, level=Level.CORE, relies_on=[Part.OPERATOR]
)
def test_entrypoint_fails(lab: Lab) -> None:
    """Two RayJobs with an entrypoint that fails at once; one may be tried three times, the other once.

    Each is the other's control. Nothing is injected: the entrypoint's exit code is the failure.
    """
    thrice, once = (
        lab.rayjob(arm, exit_code=1, backoff_limit=attempts - 1)
        for arm, attempts in (("thrice", _ATTEMPTS), ("once", 1))
    )
    for job in (thrice, once):
        lab.release(job)
    lab.rayjob_reaches(once, "Failed", "Complete", deadline=RUNNING_SECONDS)
    lab.rayjob_reaches(thrice, "Failed", "Complete", deadline=_ATTEMPTS * RUNNING_SECONDS)
    for job in (thrice, once):
        lab.record_ledger(job)

    this, other = job_target(thrice), job_target(once)
    lab.expect(
        "OP-5", "backoff-limit-2",
        attempts_opened(**this, attempts=_ATTEMPTS, failed=_ATTEMPTS), attempts_cleared(**this),
        control=("one-attempt-only", attempts_opened(**other, attempts=_ATTEMPTS, failed=_ATTEMPTS)),
    )  # fmt: skip
    lab.expect(
        "OP-5", "backoff-limit-0", attempts_opened(**other, attempts=1, failed=1),
        control=("three-attempts", attempts_opened(**this, attempts=1, failed=1)),
    )  # fmt: skip


@experiment(("OP-5", "job-id-given"), seconds=140, level=Level.FULL, relies_on=[Part.OPERATOR])
def test_entrypoint_fails_under_a_given_id(lab: Lab) -> None:
    """A RayJob whose user has given the submission ID is tried twice under that one. Control: one to which KubeRay gives IDs."""
    given = lab.rayjob("given", exit_code=1, backoff_limit=1, spec={"jobId": _GIVEN})
    generated = lab.rayjob("generated", exit_code=1, backoff_limit=1)
    for job in (given, generated):
        lab.release(job)
    for job in (given, generated):
        lab.rayjob_reaches(job, "Failed", "Complete", deadline=2 * RUNNING_SECONDS)
        lab.record_ledger(job)

    this, other = (
        attempts_opened(**job_target(job), attempts=2, failed=2, submission_id=_GIVEN) for job in (given, generated)
    )
    lab.expect("OP-5", "job-id-given", this, attempts_cleared(**job_target(given)), control=("ids-generated", other))


@experiment(("OP-6", "submitter-pod-deleted"), seconds=130, level=Level.CORE, relies_on=[Part.OPERATOR, Part.NODES])
def test_submitter_deleted(lab: Lab) -> None:
    """The submitter's pod is deleted while the Ray job runs: another one follows the same job."""
    _lose_submitter(lab, "submitter-pod-deleted", DeletePod.of)


@experiment(("OP-6", "submitter-killed"), seconds=130, level=Level.FULL, relies_on=[Part.OPERATOR, Part.NODES])
def test_submitter_killed(lab: Lab) -> None:
    """The submitter's process is killed while the Ray job runs: another pod follows the same job."""
    _lose_submitter(lab, "submitter-killed", KillProcess.of)


def _lose_submitter(lab: Lab, arm: str, fault: Callable[[Object], Fault]) -> None:
    """Two RayJobs lose their submitters at the same time. Control: one of them must not try its submitter again."""
    retried, bare = (
        lab.rayjob(arm, backoff_limit=0, spec={**BY_SUBMITTER, "submitterConfig": {"backoffLimit": tries}})
        for arm, tries in (("retried", _RETRIES), ("bare", 0))
    )
    lab.ray_job_runs(retried, bare)
    lab.phase("steady")

    with lab.inject(*(fault(lab.submitter_pod(job)) for job in (retried, bare))):
        lab.observe(_RETRIES_SECONDS, why="whether another submitter follows the job")
    lab.record_submissions(retried)
    lab.release(retried)
    lab.rayjob_reaches(retried, "Complete", "Failed", deadline=60)
    lab.record_ledger(retried)

    this, other = job_target(retried), job_target(bare)
    lab.expect(
        "OP-6", arm, submitter_retried(**this), one_submitter_job(**this), one_submission(**this),
        control=("no-retry", submitter_retried(**other)),
    )  # fmt: skip
