"""What only a kill at an exact write can show, or an answer that is withheld: the claims are declared, and unknown so far."""

from chaos.errors import FeatureMissing
from chaos.experiment import experiment
from chaos.lab import Lab
from chaos.settings import Level


@experiment(
    ("OP-2", "killed-at-the-write"), ("OP-3", "answer-withheld-and-killed"), ("OP-3", "answer-withheld-and-cut"),
    seconds=1, level=Level.FULL, relies_on=[],
)  # fmt: skip
def test_answer_withheld(lab: Lab) -> None:
    """The create of a submitter Job or a RayCluster reaches the API server, and the operator never hears the answer."""
    raise FeatureMissing("needs kill points")
