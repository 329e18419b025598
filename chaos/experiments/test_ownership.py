"""What a RayJob owns goes when the RayJob goes, and only then."""

from chaos.checks.owned import owned_gone, owned_kept
from chaos.experiment import experiment
from chaos.faults.delete_pod import DeletePod
from chaos.faults.delete_rayjob import DeleteRayJob
from chaos.lab import Lab, job_target
from chaos.settings import Level
from chaos.turns import Part

# Grace periods of 5 s and the garbage collector; as long as `owned_gone` looks.
_GONE_SECONDS = 30.0


@experiment(
    ("OP-11", "rayjob-deleted"), ("OP-11", "operator-killed"),
    seconds=130, level=Level.SMOKE, disturbs=[Part.OPERATOR], relies_on=[Part.NODES],
)  # fmt: skip
def test_what_a_rayjob_owns(lab: Lab) -> None:
    """The operator is killed beside two running RayJobs, then one of them is deleted. Each is the other's control."""
    kept, deleted = lab.rayjob("kept"), lab.rayjob("deleted")
    lab.ray_job_runs(kept, deleted)
    lab.phase("steady")

    with lab.inject(DeletePod.of(lab.operator())) as kill:
        lab.operator_leads_again(since=kill.began)
    lab.disturbs_no_more()
    with lab.inject(DeleteRayJob.of(lab.rayjob_object(deleted))) as deletion:
        lab.observe(_GONE_SECONDS + 5, why="what goes with the RayJob, and what stays")

    this, other = job_target(kept), job_target(deleted)
    lab.expect(
        "OP-11", "rayjob-deleted", owned_gone(**other).during(deletion.group),
        control=("kept-beside", owned_gone(**this).during(deletion.group)),
    )  # fmt: skip
    lab.expect("OP-11", "operator-killed", owned_kept(**this), control=("deleted-beside", owned_kept(**other)))
