"""KubeRay 1.5.0 doesn't make the head of a RayJob's cluster again: the harness must report exactly that."""

from chaos.experiments import test_job_recovery

EXPERIMENT = test_job_recovery.test_rayjob_loses_its_head


def test_the_head_of_a_rayjobs_cluster_is_reported_as_not_recreated(chaos_run, elsewhere):
    with chaos_run.operator("1.5.0"):
        lab = elsewhere.begin("known_bad_1_5_0", EXPERIMENT)
        EXPERIMENT(lab)
        elsewhere.defect(lab, "OP-12", "ray-project/kuberay#4141")
