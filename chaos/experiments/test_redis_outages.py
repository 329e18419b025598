"""Redis is out of the head's reach, stands still or is split, for a moment, for seconds or longer than a minute.

Each arm is told by connections that were open before: one from the head's pod, of which the GCS's own is a sister, and one that
the fault must leave alone.
"""

from collections.abc import Mapping
from functools import partial

from chaos.checks.base import Check
from chaos.checks.connection import connection_broken, connection_stalled
from chaos.checks.fault_lasted import fault_lasted
from chaos.checks.functional_twice import functional_twice
from chaos.checks.head_kept import head_kept
from chaos.checks.outage import outage_ended
from chaos.checks.redis_failover import redis_failed_over
from chaos.checks.workers_survived import workers_survived
from chaos.experiment import experiment
from chaos.faults.partition import Mode, Partition
from chaos.faults.redis_pause import RedisPause
from chaos.faults.stop_process import StopProcess
from chaos.lab import FUNCTIONAL_SECONDS, Lab, cluster_target, restarts
from chaos.settings import Level
from chaos.stack import redis
from chaos.stack.cluster import Object
from chaos.stack.ray import RayClusterHandle
from chaos.turns import Part

# A GCS whose connection breaks gives up after some 3 s, and a head that can't reach its GCS after 60 s: two classes of length.
_SECONDS, _MINUTE = 20.0, 65.0
# Shorter than either; the stack's Sentinels would replace a member that is silent for so long, a single Redis has none.
_MOMENT_MS = 2500
# What a stall loses to the probe's interval, and to what it takes to inject several faults together.
_LESS = 5.0


@experiment(
    ("FT-13", "black-hole-20s"),
    ("FT-13", "refuse-20s"),
    ("FT-13", "reset-20s"),
    seconds=240,
    level=Level.FULL,
    relies_on=[Part.REDIS],
)
def test_redis_out_of_reach_for_seconds(lab: Lab) -> None:
    """Three clusters, whose heads' packets to Redis vanish, are refused, or are answered by a reset."""
    _out_of_reach(lab, {"black-hole-20s": Mode.DROP, "refuse-20s": Mode.REJECT, "reset-20s": Mode.RESET}, _SECONDS)


@experiment(("FT-13", "refuse-65s"), ("FT-13", "reset-65s"), seconds=280, level=Level.FULL, relies_on=[Part.REDIS])
def test_redis_out_of_reach_for_a_minute(lab: Lab) -> None:
    """Two clusters, whose heads' packets to Redis are refused, or are answered by a reset."""
    _out_of_reach(lab, {"refuse-65s": Mode.REJECT, "reset-65s": Mode.RESET}, _MINUTE)


def _out_of_reach(lab: Lab, kinds: Mapping[str, Mode], seconds: float) -> None:
    """Control: a connection from a pod beside the heads, which isn't cut off."""
    clusters = {arm: lab.ray_cluster(arm, ft=True, workers=1) for arm in kinds}
    lab.ready(*clusters.values())
    for each in clusters.values():
        lab.start_actor(each)
    beside = lab.witness(lab.namespace("beside"))
    lab.steady({each: ["counter"] for each in clusters.values()})
    heads = {arm: lab.head(each) for arm, each in clusters.items()}
    members, primary = lab.redis_pods(), lab.redis_primary()
    for name, pod in {**heads, "beside": beside}.items():
        lab.hold_connection(pod, primary, name)

    with lab.inject(*(Partition.between(heads[arm], members, mode=mode) for arm, mode in kinds.items())):
        lab.functional_again({each: ["counter"] for each in clusters.values()}, deadline=seconds)
    _afterwards(lab, *clusters.values())

    for arm, mode in kinds.items():
        lab.expect(
            "FT-13", arm, *_survived(clusters[arm], _felt(mode, arm, seconds - _LESS)),
            fault_lasted(namespace=clusters[arm].namespace, at_least=seconds - _LESS),
            control=(f"beside-{arm}", _felt(mode, "beside", seconds - _LESS)),
        )  # fmt: skip


# The operator isn't needed: what ends is started again by its kubelet, in the same pod.
@experiment(("FT-13", "stall-20s"), seconds=240, level=Level.FULL, disturbs=[Part.REDIS], relies_on=[])
def test_redis_stands_still_for_seconds(lab: Lab) -> None:
    """The primary's process is stopped, and goes on when the Sentinels have long replaced it."""
    _stands_still(lab, "stall-20s", _SECONDS)


@experiment(("FT-13", "stall-65s"), seconds=280, level=Level.FULL, disturbs=[Part.REDIS], relies_on=[])
def test_redis_stands_still_for_a_minute(lab: Lab) -> None:
    """The same, for longer than a head waits for its GCS."""
    _stands_still(lab, "stall-65s", _MINUTE)


