"""A submission ID comes to Ray a second time. Ray refuses what it has a record of, and knows no more than its records."""

from chaos.checks.submission_id import id_accepted_again, id_refused, written_once
from chaos.experiment import experiment
from chaos.lab import RUNNING_SECONDS, Lab, job_target
from chaos.settings import Level
from chaos.stack.ray import RayClusterHandle
from chaos.turns import Part


@experiment(("OP-8", "running"), ("OP-8", "ended"), seconds=80, level=Level.CORE, relies_on=[Part.NODES])
def test_same_id_twice(lab: Lab) -> None:
    """The ID of a job that runs and the ID of one that has ended are submitted again. Control: a new ID is accepted."""
    job = lab.rayjob("ids")
    lab.ray_job_runs(job)
    lab.phase("steady")
    cluster, running = lab.cluster_of(job), lab.submission_of(job)

    lab.submit(job, running)
    for submission_id in ("twice", "another"):
        lab.submit(job, submission_id)
        lab.job_ends(cluster, submission_id)
    lab.submit(job, "twice")
    lab.record_ledger(job)

    this = job_target(job)
    for arm, submission_id in (("running", running), ("ended", "twice")):
        lab.expect(
            "OP-8", arm, id_refused(**this, submission_id=submission_id),
            control=(f"new-id-beside-{arm}", id_refused(**this, submission_id="another")),
        )  # fmt: skip


@experiment(
    ("OP-9", "record-lost"), ("OP-9", "record-kept"), ("OP-9", "unique-key"),
    seconds=130, level=Level.FULL, relies_on=[Part.OPERATOR, Part.REDIS, Part.NODES],
)  # fmt: skip
def test_record_lost(lab: Lab) -> None:
    """A job has ended, then the head is replaced: with it goes the record, unless Redis has it. Each controls the other.

    What the job writes outside of Ray is doubled with it, unless it is written under a key that is taken once.
    The RayJobs are interactive: a cluster and a ledger, and no submitter whose own retries would get in between.
    """
    interactive = {"submissionMode": "InteractiveMode"}
    lost, kept = lab.rayjob("lost", spec=interactive), lab.rayjob("kept", ft=True, spec=interactive)
    for job in (lost, kept):
        lab.rayjob_reaches(job, "Waiting", deadline=RUNNING_SECONDS)
    clusters: dict[RayClusterHandle, list[str]] = {lab.cluster_of(job): [] for job in (lost, kept)}
    lab.steady(clusters)
    for job in (lost, kept):
        lab.submit(job, "again")
        lab.job_ends(lab.cluster_of(job), "again")

    with lab.inject(*(lab.delete_head(cluster, grace=5) for cluster in clusters)):
        lab.functional_again(clusters)
    for job in (lost, kept):
        lab.submit(job, "again")
        lab.job_ends(lab.cluster_of(job), "again")
        lab.record_ledger(job)

    without, within = job_target(lost), job_target(kept)
    lab.expect(
        "OP-9", "record-lost", id_accepted_again(**without, submission_id="again"),
        control=("record-kept-beside", id_accepted_again(**within, submission_id="again")),
    )  # fmt: skip
    lab.expect(
        "OP-9", "record-kept", id_refused(**within, submission_id="again"),
        control=("record-lost-beside", id_refused(**without, submission_id="again")),
    )  # fmt: skip
    lab.expect(
        "OP-9", "unique-key", written_once(**without, submission_id="again", keyed=True),
        control=("no-key", written_once(**without, submission_id="again", keyed=False)),
    )  # fmt: skip
