"""What a RayJob loses while it runs is Ray's or the user's to recover; the operator's part is to make the pods again."""

from chaos.checks.head_recreated import head_recreated
from chaos.experiment import experiment
from chaos.lab import Lab, cluster_target
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
