"""What becomes of actors whose process is lost: they come back empty, or not at all, unless they keep their state elsewhere."""

from chaos.checks.actors import actor_gone, actor_started_anew
from chaos.experiment import experiment
from chaos.lab import Lab, cluster_target
from chaos.settings import Level
from chaos.turns import Part

# So that a count that began anew is below the old one, also when a failed probe has counted.
_USES = 4


@experiment(
    ("FT-5", "restarted-from-the-head"),
    ("FT-5", "never-restarted"),
    seconds=120,
    level=Level.FULL,
    relies_on=[Part.OPERATOR, Part.REDIS],
)
def test_actors_of_a_lost_head(lab: Lab) -> None:
    """Three actors on a head that is deleted: one that Ray starts again, one that it must not, and one with a file for its state.

    Controls: the one with the file, which goes on where it was; and the one that Ray starts again, which isn't gone.
    """
    ft = lab.ray_cluster("gcs-ft", ft=True, workers=1)
    lab.ready(ft)
    head = lab.head(ft)
    lab.start_actor(ft, "restarted", at=head)
    lab.start_actor(ft, "mortal", at=head, max_restarts=0)
    lab.start_actor(ft, "keeper", at=head, keeps_state=True)
    for _ in range(_USES):
        lab.functional(ft, "restarted", "mortal", "keeper")
    lab.steady({ft: ["restarted", "mortal", "keeper"]})

    with lab.inject(lab.delete_head(ft)):
        lab.functional_again({ft: ["restarted", "keeper"]})
    lab.functional(ft, "mortal")

    a = cluster_target(ft)
    lab.expect(
        "FT-5", "restarted-from-the-head", actor_started_anew(**a, actor="restarted"),
        control=("keeps-its-state", actor_started_anew(**a, actor="keeper")),
    )  # fmt: skip
    lab.expect(
        "FT-5", "never-restarted", actor_gone(**a, actor="mortal"),
        control=("restarted", actor_gone(**a, actor="restarted")),
    )  # fmt: skip
