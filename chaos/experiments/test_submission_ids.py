"""A submission ID comes to Ray a second time. Ray refuses what it has a record of, and knows no more than its records."""

from chaos.checks.submission_id import id_refused
from chaos.experiment import experiment
from chaos.lab import Lab, job_target
from chaos.settings import Level
from chaos.turns import Part


@experiment(("OP-8", "running"), ("OP-8", "ended"), seconds=80, level=Level.CORE, relies_on=[Part.NODES])
def test_same_id_twice(lab: Lab) -> None:
    """The ID of a job that runs and the ID of one that has ended are submitted again. Control: a new ID is accepted."""
    job = lab.rayjob("ids")
    lab.ray_job_runs(job)
    lab.take_turn()
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
