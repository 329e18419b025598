"""The head pod is lost. With GCS fault tolerance the workers and what lives on them stay; without, they go with it."""

from chaos.checks.actors import actor_process_kept, actor_started_anew
from chaos.checks.driver import driver_gone, job_failed
from chaos.checks.functional_twice import functional_twice
from chaos.checks.head_kept import head_kept
from chaos.checks.head_recovery import head_recovery
from chaos.checks.metadata import job_remembered, metadata_kept
from chaos.checks.one_head import one_head
from chaos.checks.workers_lost import workers_lost
from chaos.checks.workers_replaced import workers_replaced
from chaos.checks.workers_survived import workers_survived
from chaos.experiment import experiment
from chaos.faults.delete_pod import DeletePod
from chaos.faults.kill_process import KillProcess
from chaos.lab import FUNCTIONAL_SECONDS, Lab, cluster_target
from chaos.settings import Level
from chaos.turns import Part


@experiment(
    ("FT-1", "no-ft"),
    ("FT-2", "gcs-ft"),
    ("FT-4", "gcs-ft"),
    ("FT-5", "worker-killed"),
    ("FT-6", "gcs-ft"),
    seconds=210,
)
def test_head_deleted(lab: Lab) -> None:
    """Two clusters, one with fault tolerance and one without, lose their heads at the same time; then one loses a worker.

    Each is the other's control: the same checks must come out the other way.
    """
    # 1. Each cluster has an actor on a worker, and a driver on its head.
    ft, plain = lab.ray_cluster("gcs-ft", ft=True), lab.ray_cluster("no-ft", ft=False)
    lab.ready(ft, plain)
    for each in (ft, plain):
        lab.start_actor(each, "counter")
    lab.submit_driver(ft, "first")
    lab.steady({ft: ["counter"], plain: ["counter"]})

    # 2. Both heads are deleted by force.
    with lab.inject(lab.delete_head(ft), lab.delete_head(plain)) as heads:
        # The actor of the cluster without fault tolerance has no name any more, so its probe doesn't ask for it.
        lab.functional_again({ft: ["counter"], plain: []})

    # 3. A raylet notices only by its self check that its GCS is another one. And Ray's job manager, which begins when it is
    #    first asked for something, finds only then that a driver of old is gone.
    lab.ready(ft)
    lab.submit_driver(ft, "second")
    lab.settle({ft: ["counter"], plain: []})
    lab.job_ends(ft, "first")
    lab.record_job(ft, "second")

    # 4. The worker that the actor lives on is lost as well.
    with lab.inject(lab.delete_worker_of(ft, "counter")) as worker:
        lab.functional_again({ft: ["counter"]})
    lab.record_job(ft, "second")

    a, b = cluster_target(ft), cluster_target(plain)
    lab.expect(
        "FT-1", "no-ft", workers_lost(**b).during(heads.group), functional_twice(**b).during(heads.group),
        control=("gcs-ft", workers_lost(**a).during(heads.group)),
    )  # fmt: skip
    lab.expect(
        "FT-2", "gcs-ft",
        workers_survived(**a).during(heads.group), functional_twice(**a).during(heads.group), one_head(**a).during(heads.group),
        head_recovery(**a, within=FUNCTIONAL_SECONDS).during(heads.group),
        control=("no-ft", workers_survived(**b).during(heads.group)),
    )  # fmt: skip
    lab.expect(
        "FT-4", "gcs-ft", actor_process_kept(**a, actor="counter").during(heads.group),
        control=("worker-killed", actor_process_kept(**a, actor="counter").during(worker.group)),
    )  # fmt: skip
    lab.expect(
        "FT-5", "worker-killed", actor_started_anew(**a, actor="counter").during(worker.group),
        control=("gcs-ft", actor_started_anew(**a, actor="counter").during(heads.group)),
    )  # fmt: skip
    lab.expect(
        "FT-6", "gcs-ft",
        driver_gone(**a, submission_id="first").during(heads.group), job_failed(**a, submission_id="first").during(heads.group),
        control=("worker-killed", driver_gone(**a, submission_id="second").during(worker.group)),
    )  # fmt: skip


