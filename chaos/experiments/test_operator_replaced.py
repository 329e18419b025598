"""Another version of the operator takes over while a Ray cluster and a RayJob run under the one before it."""

from chaos.checks.base import Check
from chaos.checks.operator_replaced import job_kept, pods_kept
from chaos.experiment import experiment
from chaos.lab import RUNNING_SECONDS, Lab, job_target
from chaos.settings import Level
from chaos.turns import Part

_EARLIER = "1.5.1"
# Where numOfHosts began to count, and the definitions before it don't have it.
_WITHOUT_HOSTS, _WITH_HOSTS = "1.0.0", "1.1.0"
# What an operator does to what it finds it does when it begins to lead; as long as `pods_kept` looks, and a little more.
_WATCH_SECONDS = 45.0


@experiment(("OP-14", "definitions-first"), seconds=420, level=Level.FULL, disturbs=tuple(Part))
def test_operator_replaced(lab: Lab) -> None:
    """The stack's own version follows an earlier one, definitions first, and leaves all pods as they are.

    Control: an operator that is put on the definitions of the version before it. Nobody else can be served meanwhile.
    """
    with lab.inject(lab.other_operator(_EARLIER)):
        cluster, job = lab.ray_cluster("cluster", ft=False), lab.rayjob("job")
        lab.ready(cluster)
        lab.ray_job_runs(job)
        lab.phase("steady")
    # What undoes the earlier version is the upgrade.
    lab.observe(_WATCH_SECONDS, why="what the stack's own version does to pods that it finds")
    lab.release(job)
    lab.rayjob_reaches(job, "Complete", "Failed", deadline=RUNNING_SECONDS)
    lab.record_ledger(job)

    control = definitions_left_behind(lab)
    for kept in (cluster.namespace, job.namespace):
        lab.expect(
            "OP-14", "definitions-first", pods_kept(namespace=kept), control=("definitions-left-behind", control)
        )
    lab.expect("OP-14", "definitions-first", job_kept(**job_target(job)))


def definitions_left_behind(lab: Lab) -> Check:
    """1.1.0 takes over from 1.0.0, on the definitions of 1.0.0; the check that tells what became of a cluster's pods."""
    with lab.inject(lab.other_operator(_WITHOUT_HOSTS)):
        cluster = lab.ray_cluster("left-behind", ft=False)
        lab.ready(cluster)
        with lab.inject(lab.other_operator(_WITH_HOSTS, definitions=False)):
            lab.observe(_WATCH_SECONDS, why="what an operator does whose definitions are of another version")
    return pods_kept(namespace=cluster.namespace)