def _stands_still(lab: Lab, arm: str, seconds: float) -> None:
    """Control: a connection from the same pod to a replica, which runs on."""
    ft = lab.ray_cluster(arm, ft=True)
    lab.ready(ft)
    lab.start_actor(ft)
    lab.steady({ft: ["counter"]})
    lab.record_redis()
    lab.hold_connection(lab.head(ft), lab.redis_primary(), "primary")
    lab.hold_connection(lab.head(ft), lab.redis_replica(), "replica")

    with lab.inject(StopProcess.of(lab.redis_primary_pod(), redis.CONTAINER)):
        lab.functional_again({ft: ["counter"]}, deadline=seconds)
    _afterwards(lab, ft)
    lab.record_redis()

    lab.expect(
        "FT-13", arm,
        *_survived(ft, connection_stalled(probe="primary", min_seconds=seconds - _LESS)), redis_failed_over(),
        control=("the-replica", connection_stalled(probe="replica", min_seconds=seconds - _LESS)),
    )  # fmt: skip


@experiment(("FT-13", "stall-2s"), seconds=150, level=Level.FULL, relies_on=[Part.REDIS])
def test_redis_stands_still_for_a_moment(lab: Lab) -> None:
    """A single Redis answers nobody for two and a half seconds, by its own clock; nothing in the cluster may notice.

    Control: a connection from the same pod to the stack's Redis, which answers all the time.
    """
    ft = lab.ray_cluster("stall-2s", ft=True, redis_address=lab.single_redis("stall-2s"))
    lab.ready(ft)
    lab.start_actor(ft)
    lab.steady({ft: ["counter"]})
    single = lab.redis_single_pod(ft.namespace)
    lab.hold_connection(lab.head(ft), _address(single), "single")
    lab.hold_connection(lab.head(ft), lab.redis_primary(), "primary")

    with lab.inject(RedisPause.of(single, milliseconds=_MOMENT_MS)):
        lab.functional_again({ft: ["counter"]})
    _afterwards(lab, ft)

    a, felt = cluster_target(ft), partial(connection_stalled, min_seconds=_MOMENT_MS / 1000 - 1)
    lab.expect(
        "FT-13", "stall-2s", felt(probe="single"), workers_survived(**a), functional_twice(**a), head_kept(**a),
        control=("the-stacks-redis", felt(probe="primary")),
    )  # fmt: skip


@experiment(
    ("FT-13", "replica-isolated"),
    ("FT-13", "primary-isolated"),
    seconds=330,
    level=Level.FULL,
    disturbs=[Part.REDIS],
    relies_on=[],
)
def test_redis_is_split(lab: Lab) -> None:
    """A replica, and after it the primary, is cut off from the other members and from all clients, each with its Sentinel.

    Controls: connections to the member on the other side of the split.
    """
    ft = lab.ray_cluster("split", ft=True)
    lab.ready(ft)
    lab.start_actor(ft)
    beside = lab.witness(ft.namespace)
    lab.steady({ft: ["counter"]})
    lab.record_redis()
    head, primary = lab.head(ft), lab.redis_primary_pod()
    replica, *others = [pod for pod in lab.redis_pods() if _address(pod) != _address(primary)]
    lab.hold_connection(head, _address(primary), "primary")
    lab.hold_connection(beside, _address(replica), "replica")
    with lab.inject(Partition.between(replica, [primary, *others, head, beside])) as first:
        lab.functional(ft, "counter")
        first.hold(_SECONDS)
        lab.functional(ft, "counter")
    _afterwards(lab, ft)
    lab.record_redis()

    lab.hold_connection(head, _address(primary), "primary-later")
    lab.hold_connection(beside, _address(replica), "replica-later")
    with lab.inject(Partition.between(primary, [replica, *others, head, beside])) as second:
        lab.functional_again({ft: ["counter"]}, deadline=_MINUTE)
    _afterwards(lab, ft)
    lab.record_redis()

    a = cluster_target(ft)
    briefly = partial(connection_stalled, min_seconds=_SECONDS - _LESS)
    unmoved = (briefly(probe="replica"), workers_survived(**a), functional_twice(**a), head_kept(**a))
    lab.expect(
        "FT-13", "replica-isolated", *(check.during(first.group) for check in unmoved),
        control=("the-primary", briefly(probe="primary").during(first.group)),
    )  # fmt: skip
    long = partial(connection_stalled, min_seconds=_MINUTE - _LESS)
    moved = (*_survived(ft, long(probe="primary-later")), redis_failed_over())
    lab.expect(
        "FT-13", "primary-isolated", *(check.during(second.group) for check in moved),
        control=("the-replica", long(probe="replica-later").during(second.group)),
    )  # fmt: skip


def _felt(mode: Mode, probe: str, seconds: float) -> Check:
    """How a connection that is open feels it: it breaks by a reset, and stalls even when it is refused."""
    if mode is Mode.RESET:
        return connection_broken(probe=probe)
    return connection_stalled(probe=probe, min_seconds=seconds)


def _address(pod: Object) -> str:
    return str(pod["status"]["podIP"])


def _afterwards(lab: Lab, *clusters: RayClusterHandle) -> None:
    """Use each cluster until it works, and once more when what was about to fall has fallen."""
    actors = {each: ["counter"] for each in clusters}
    lab.functional_again(actors)
    lab.look_twice(actors)
    if any(restarts(lab.head(each)) for each in clusters):
        lab.settle(actors)


def _survived(cluster: RayClusterHandle, *felt: Check) -> list[Check]:
    """What every arm must show that takes Redis from the head for a while."""
    a = cluster_target(cluster)
    return [*felt, workers_survived(**a), functional_twice(**a), outage_ended(**a, within=FUNCTIONAL_SECONDS)]