@experiment(("FT-3", "gcs-ft"), seconds=190, level=Level.FULL, relies_on=[Part.OPERATOR, Part.REDIS])
def test_metadata_comes_back(lab: Lab) -> None:
    """Actor names, a stored value, a placement group, the job table and the node list, before and after a head is lost.

    Control: a cluster without fault tolerance forgets them.
    """
    ft, plain = lab.ray_cluster("gcs-ft", ft=True), lab.ray_cluster("no-ft", ft=False)
    lab.ready(ft, plain)
    for each in (ft, plain):
        lab.start_actor(each, "counter")
        lab.start_actor(each, "other")
    lab.record_metadata(ft, plain, make=True)
    for each in (ft, plain):
        lab.submit_driver(each, "job")  # later, since the actor that it owns goes with it, and its name as well
    lab.steady({ft: ["counter", "other"], plain: ["counter", "other"]})

    with lab.inject(lab.delete_head(ft), lab.delete_head(plain)):
        lab.functional_again({ft: ["counter", "other"], plain: []})
    lab.settle({ft: ["counter", "other"], plain: []})
    lab.record_metadata(ft, plain)
    for each in (ft, plain):
        lab.record_job(each, "job")

    a, b = cluster_target(ft), cluster_target(plain)
    lab.expect("FT-3", "gcs-ft", metadata_kept(**a), control=("no-ft", metadata_kept(**b)))
    lab.expect(
        "FT-3", "gcs-ft", job_remembered(**a, submission_id="job"),
        control=("no-ft", job_remembered(**b, submission_id="job")),
    )  # fmt: skip


@experiment(
    ("FT-2", "graceful"),
    ("FT-2", "gcs-killed"),
    ("FT-1", "gcs-killed"),
    seconds=190,
    level=Level.FULL,
    relies_on=[Part.OPERATOR, Part.REDIS],
)
def test_head_lost_in_other_ways(lab: Lab) -> None:
    """A graceful deletion, and the GCS killed so that the head restarts in its pod, with fault tolerance and without.

    The cluster without is the others' control, and they are its.
    """
    graceful = lab.ray_cluster("graceful", ft=True, workers=1)
    ft, plain = lab.ray_cluster("killed-ft", ft=True, workers=1), lab.ray_cluster("killed-no-ft", ft=False, workers=1)
    lab.ready(graceful, ft, plain)
    for each in (graceful, ft, plain):
        lab.start_actor(each, "counter")
    actors = {graceful: ["counter"], ft: ["counter"], plain: []}
    lab.steady({each: ["counter"] for each in actors})

    kills = [KillProcess.of(lab.head(each), process="gcs_server") for each in (ft, plain)]
    with lab.inject(lab.delete_head(graceful, grace=5), *kills):
        lab.functional_again(actors)
    lab.settle(actors)

    a, b, c = cluster_target(graceful), cluster_target(ft), cluster_target(plain)
    for arm, where in (("graceful", a), ("gcs-killed", b)):
        lab.expect(
            "FT-2", arm,
            workers_survived(**where), functional_twice(**where), actor_process_kept(**where, actor="counter"),
            control=(f"{arm}-without-ft", workers_survived(**c)),
        )  # fmt: skip
    lab.expect("FT-1", "gcs-killed", workers_lost(**c), functional_twice(**c), control=("gcs-ft", workers_lost(**b)))


@experiment(("FT-1", "workers-lost"), seconds=130, level=Level.FULL, relies_on=[Part.OPERATOR])
def test_workers_lost_alone(lab: Lab) -> None:
    """All workers are deleted: the head stays as it is, an actor on it answers, and replacements join.

    Control: a cluster whose head is deleted.
    """
    workers, head = lab.ray_cluster("workers-lost", ft=False), lab.ray_cluster("head-lost", ft=False, workers=1)
    lab.ready(workers, head)
    for each in (workers, head):
        lab.start_actor(each, "on-head", at=lab.head(each))
    lab.steady({workers: ["on-head"], head: ["on-head"]})

    with lab.inject(*map(DeletePod.of, workers.worker_pods(lab.cluster)), lab.delete_head(head)):
        lab.functional_again({workers: ["on-head"], head: []})
        lab.ready(workers)
    lab.look_twice({workers: ["on-head"], head: []})

    a, b = cluster_target(workers), cluster_target(head)
    lab.expect(
        "FT-1", "workers-lost",
        head_kept(**a), functional_twice(**a), actor_process_kept(**a, actor="on-head"), workers_replaced(**a),
        control=("head-lost", head_kept(**b)),
    )  # fmt: skip
