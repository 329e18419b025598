"""On KubeRay 1.0.0 a RayCluster whose clean-up failed does not go: the harness must report exactly that, and remove it."""

import pytest

from chaos.experiments import test_redis_cleanup
from chaos.lab import REMOVAL_SECONDS
from chaos.waiting import until

EXPERIMENT = test_redis_cleanup.test_cleanup_that_can_not_reach_redis


@pytest.mark.level("full")
def test_a_cluster_that_a_failed_clean_up_holds_is_reported_and_removed(chaos_run, elsewhere):
    with chaos_run.judged_as("1.0.0"):
        with chaos_run.operator("1.0.0"):
            lab = elsewhere.begin("known_bad_1_0_0", EXPERIMENT)
            # It has no field for fault tolerance.
            test_redis_cleanup.cleanup_refused(lab, annotated=True)
        # Under the stack's own operator, which lets the cluster go.
        verdict = elsewhere.defect(lab, "FT-16", "ray-project/kuberay#1557")
    assert "still there 60 s after its clean-up Job was Failed" in verdict.reason
    assert "gcs-ft-redis-cleanup-finalizer" in verdict.reason
    cluster, name = chaos_run.stack.cluster, lab.namespace_name("refused")
    until(lambda: cluster.get("namespaces", None, name) is None, what=f"the end of {name}", deadline=REMOVAL_SECONDS)
