"""KubeRay 1.5.0 doesn't make the head of a RayJob's cluster again: the harness must report exactly that."""

from chaos.experiments import test_job_recovery
from chaos.plugin import MARKER
from chaos.verdict import Judgement, Outcome

EXPERIMENT = test_job_recovery.test_rayjob_loses_its_head


def test_the_head_of_a_rayjobs_cluster_is_reported_as_not_recreated(chaos_run):
    [declared] = [mark.args[0] for mark in EXPERIMENT.pytestmark if mark.name == MARKER]
    before = list(chaos_run.verdicts)
    with chaos_run.operator("1.5.0"):
        lab = chaos_run.begin("known_bad_1_5_0", declared)
        EXPERIMENT(lab)
        [verdict] = chaos_run.end(lab)
    chaos_run.verdicts[:] = before  # of another version than this run's
    assert verdict.claim == "OP-12"
    assert verdict.verdict is Outcome.BROKEN, verdict.reason
    assert verdict.judgement is Judgement.KNOWN_DEFECT
    assert verdict.reference == "ray-project/kuberay#4141"
