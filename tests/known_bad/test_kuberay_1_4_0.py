"""KubeRay 1.4.0 names every head of a cluster alike, which ends scale-up with Ray 2.46: the harness must report exactly that."""

import pytest

from chaos.experiments import test_head_outage
from chaos.history.reader import History
from chaos.plugin import MARKER
from chaos.verdict import Judgement, Outcome, Role

EXPERIMENT = test_head_outage.test_autoscaler_loses_its_head
HEAD = {"ray.io/node-type": "head"}


@pytest.mark.level("full")
def test_scale_up_is_reported_to_end_with_the_first_head(chaos_run):
    [declared] = [mark.args[0] for mark in EXPERIMENT.pytestmark if mark.name == MARKER]
    before = list(chaos_run.verdicts)
    with chaos_run.ray("2.46.0"), chaos_run.operator("1.4.0"):
        lab = chaos_run.begin("known_bad_1_4_0", declared)
        EXPERIMENT(lab)
        verdicts = chaos_run.end(lab)
    chaos_run.verdicts[:] = before  # of other versions than this run's
    [verdict] = [each for each in verdicts if each.role is Role.CLAIM]
    assert verdict.claim == "FT-18"
    assert verdict.verdict is Outcome.BROKEN, verdict.reason
    assert verdict.judgement is Judgement.KNOWN_DEFECT
    assert verdict.reference == "ray-project/kuberay#3868"
    heads = History(chaos_run.writer.entries()).objects("pods", namespace=lab.namespace_name("autoscaler"), labels=HEAD)
    assert [pod.name for pod in heads] == ["ray-head", "ray-head"], "another pod, of the same name"
