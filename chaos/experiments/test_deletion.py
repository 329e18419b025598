"""A RayJob is deleted while its entrypoint works: what the entrypoint still does, and who must be there."""

from chaos.checks.deletion_waited import deletion_waited
from chaos.checks.stopped_later import gone_untold, stopped_later
from chaos.experiment import experiment
from chaos.faults.delete_rayjob import DeleteRayJob
from chaos.faults.partition import Partition
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


@experiment(
    ("OP-10", "dashboard-out-of-reach"), seconds=110, level=Level.FULL, disturbs=[Part.OPERATOR], relies_on=[Part.NODES]
)
def test_rayjob_deleted_out_of_reach(lab: Lab) -> None:
    """Two RayJobs are deleted while the operator is cut off from the head of one: both go, and one is never told to stop.

    The other is the control.
    """
    cut, reached = (lab.rayjob(arm, stubborn=True) for arm in ("cut", "reached"))
    lab.ray_job_runs(cut, reached)
    lab.phase("steady")
    deletions = [DeleteRayJob.of(lab.rayjob_object(job)) for job in (cut, reached)]

    with lab.inject(Partition.between(lab.operator(), [lab.head(lab.cluster_of(cut))])):
        with lab.inject(*deletions) as deletion:
            lab.observe(_LAST_WRITE_SECONDS, why="whether the RayJobs go, and how long their entrypoints write on")
        for job in (cut, reached):
            lab.record_writes(job)

    lab.expect(
        "OP-10", "dashboard-out-of-reach", gone_untold(**job_target(cut)).during(deletion.group),
        control=("dashboard-in-reach", gone_untold(**job_target(reached)).during(deletion.group)),
    )  # fmt: skip
