"""What is tried again when something fails: the whole RayJob, or its submitter alone."""

from chaos.checks.attempts import attempts_cleared, attempts_opened
from chaos.experiment import experiment
from chaos.lab import RUNNING_SECONDS, Lab, job_target
from chaos.settings import Level
from chaos.turns import Part

_ATTEMPTS = 3


@experiment(
    ("OP-5", "backoff-limit-2"), ("OP-5", "backoff-limit-0"), seconds=150, level=Level.CORE, relies_on=[Part.OPERATOR]
)
def test_entrypoint_fails(lab: Lab) -> None:
    """Two RayJobs with an entrypoint that fails at once; one may be tried three times, the other once.

    Each is the other's control. Nothing is injected: the entrypoint's exit code is the failure.
    """
    thrice, once = lab.rayjob("thrice", exit_code=1, backoff_limit=_ATTEMPTS - 1), lab.rayjob("once", exit_code=1)
    lab.take_turn()
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
