"""A RayJob is deleted while its entrypoint works: what the entrypoint still does, and who must be there."""

from chaos.checks.deletion_waited import deletion_waited
from chaos.checks.stopped_later import stopped_later
from chaos.experiment import experiment
from chaos.faults.delete_rayjob import DeleteRayJob
from chaos.faults.scale_deployment import ScaleDeployment
from chaos.lab import LEASE_SECONDS, Lab, job_target
from chaos.settings import Level
from chaos.stack.kuberay import DEPLOYMENT, NAMESPACE
from chaos.turns import Part

# Ray kills what was told to stop after 3 s, and the head's grace period is 5 s: nothing writes any more by then.
_LAST_WRITE_SECONDS = 15.0


@experiment(
    ("OP-10", "deleted"), ("OP-10", "operator-away"),
    seconds=150, level=Level.FULL, disturbs=[Part.OPERATOR], relies_on=[Part.NODES],
)  # fmt: skip
def test_rayjob_deleted(lab: Lab) -> None:
    """Three RayJobs that take no hint: one is deleted, one is deleted while no operator runs, one stays as a control."""
    now, later, kept = (lab.rayjob(arm, stubborn=True) for arm in ("now", "later", "kept"))
    lab.ray_job_runs(now, later, kept)
    lab.take_turn()
    lab.phase("steady")

    with lab.inject(DeleteRayJob.of(lab.rayjob_object(now))) as deletion:
        lab.observe(_LAST_WRITE_SECONDS, why="how long the entrypoint writes on")
    for job in (now, kept):
        lab.record_writes(job)

    with lab.inject(ScaleDeployment(NAMESPACE, DEPLOYMENT, 0)) as away:
        lab.delete(later)
        away.hold(_LAST_WRITE_SECONDS)
    lab.rayjob_gone(later, deadline=LEASE_SECONDS)

    this, other = job_target(now), job_target(later)
    lab.expect(
        "OP-10", "deleted", stopped_later(**this).during(deletion.group),
        control=("kept-beside", stopped_later(**job_target(kept)).during(deletion.group)),
    )  # fmt: skip
    lab.expect("OP-10", "operator-away", deletion_waited(**other), control=("operator-there", deletion_waited(**this)))
