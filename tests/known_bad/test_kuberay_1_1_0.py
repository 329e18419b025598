"""KubeRay 1.1.0 on the definitions of 1.0.0 deletes every worker: the harness must report exactly that."""

import pytest

from chaos.experiment import Declaration
from chaos.experiments.test_operator_replaced import definitions_left_behind
from chaos.settings import Level
from chaos.turns import Part

DECLARED = Declaration((("OP-14", "definitions-left-behind"),), Level.FULL, 150, frozenset(Part))


@pytest.mark.level("full")
def test_workers_that_an_upgrade_deletes_are_reported_as_lost(chaos_run, elsewhere):
    with chaos_run.judged_as("1.1.0"):
        lab = elsewhere.begin("known_bad_1_1_0", DECLARED)
        lab.expect("OP-14", "definitions-left-behind", definitions_left_behind(lab))
        verdict = elsewhere.defect(lab, "OP-14", "ray-project/kuberay#2084")
    assert "2 of 3 pods lost" in verdict.reason
