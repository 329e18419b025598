"""On KubeRay 1.0.0 a RayCluster whose clean-up failed does not go: the harness must report exactly that, and remove it."""

import pytest

from chaos.experiments import test_redis_cleanup
from chaos.lab import REMOVAL_SECONDS
from chaos.plugin import MARKER
from chaos.verdict import Judgement, Outcome, Role
from chaos.waiting import until

EXPERIMENT = test_redis_cleanup.test_cleanup_that_can_not_reach_redis


@pytest.mark.level("full")
def test_a_cluster_that_a_failed_clean_up_holds_is_reported_and_removed(chaos_run):
    [declared] = [mark.args[0] for mark in EXPERIMENT.pytestmark if mark.name == MARKER]
    before = list(chaos_run.verdicts)
    with chaos_run.judged_as("1.0.0"):
        with chaos_run.operator("1.0.0"):
            lab = chaos_run.begin("known_bad_1_0_0", declared)
            # It has no field for fault tolerance.
            test_redis_cleanup.cleanup_refused(lab, annotated=True)
        # Under the stack's own operator, which lets the cluster go.
        verdicts = chaos_run.end(lab)
    chaos_run.verdicts[:] = before  # of another version than this run's
    [verdict] = [each for each in verdicts if each.role is Role.CLAIM]
    assert verdict.claim == "FT-16"
    assert verdict.verdict is Outcome.BROKEN, verdict.reason
    assert "still there 60 s after its clean-up Job was Failed" in verdict.reason
    assert "gcs-ft-redis-cleanup-finalizer" in verdict.reason
    assert verdict.judgement is Judgement.KNOWN_DEFECT
    assert verdict.reference == "ray-project/kuberay#1557"
    cluster, name = chaos_run.stack.cluster, lab.namespace_name("refused")
    until(lambda: cluster.get("namespaces", None, name) is None, what=f"the end of {name}", deadline=REMOVAL_SECONDS)
