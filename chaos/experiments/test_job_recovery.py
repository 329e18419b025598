"""What a RayJob loses while it runs is Ray's or the user's to recover; the operator's part is to make the pods again."""

from chaos.checks.attempts import attempts_opened
from chaos.checks.head_recreated import head_recreated
from chaos.experiment import experiment
from chaos.lab import RUNNING_SECONDS, Lab, cluster_target, job_target
from chaos.settings import Level
from chaos.turns import Part

# The old object goes within its grace period of 5 s; a successor was measured after 6 to 8 s.
_WATCH_SECONDS = 45.0


@experiment(("OP-12", "head-lost-without-ft"), seconds=120, level=Level.CORE, relies_on=[Part.OPERATOR])
def test_rayjob_loses_its_head(lab: Lab) -> None:
    """The head of a RayJob's cluster is deleted while the job runs: another one must be made."""
    job = lab.rayjob("no-ft")
    lab.rayjob_reaches(job, "Running", deadline=180)
    cluster = lab.cluster_of(job)
    lab.take_turn()
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
    kept, forgotten = lab.rayjob("with", ft=True), lab.rayjob("without")
    lab.ray_job_runs(kept, forgotten)
    lab.take_turn()
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
