"""Nobody reconciles for a while: what the status says meanwhile, what it comes to say, and who takes over."""

from collections.abc import Callable

from chaos.checks.one_writer import one_writer
from chaos.checks.two_statuses import statuses_differ, success_converged
from chaos.experiment import experiment
from chaos.faults.base import Fault
from chaos.faults.delete_pod import DeletePod
from chaos.faults.scale_deployment import ScaleDeployment
from chaos.lab import BY_SUBMITTER, RUNNING_SECONDS, JobTarget, Lab, job_target
from chaos.settings import Level
from chaos.stack.cluster import Object
from chaos.stack.kuberay import ACCOUNT, DEPLOYMENT, NAMESPACE
from chaos.turns import Part

# KubeRay gives a Ray job 30 s from its submitter's end until its status must say how it ended.
_PAST_THE_TIMEOUT = 40.0


@experiment(
    ("OP-7", "before-the-job-runs"), ("OP-7", "operator-away-briefly"),
    seconds=120, level=Level.FULL, disturbs=[Part.OPERATOR], relies_on=[Part.NODES],
)  # fmt: skip
def test_job_ends_unseen(lab: Lab) -> None:
    """A job succeeds while a killed operator's lease runs out. Control: one whose entrypoint fails meanwhile."""
    this = _jobs_end_while(lab, "operator-away-briefly", DeletePod.of)
    lab.expect(
        "OP-7", "before-the-job-runs", statuses_differ(**this, deployment="Running", job=["", "PENDING"]),
        control=("at-the-end", statuses_differ(**this, deployment="Complete", job=["", "PENDING", "RUNNING"])),
    )  # fmt: skip


@experiment(
    ("OP-7", "operator-away-long"), seconds=170, level=Level.FULL, disturbs=[Part.OPERATOR], relies_on=[Part.NODES]
)
def test_job_ends_long_unseen(lab: Lab) -> None:
    """A job succeeds while no operator runs, and none does for long. Control: one whose entrypoint fails meanwhile."""
    gone = ScaleDeployment(NAMESPACE, DEPLOYMENT, 0)
    _jobs_end_while(lab, "operator-away-long", lambda _: gone, hold=_PAST_THE_TIMEOUT)


def _jobs_end_while(lab: Lab, arm: str, away: Callable[[Object], Fault], *, hold: float = 0.0) -> JobTarget:
    """A job that succeeds and one that fails end while the operator is away; ``hold`` seconds longer, if given."""
    jobs = [
        lab.rayjob("succeeding", spec=BY_SUBMITTER),
        lab.rayjob("failing", exit_code=1, backoff_limit=0, spec=BY_SUBMITTER),
    ]
    lab.ray_job_runs(*jobs)
    lab.phase("steady")
    submissions = [lab.submission_of(job) for job in jobs]

    with lab.inject(away(lab.operator())) as absence:
        for job in jobs:
            lab.release(job)
        for job, submission_id in zip(jobs, submissions, strict=True):
            lab.job_ends(lab.cluster_of(job), submission_id)
        if hold:
            for job in jobs:
                lab.submitter_finished(job)
            absence.hold(hold)
    lab.operator_leads_again(since=absence.began)
    for job in jobs:
        lab.rayjob_reaches(job, "Complete", "Failed", deadline=60, since=absence.began)

    this, other = (job_target(job) for job in jobs)
    lab.expect(
        "OP-7", arm, success_converged(**this, submission_id=submissions[0]),
        control=("entrypoint-fails", success_converged(**other, submission_id=submissions[1])),
    )  # fmt: skip
    return this


@experiment(("OP-13", "leader-killed"), seconds=150, level=Level.FULL, disturbs=[Part.OPERATOR], relies_on=[Part.NODES])
def test_leader_killed(lab: Lab) -> None:
    """Of two operators the one that leads is killed with its work half done. Control: all writers of the cluster together."""
    with lab.inject(ScaleDeployment(NAMESPACE, DEPLOYMENT, 2)):
        leader = lab.leader()
        job = lab.rayjob("handover")
        lab.rayjob_reaches(job, "Initializing", deadline=60)
        lab.phase("steady")
        with lab.inject(DeletePod.of(leader)) as kill:
            lab.operator_leads_again(since=kill.began)
        lab.rayjob_reaches(job, "Running", deadline=RUNNING_SECONDS, since=kill.began)
    # The pod that goes when there is to be one again may be the one that leads.
    lab.operator_settled()
    lab.expect("OP-13", "leader-killed", one_writer(account=ACCOUNT), control=("all-writers", one_writer()))
