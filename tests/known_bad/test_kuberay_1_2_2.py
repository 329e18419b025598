"""On KubeRay 1.2.2 a submitter that was replaced is refused by Ray: the harness must report exactly that."""

import pytest

from chaos.experiments import test_retries
from chaos.plugin import MARKER
from chaos.verdict import Judgement, Outcome, Role

EXPERIMENT = test_retries.test_submitter_deleted


@pytest.mark.level("full")
def test_a_replaced_submitter_is_reported_as_failing_its_rayjob(chaos_run):
    [declared] = [mark.args[0] for mark in EXPERIMENT.pytestmark if mark.name == MARKER]
    before = list(chaos_run.verdicts)
    with chaos_run.operator("1.2.2"):
        lab = chaos_run.begin("known_bad_1_2_2", declared)
        EXPERIMENT(lab)
        verdicts = chaos_run.end(lab)
    chaos_run.verdicts[:] = before  # of another version than this run's
    [verdict] = [each for each in verdicts if each.role is Role.CLAIM]
    assert verdict.claim == "OP-6"
    assert verdict.verdict is Outcome.BROKEN, verdict.reason
    assert "SubmissionFailed" in verdict.reason
    assert verdict.judgement is Judgement.KNOWN_DEFECT
    assert verdict.reference == "ray-project/kuberay#2154"
