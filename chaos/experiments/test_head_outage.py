"""What the loss of a head costs those outside: the client of a service, and whoever needs more workers afterwards."""

from dataclasses import replace

from chaos.checks.scale_up import scale_up_granted
from chaos.checks.service_outage import outage_shorter, start_up_waited_for
from chaos.experiment import experiment
from chaos.lab import Lab, cluster_target
from chaos.settings import Level
from chaos.turns import Part

# A model that is loaded.
_START_UP = 60.0
# A worker ends within 75 s of the new head's return and is back 15 s later; the start-up comes on top.
_ANSWERS_SECONDS = 90.0 + 1.5 * _START_UP


@experiment(
    ("FT-18", "gcs-ft"), ("FT-18", "no-ft"), seconds=300, level=Level.FULL, relies_on=[Part.OPERATOR, Part.REDIS]
)
def test_service_loses_its_head(lab: Lab) -> None:
    """Two services that take 60 s to start, one on a cluster with fault tolerance and one without, lose their heads together.

    A client of each, in a pod of its own, calls it twice a second. Each is the other's control.
    """
    ft, plain = lab.ray_cluster("gcs-ft", ft=True, workers=1), lab.ray_cluster("no-ft", ft=False, workers=1)
    lab.ready(ft, plain)
    lab.call_service(ft, plain, start_up=_START_UP)
    lab.steady({ft: [], plain: []})

    with lab.inject(lab.delete_head(ft), lab.delete_head(plain)):
        lab.functional_again({ft: [], plain: []})
    lab.service_answers(ft, plain, since=lab.now(), deadline=_ANSWERS_SECONDS)

    a, b = cluster_target(ft), cluster_target(plain)
    lab.expect("FT-18", "gcs-ft", outage_shorter(**a, than=b), control=("no-ft", outage_shorter(**b, than=a)))
    lab.expect(
        "FT-18", "no-ft", start_up_waited_for(**b, start_up=_START_UP),
        control=("gcs-ft", start_up_waited_for(**a, start_up=_START_UP)),
    )  # fmt: skip


@experiment(("FT-18", "autoscaler"), seconds=300, level=Level.FULL, relies_on=[Part.OPERATOR, Part.REDIS])
def test_autoscaler_loses_its_head(lab: Lab) -> None:
    """The autoscaler, which has granted a worker before, is lost with its head; then another worker is asked for.

    Control: one more than the cluster may have.
    """
    ft = lab.ray_cluster("autoscaler", ft=True, workers=1, most_workers=3)
    lab.ready(ft)
    lab.ask_for_workers(ft, 2)
    lab.ready(replace(ft, workers=2))
    lab.steady({ft: []})

    with lab.inject(lab.delete_head(ft)):
        lab.functional_again({ft: []})
    for count in (3, 4):
        lab.ask_for_workers(ft, count)
        lab.workers_join(ft, count)

    a = cluster_target(ft)
    lab.expect(
        "FT-18", "autoscaler", scale_up_granted(**a, workers=3),
        control=("beyond-its-maximum", scale_up_granted(**a, workers=4)),
    )  # fmt: skip
