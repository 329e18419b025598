"""Redis, which holds the cluster's metadata, is lost or out of reach."""

from chaos.checks.actors import actor_process_kept
from chaos.checks.connection import connection_stalled
from chaos.checks.functional_twice import functional_twice
from chaos.checks.redis_failover import redis_failed_over
from chaos.checks.workers_lost import workers_lost
from chaos.checks.workers_survived import workers_survived
from chaos.experiment import experiment
from chaos.faults.delete_pod import DeletePod
from chaos.faults.partition import Partition
from chaos.lab import Lab, cluster_target, restarts
from chaos.turns import Part

# Longer than the 60 s after which a head gives up a GCS that it can't reach.
_CUT_SECONDS = 65.0


@experiment(("FT-13", "black-hole"), seconds=190, relies_on=[Part.REDIS])
def test_head_cut_off_from_redis(lab: Lab) -> None:
    """Packets between head and Redis vanish for longer than a minute; every pod stays Ready, and nothing works.

    Control: a connection from a pod beside the head, which isn't cut off, must not stall.
    """
    ft = lab.ray_cluster("gcs-ft", ft=True)
    lab.ready(ft)
    lab.start_actor(ft, "counter")
    witness = lab.witness(ft.namespace)
    lab.steady({ft: ["counter"]})
    head, members, primary = lab.head(ft), lab.redis_pods(), lab.redis_primary()
    lab.hold_connection(head, primary, "head")
    lab.hold_connection(witness, primary, "beside")

    with lab.inject(Partition.between(head, members)) as cut:
        lab.functional(ft, "counter")
        cut.hold(_CUT_SECONDS)
        lab.functional(ft, "counter")
    lab.functional_again({ft: ["counter"]})
    lab.look_twice({ft: ["counter"]})
    if lab.head(ft)["metadata"]["uid"] != head["metadata"]["uid"] or restarts(lab.head(ft)):
        lab.settle({ft: ["counter"]})

    a = cluster_target(ft)
    lab.expect(
        "FT-13", "black-hole",
        connection_stalled(probe="head", min_seconds=_CUT_SECONDS - 5), workers_survived(**a), functional_twice(**a),
        control=("beside-the-head", connection_stalled(probe="beside", min_seconds=_CUT_SECONDS - 5)),
    )  # fmt: skip


# The operator isn't needed: what ends is started again by its kubelet, in the same pod.
@experiment(("FT-11", "single-redis"), ("FT-12", "ha-redis"), seconds=170, disturbs=[Part.REDIS], relies_on=[])
def test_redis_primary_killed(lab: Lab) -> None:
    """The primary of a highly available Redis and a single Redis without persistence are killed at the same time.

    Both clusters have fault tolerance; each is the other's control.
    """
    ha = lab.ray_cluster("ha-redis", ft=True)
    single = lab.ray_cluster("single-redis", ft=True, redis_address=lab.single_redis("single-redis"))
    lab.ready(ha, single)
    for each in (ha, single):
        lab.start_actor(each, "counter")
    lab.steady({ha: ["counter"], single: ["counter"]})
    lab.record_redis()

    primary, only = lab.redis_primary_pod(), lab.redis_single_pod(single.namespace)
    with lab.inject(DeletePod.of(primary), DeletePod.of(only)):
        lab.functional_again({ha: ["counter"], single: []})
    lab.settle({ha: ["counter"], single: []})
    lab.record_redis()

    a, b = cluster_target(ha), cluster_target(single)
    lab.expect(
        "FT-12", "ha-redis",
        redis_failed_over(), workers_survived(**a), actor_process_kept(**a, actor="counter"), functional_twice(**a),
        control=("single-redis", workers_survived(**b)),
    )  # fmt: skip
    lab.expect("FT-11", "single-redis", workers_lost(**b), control=("ha-redis", workers_lost(**a)))
