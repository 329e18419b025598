"""How long a lost head takes to come back, step by step, as a spread over many losses."""

from chaos.checks.head_recoveries import head_recoveries
from chaos.experiment import experiment
from chaos.faults.image_cold import ImageCold
from chaos.lab import FUNCTIONAL_SECONDS, Lab, cluster_target
from chaos.settings import Level
from chaos.stack import ray
from chaos.turns import Part

# A median and its neighbours; and with a cold image, where each step but one is the same, enough to see the spread.
_LOSSES = 20
_COLD_LOSSES = 5
# No head is Ready so soon: its probe begins 10 s after its start.
_IMPOSSIBLE = 5.0


@experiment(("FT-10", "warm-image"), seconds=660, level=Level.FULL, relies_on=[Part.OPERATOR, Part.REDIS])
def test_head_recovery_is_measured(lab: Lab) -> None:
    """One head after the other is lost, each a fresh pod that meets no back-off; the image is unpacked on every node.

    Control: a bound that can't be kept.
    """
    ft = lab.ray_cluster("warm-image", ft=True)
    lab.ready(ft)
    lab.start_actor(ft, "counter")
    for _ in range(_LOSSES):
        lab.steady({ft: ["counter"]})
        with lab.inject(lab.delete_head(ft)):
            lab.functional_again({ft: ["counter"]})
            lab.ready(ft)  # later than functional: the readiness probe begins 10 s after the start

    a = cluster_target(ft)
    lab.expect(
        "FT-10", "warm-image", head_recoveries(**a, within=FUNCTIONAL_SECONDS, at_least=_LOSSES),
        control=("impossible-bound", head_recoveries(**a, within=_IMPOSSIBLE, at_least=_LOSSES)),
    )  # fmt: skip


@experiment(("FT-10", "cold-image"), seconds=300, level=Level.FULL, disturbs=list(Part), relies_on=[])
def test_head_recovery_on_a_cold_node(lab: Lab) -> None:
    """The successor of each lost head comes to the other node, which has the image and must unpack it first.

    There are no workers, since a container that uses the image keeps it unpacked on its node.
    Control: a bound that can't be kept.
    """
    nodes = lab.ray_nodes()[:2]
    alone = {"rayStartParams": {"num-cpus": "1"}, **ray.pods_on(nodes[0])}
    ft = lab.ray_cluster("cold-image", ft=True, workers=0, spec={"headGroupSpec": alone})
    lab.ready(ft)
    image = lab.head(ft)["spec"]["containers"][0]["image"]
    for loss in range(_COLD_LOSSES):
        lab.steady({ft: []})
        node = nodes[(loss + 1) % len(nodes)]
        lab.amend(ft, {"headGroupSpec": ray.pods_on(node)})
        with lab.inject(ImageCold.of(node, image)), lab.inject(lab.delete_head(ft)):
            lab.functional_again({ft: []})
            lab.ready(ft)

    a = cluster_target(ft)
    lab.expect(
        "FT-10", "cold-image", head_recoveries(**a, within=FUNCTIONAL_SECONDS, at_least=_COLD_LOSSES),
        control=("impossible-bound", head_recoveries(**a, within=_IMPOSSIBLE, at_least=_COLD_LOSSES)),
    )  # fmt: skip
