"""How long Ray's processes wait for a GCS that is gone: what KubeRay sets, and what follows from it."""

from functools import partial

from chaos.checks.environment import environment_is
from chaos.experiment import experiment
from chaos.lab import Lab, cluster_target
from chaos.settings import Level
from chaos.turns import Part

TIMEOUT = "RAY_gcs_rpc_server_reconnect_timeout_s"


@experiment(("FT-8", "gcs-ft"), ("FT-8", "users-values"), seconds=60, level=Level.CORE, relies_on=[Part.OPERATOR])
def test_timeouts_that_kuberay_sets(lab: Lab) -> None:
    """Read from the pods as they are made: 600 s for workers of a fault-tolerant cluster, nothing for its head.

    Controls: a cluster without fault tolerance, and one whose user has set both.
    """
    ft, plain = lab.ray_cluster("gcs-ft", ft=True, workers=1), lab.ray_cluster("no-ft", ft=False, workers=1)
    own = lab.ray_cluster("own", ft=True, workers=1, head_env={TIMEOUT: "33"}, worker_env={TIMEOUT: "77"})
    lab.take_turn()
    lab.phase("steady")
    lab.pods_made(ft, plain, own)

    a, b, c = cluster_target(ft), cluster_target(plain), cluster_target(own)
    head = partial(environment_is, node_type="head", variable=TIMEOUT)
    workers = partial(environment_is, node_type="worker", variable=TIMEOUT)
    lab.expect(
        "FT-8", "gcs-ft", workers(**a, value="600"), head(**a, value=None), control=("no-ft", workers(**b, value="600"))
    )
    lab.expect("FT-8", "gcs-ft", control=("users-values", head(**c, value=None)))
    lab.expect(
        "FT-8",
        "users-values",
        workers(**c, value="77"),
        head(**c, value="33"),
        control=("gcs-ft", workers(**a, value="77")),
    )
