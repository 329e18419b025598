"""What a RayJob loses while it runs is Ray's or the user's to recover; the operator's part is to make the pods again."""

from chaos.checks.attempts import attempts_opened
from chaos.checks.head_recreated import head_recreated
from chaos.checks.work import task_retried, work_resumed
from chaos.experiment import experiment
from chaos.faults.delete_pod import DeletePod
from chaos.lab import RUNNING_SECONDS, Lab, cluster_target, job_target
from chaos.settings import Level
from chaos.turns import Part

# The old object goes within its grace period of 5 s; a successor was measured after 6 to 8 s.
_WATCH_SECONDS = 45.0
# Five a second.
_STEPS = 10


@experiment(("OP-12", "head-lost-without-ft"), seconds=120, level=Level.FULL, relies_on=[Part.OPERATOR])
def test_rayjob_loses_its_head(lab: Lab) -> None:
    """The head of a RayJob's cluster is deleted while the job runs: another one must be made."""
    job = lab.rayjob("no-ft")
    lab.rayjob_reaches(job, "Running", deadline=180)
    cluster = lab.cluster_of(job)
    lab.phase("steady")

    with lab.inject(lab.delete_head(cluster, grace=5)):
        lab.observe(_WATCH_SECONDS, why="whether the operator makes another head")
    lab.release(job)
    lab.record_ledger(job)

    lab.expect("OP-12", "head-lost-without-ft", head_recreated(**cluster_target(cluster)))


@experiment(
    ("OP-12", "head-lost-with-ft"),
    seconds=200, level=Level.FULL, relies_on=[Part.OPERATOR, Part.REDIS, Part.NODES],
)  # fmt: skip
def test_rayjob_with_ft_loses_its_head(lab: Lab) -> None:
    """With fault tolerance Ray still knows the job that went with the head: it fails, and isn't run a second time.

    Control: without, a submitter that is tried again meets a head that knows nothing, and the entrypoint runs twice.
    """
    kept, forgotten = lab.rayjob("with", ft=True, backoff_limit=0), lab.rayjob("without", backoff_limit=0)
    lab.ray_job_runs(kept, forgotten)
    lab.phase("steady")
    clusters = [lab.cluster_of(job) for job in (kept, forgotten)]

    with lab.inject(*(lab.delete_head(cluster, grace=5) for cluster in clusters)):
        lab.observe(_WATCH_SECONDS, why="whether the operator makes another head")
    lab.rayjob_reaches(kept, "Failed", "Complete", deadline=RUNNING_SECONDS)
    lab.release(forgotten)
    lab.rayjob_reaches(forgotten, "Failed", "Complete", deadline=RUNNING_SECONDS)
    for job in (kept, forgotten):
        lab.record_ledger(job)

    this = job_target(kept)
    lab.expect(
        "OP-12", "head-lost-with-ft",
        head_recreated(**cluster_target(clusters[0])), attempts_opened(**this, attempts=1, failed=1),
        control=("without-ft-beside", attempts_opened(**job_target(forgotten), attempts=1, failed=0)),
    )  # fmt: skip


@experiment(
    ("OP-12", "worker-lost"), ("OP-12", "worker-lost-with-checkpoint"), ("OP-12", "head-lost-with-checkpoint"),
    seconds=200, level=Level.FULL, relies_on=[Part.OPERATOR, Part.NODES],
)  # fmt: skip
def test_rayjob_loses_what_works_for_it(lab: Lab) -> None:
    """Two RayJobs lose the worker that works for them, a third its head: the task is run again, or the whole entrypoint.

    Each controls the others. One keeps no checkpoint, and its work begins again at the start.
    """
    bare, saving = (
        lab.rayjob("bare", workers=1, steps=True),
        lab.rayjob("saving", workers=1, steps=True, checkpoint=True),
    )
    headless = lab.rayjob("headless", steps=True, checkpoint=True)
    jobs = (bare, saving, headless)
    lab.ray_job_runs(*jobs)
    for job in jobs:
        lab.work_goes_on(job, steps=_STEPS, deadline=60)
    lab.phase("steady")

    workers = [DeletePod.of(lab.worker(lab.cluster_of(job)), grace=5) for job in (bare, saving)]
    with lab.inject(*workers, lab.delete_head(lab.cluster_of(headless), grace=5)):
        for job in jobs:
            lab.work_goes_on(job, steps=_STEPS, run=2, deadline=RUNNING_SECONDS)
    for job in jobs:
        lab.release(job)
        lab.rayjob_reaches(job, "Complete", "Failed", deadline=RUNNING_SECONDS)
        lab.record_ledger(job)
        lab.record_steps(job)

    no_checkpoint = work_resumed(**job_target(bare))
    lab.expect(
        "OP-12", "worker-lost", task_retried(**job_target(bare)),
        control=("head-lost-beside", task_retried(**job_target(headless))),
    )  # fmt: skip
    lab.expect(
        "OP-12", "worker-lost-with-checkpoint", task_retried(**job_target(saving)), work_resumed(**job_target(saving)),
        control=("worker-lost-without-checkpoint", no_checkpoint),
    )  # fmt: skip
    lab.expect(
        "OP-12", "head-lost-with-checkpoint", work_resumed(**job_target(headless)),
        control=("without-checkpoint-beside", no_checkpoint),
    )  # fmt: skip
