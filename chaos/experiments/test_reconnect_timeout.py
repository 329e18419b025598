"""How long Ray's processes wait for a GCS that is gone: what KubeRay sets, and what follows from it."""

from functools import partial

from chaos.checks.environment import environment_is
from chaos.checks.timeout import head_exited, workers_outlived_outage, workers_timed_out
from chaos.experiment import experiment
from chaos.faults.head_away import HeadAway
from chaos.lab import Lab, cluster_target
from chaos.settings import Level
from chaos.stack.ray import RayClusterHandle
from chaos.turns import Part

TIMEOUT = "RAY_gcs_rpc_server_reconnect_timeout_s"
# 4 s from time-out to the container's end were measured; the check waits for 15.
_SLACK = 15.0
# Left to KubeRay and to Ray.
_UNSET = {TIMEOUT: None}


@experiment(("FT-8", "gcs-ft"), ("FT-8", "users-values"), seconds=60, level=Level.SMOKE, relies_on=[Part.OPERATOR])
def test_timeouts_that_kuberay_sets(lab: Lab) -> None:
    """Read from the pods as they are made: 600 s for workers of a fault-tolerant cluster, nothing for its head.

    Controls: a cluster without fault tolerance, and one whose user has set both.
    """
    ft, plain = (
        lab.ray_cluster(arm, ft=ft, workers=1, head_env=_UNSET, worker_env=_UNSET)
        for arm, ft in (("gcs-ft", True), ("no-ft", False))
    )
    own = lab.ray_cluster("own", ft=True, workers=1, head_env={TIMEOUT: "33"}, worker_env={TIMEOUT: "77"})
    lab.phase("steady")
    lab.pods_made(ft, plain, own)

    a, b, c = cluster_target(ft), cluster_target(plain), cluster_target(own)
    head = partial(environment_is, node_type="head", variable=TIMEOUT)
    workers = partial(environment_is, node_type="worker", variable=TIMEOUT)
    lab.expect(
        "FT-8", "gcs-ft", workers(**a, value="600"), head(**a, value=None), control=("no-ft", workers(**b, value="600"))
    )
    lab.expect("FT-8", "gcs-ft", control=("own-head", head(**c, value=None)))
    lab.expect(
        "FT-8",
        "users-values",
        workers(**c, value="77"),
        head(**c, value="33"),
        control=("default-workers", workers(**a, value="77")),
    )


@experiment(
    ("FT-9", "short-timeout"),
    ("FT-9", "default-timeout"),
    seconds=150,
    level=Level.CORE,
    relies_on=[Part.OPERATOR, Part.REDIS],
)
def test_outage_longer_than_the_workers_wait(lab: Lab) -> None:
    """Two fault-tolerant clusters are without a head for 40 s; the workers of one wait for 20 s, of the other for 600 s.

    Each is the other's control. All workers talk to the GCS meanwhile.
    """
    short = lab.ray_cluster("short-timeout", ft=True, worker_env={TIMEOUT: "20"})
    default = lab.ray_cluster("default-timeout", ft=True)
    _without_head(lab, {short: 20.0, default: 20.0})

    a, b = cluster_target(short), cluster_target(default)
    lab.expect(
        "FT-9", "short-timeout", workers_timed_out(**a, timeout=20),
        control=("waits-600-s", workers_timed_out(**b, timeout=20)),
    )  # fmt: skip
    lab.expect(
        "FT-9", "default-timeout", workers_outlived_outage(**b), control=("waits-20-s", workers_outlived_outage(**a))
    )


@experiment(
    ("FT-9", "timeout-15"), ("FT-9", "timeout-45"), seconds=180, level=Level.FULL, relies_on=[Part.OPERATOR, Part.REDIS]
)
def test_workers_death_follows_their_timeout(lab: Lab) -> None:
    """The head stays away: the longer the workers' time-out, the later a loss for good is noticed."""
    soon, late = (lab.ray_cluster(f"timeout-{t}", ft=True, worker_env={TIMEOUT: str(t)}) for t in (15, 45))
    _without_head(lab, {soon: 15.0, late: 45.0})

    a, b = cluster_target(soon), cluster_target(late)
    lab.expect(
        "FT-9",
        "timeout-15",
        workers_timed_out(**a, timeout=15),
        control=("waits-45-s", workers_timed_out(**b, timeout=15)),
    )
    lab.expect(
        "FT-9",
        "timeout-45",
        workers_timed_out(**b, timeout=45),
        control=("waits-15-s", workers_timed_out(**a, timeout=45)),
    )


@experiment(
    ("FT-7", "rays-default"),
    ("FT-7", "shortened"),
    seconds=170,
    level=Level.FULL,
    relies_on=[Part.OPERATOR, Part.REDIS],
)
def test_gcs_dies_quietly(lab: Lab) -> None:
    """The GCS ends by SIGTERM, which Ray takes for wanted: the head lives on without it until its time-out, the workers longer.

    Two clusters, one with Ray's default of 60 s for its head and one with 20 s. Each is the other's control.
    """
    default, short = (
        lab.ray_cluster("rays-default", ft=True, head_env=_UNSET),
        lab.ray_cluster("shortened", ft=True, head_env={TIMEOUT: "20"}),
    )
    lab.ready(default, short)
    lab.steady({default: [], short: []})
    with lab.inject(lab.terminate_gcs(default), lab.terminate_gcs(short)):
        lab.functional_again({default: [], short: []})

    a, b = cluster_target(default), cluster_target(short)
    lab.expect(
        "FT-7", "rays-default", head_exited(**a, timeout=60), workers_outlived_outage(**a),
        control=("head-waits-20-s", head_exited(**b, timeout=60)),
    )  # fmt: skip
    lab.expect(
        "FT-7", "shortened", head_exited(**b, timeout=20), workers_outlived_outage(**b),
        control=("head-waits-60-s", head_exited(**a, timeout=20)),
    )  # fmt: skip


def _without_head(lab: Lab, timeouts: dict[RayClusterHandle, float]) -> None:
    """The clusters lose their heads together, and get them back when the longest time-out must have run out."""
    lab.ready(*timeouts)
    lab.start_chatter(*timeouts)
    lab.steady({each: [] for each in timeouts})
    with lab.inject(*(HeadAway.of(lab.head(each)) for each in timeouts)) as away:
        lab.hold(away, max(timeouts.values()) + _SLACK + 5)
    lab.functional_again({each: [] for each in timeouts})
