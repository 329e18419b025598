"""The operator is killed in the middle of a reconcile. What it wrote before is all that its successor knows.

The window between "the submitter Job exists" and "the status says so" lasts a millisecond. It is held open by refusing the
status write, so that hitting it is no race.
"""

from chaos.checks.attempt_unchanged import attempt_unchanged
from chaos.checks.executions import one_submission
from chaos.checks.rayjob_status import operator_killed_in_window, status_moved_on
from chaos.checks.submitter import one_submitter_job, same_job_reused
from chaos.experiment import experiment
from chaos.faults.delete_job import DeleteJob
from chaos.faults.delete_pod import DeletePod
from chaos.faults.kill_process import KillProcess
from chaos.faults.refuse_write import RefuseWrite
from chaos.lab import BY_SUBMITTER, Lab, job_target
from chaos.stack.kuberay import ACCOUNT, CLUSTER_ROLE
from chaos.turns import Part


@experiment(
    ("OP-2", "status-write-refused"), ("OP-4", "three-kills"), seconds=170, disturbs=[Part.OPERATOR], relies_on=[]
)
def test_operator_killed_before_the_status_is_written(lab: Lab) -> None:
    """Same submitter Job, one submission, one execution, and no new attempt over three restarts.

    Controls, in the same history: a second RayJob whose submitter Job is removed while no operator runs, which must get
    another one; a third whose entrypoint fails, which must open another attempt.
    """
    # 1. Three RayJobs get as far as having a cluster. The failing one may end at once, the others when they are let go.
    reused, removed = (lab.rayjob(arm, spec=BY_SUBMITTER) for arm in ("reused", "job-removed"))
    failing = lab.rayjob("failing", exit_code=1, backoff_limit=1)
    lab.release(failing)
    for job in (reused, removed, failing):
        lab.rayjob_reaches(job, "Initializing", deadline=60)
    operator = lab.operator()
    start = lab.now()

    # 2. From now on no status can be written. The operator creates the submitter Jobs and is refused to say so.
    with lab.inject(RefuseWrite(CLUSTER_ROLE, ACCOUNT, "ray.io", "rayjobs/status")):
        jobs = [lab.submitter_job(job, since=start) for job in (reused, removed)]
        for job in (reused, removed):
            lab.write_refused(job, "rayjobs/status", since=start)
        lab.phase("steady")
        # 3. It is killed there; while no operator leads, one of the Jobs is removed.
        with lab.inject(KillProcess.of(operator)) as kill, lab.inject(DeleteJob.of(jobs[1])):
            pass

    # 4. The status can be written again; a new operator takes over when the old lease has run out.
    lab.operator_leads_again(since=kill.began)
    lab.rayjob_reaches(reused, "Running", deadline=60, since=kill.began)

    # 5. Two more kills, while the job runs.
    for _ in range(2):
        with lab.inject(DeletePod.of(lab.operator())) as again:
            lab.operator_leads_again(since=again.began)

    # 6. To the end, with an operator there to see it.
    lab.disturbs_no_more()
    lab.record_submissions(reused)
    lab.release(reused)
    lab.rayjob_reaches(failing, "Retrying", "Failed", deadline=120, since=kill.began)
    lab.rayjob_reaches(reused, "Complete", "Failed", deadline=120, since=kill.began)
    lab.record_ledger(reused)

    this, other, third = job_target(reused), job_target(removed), job_target(failing)
    lab.expect(
        "OP-2", "status-write-refused",
        operator_killed_in_window(**this), one_submitter_job(**this), same_job_reused(**this), one_submission(**this),
        status_moved_on(**this, to="Running"),
        control=("job-removed", one_submitter_job(**other)),
    )  # fmt: skip
    lab.expect(
        "OP-4", "three-kills", attempt_unchanged(**this), control=("failing-entrypoint", attempt_unchanged(**third))
    )
