"""KubeRay 1.4.0 names every head of a cluster alike, which ends scale-up with Ray 2.46: the harness must report exactly that."""

import pytest

from chaos.experiments import test_head_outage
from chaos.history.reader import History

EXPERIMENT = test_head_outage.test_autoscaler_loses_its_head
HEAD = {"ray.io/node-type": "head"}


@pytest.mark.level("full")
def test_scale_up_is_reported_to_end_with_the_first_head(chaos_run, elsewhere):
    with chaos_run.ray("2.46.0"), chaos_run.operator("1.4.0"):
        lab = elsewhere.begin("known_bad_1_4_0", EXPERIMENT)
        EXPERIMENT(lab)
        elsewhere.defect(lab, "FT-18", "ray-project/kuberay#3868")
    heads = History(chaos_run.writer.entries()).objects("pods", namespace=lab.namespace_name("autoscaler"), labels=HEAD)
    assert [pod.name for pod in heads] == ["ray-head", "ray-head"], "another pod, of the same name"
