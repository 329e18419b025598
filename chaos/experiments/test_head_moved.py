"""The head ends by a request, by the end of its container, or with its node; with GCS fault tolerance the workers stay."""

from chaos.checks.actors import actor_process_kept
from chaos.checks.functional_twice import functional_twice
from chaos.checks.head_recreated import head_recreated
from chaos.checks.workers_survived import workers_survived
from chaos.experiment import experiment
from chaos.faults.node_drain import NodeDrain
from chaos.faults.restart_container import RestartContainer
from chaos.lab import FUNCTIONAL_SECONDS, Lab, cluster_target
from chaos.settings import Level
from chaos.stack import ray
from chaos.stack.cluster import Object
from chaos.turns import Part


@experiment(
    ("FT-2", "gcs-terminated"), ("FT-2", "container-killed"), seconds=270, level=Level.FULL, relies_on=[Part.REDIS]
)
def test_head_ends_in_its_pod(lab: Lab) -> None:
    """The GCS ends by SIGTERM, which its head takes a minute to notice; and the container of a head is killed as a whole.

    Control: a cluster without fault tolerance, whose head's container is killed as well.
    """
    quiet, ft = lab.ray_cluster("terminated", ft=True, workers=1), lab.ray_cluster("killed-ft", ft=True, workers=1)
    plain = lab.ray_cluster("killed-no-ft", ft=False, workers=1)
    lab.ready(quiet, ft, plain)
    for each in (quiet, ft, plain):
        lab.start_actor(each)
    actors = {quiet: ["counter"], ft: ["counter"], plain: []}
    lab.steady({each: ["counter"] for each in actors})

    with lab.inject(lab.terminate_gcs(quiet), *(RestartContainer.of(lab.head(each)) for each in (ft, plain))):
        lab.functional_again(actors)
    lab.settle(actors)

    lost = workers_survived(**cluster_target(plain))
    for arm, each in (("gcs-terminated", quiet), ("container-killed", ft)):
        a = cluster_target(each)
        lab.expect(
            "FT-2", arm, workers_survived(**a), functional_twice(**a), actor_process_kept(**a, actor="counter"),
            control=(f"{arm}-without-ft", lost),
        )  # fmt: skip


@experiment(("FT-2", "node-drained"), seconds=260, level=Level.FULL, disturbs=list(Part), relies_on=[])
def test_heads_node_is_drained(lab: Lab) -> None:
    """The node of two heads, which has no worker, is emptied as before maintenance: the heads move to the other one.

    Control: the cluster without fault tolerance.
    """
    drained, other, *_ = lab.ray_nodes()
    apart = {"headGroupSpec": _prefers(drained), "workerGroupSpecs": ray.pods_on(other)}
    ft = lab.ray_cluster("gcs-ft", ft=True, workers=1, spec=apart)
    plain = lab.ray_cluster("no-ft", ft=False, workers=1, spec=apart)
    lab.ready(ft, plain)
    for each in (ft, plain):
        lab.start_actor(each)
    lab.steady({ft: ["counter"], plain: ["counter"]})

    with lab.inject(NodeDrain.of(drained)):
        lab.functional_again({ft: ["counter"], plain: []})
    lab.functional_again({ft: ["counter"], plain: []})
    lab.settle({ft: ["counter"], plain: []})
    lab.record_redis()  # a member that had to wait for its node

    a, b = cluster_target(ft), cluster_target(plain)
    lab.expect(
        "FT-2", "node-drained",
        head_recreated(**a, within=FUNCTIONAL_SECONDS), workers_survived(**a), functional_twice(**a),
        actor_process_kept(**a, actor="counter"),
        control=("drained-without-ft", workers_survived(**b)),
    )  # fmt: skip


def _prefers(node: Object) -> Object:
    """A group of pods that are on this node as long as that takes pods."""
    on_it = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node["metadata"]["name"]]}
    preferred = {"weight": 100, "preference": {"matchExpressions": [on_it]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    return {"template": {"spec": {"affinity": affinity}}}
