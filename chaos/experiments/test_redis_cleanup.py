"""A fault-tolerant cluster is deleted: what becomes of its keys in Redis, and of others' there."""

from chaos.checks.redis_keys import (
    cleanup_failed,
    cluster_gone,
    gone_after_cleanup,
    keys_left,
    keys_removed,
    keys_untouched,
)
from chaos.experiment import experiment
from chaos.faults.shut_out import ShutOut
from chaos.lab import Lab, cluster_target
from chaos.settings import Level
from chaos.stack.ray import RayClusterHandle
from chaos.turns import Part

# The head's grace period of 5 s, a look 10 s later, a clean-up Job that starts Python on a fifth of a CPU (10 to 40 s), and
# a look every 2 s; 9 s were measured.
_GONE_SECONDS = 90.0

# The Job tries 120 times, half a second and a refusal apart (157 s and 188 s were measured), and is ended after 300 s.
_FAILED_SECONDS = 330.0
# How long `gone_after_cleanup` looks.
_LET_GO_SECONDS = 60.0


@experiment(("FT-15", "own-namespace"), seconds=110, level=Level.CORE, relies_on=[Part.OPERATOR, Part.REDIS])
def test_deleted_cluster_takes_its_keys_along(lab: Lab) -> None:
    """Two clusters share a Redis, each in the namespace that KubeRay chose. One is deleted; each is the other's control."""
    deleted, kept = (lab.ray_cluster(arm, ft=True, workers=1) for arm in ("deleted", "kept"))
    _delete_one(lab, "own-namespace", deleted, kept)


@experiment(("FT-15", "prefix"), seconds=110, level=Level.FULL, relies_on=[Part.OPERATOR, Part.REDIS])
def test_deleted_cluster_whose_name_begins_the_others(lab: Lab) -> None:
    """The same, with external storage namespaces of which the deleted one's is the beginning of the other's."""
    deleted = lab.ray_cluster("deleted", ft=True, workers=1, storage=lab.namespace("deleted"))
    kept = lab.ray_cluster("kept", ft=True, workers=1, storage=lab.namespace("deleted") + "-2")
    _delete_one(lab, "prefix", deleted, kept)


@experiment(("FT-16", "redis-refuses"), seconds=290, level=Level.FULL, relies_on=[Part.OPERATOR, Part.REDIS])
def test_cleanup_that_can_not_reach_redis(lab: Lab) -> None:
    """Two clusters are deleted, one of them while Redis refuses what its operator makes: it goes all the same, its keys stay.

    The other one is the control. What stays is found, told with the command that removes it, and removed by that.
    """
    cleanup_refused(lab)


def cleanup_refused(lab: Lab, *, annotated: bool = False) -> None:
    """The clusters ask for fault tolerance by its field or, as before KubeRay 1.3, by annotation."""
    refused, let_in = (lab.ray_cluster(arm, ft=True, annotated=annotated, workers=1) for arm in ("refused", "let-in"))
    lab.ready(refused, let_in)
    lab.steady({refused: [], let_in: []})
    lab.record_keys(refused, let_in)
    with (
        lab.inject(ShutOut.of(lab.raycluster(refused))),
        lab.inject(lab.delete_cluster(refused), lab.delete_cluster(let_in)) as deletion,
    ):
        lab.cluster_goes(let_in, since=deletion.began, deadline=_GONE_SECONDS)
        lab.cleanup_ends(refused, since=deletion.began, deadline=_FAILED_SECONDS)
        lab.cluster_goes(refused, since=deletion.began, deadline=_LET_GO_SECONDS)
    lab.record_keys(refused, let_in)
    lab.remove_keys(refused)

    a, b = cluster_target(refused), cluster_target(let_in)
    lab.expect(
        "FT-16", "redis-refuses", gone_after_cleanup(**a, within=_LET_GO_SECONDS), cleanup_failed(**a), keys_left(**a),
        control=("redis-answers", keys_left(**b)),
    )  # fmt: skip
    lab.expect("FT-16", "redis-refuses", control=("redis-answers", cleanup_failed(**b)))


def _delete_one(lab: Lab, arm: str, deleted: RayClusterHandle, kept: RayClusterHandle) -> None:
    lab.ready(deleted, kept)
    lab.steady({deleted: [], kept: []})
    lab.record_keys(deleted, kept)
    with lab.inject(lab.delete_cluster(deleted)) as deletion:
        lab.cluster_goes(deleted, since=deletion.began, deadline=_GONE_SECONDS)
    lab.record_keys(deleted, kept)
    lab.functional_again({kept: []})

    a, b = cluster_target(deleted), cluster_target(kept)
    lab.expect(
        "FT-15",
        arm,
        cluster_gone(**a, within=_GONE_SECONDS),
        keys_removed(**a),
        control=("the-other", keys_removed(**b)),
    )
    lab.expect("FT-15", arm, keys_untouched(**b), control=("the-deleted", keys_untouched(**a)))
