"""A fault-tolerant cluster is deleted: what becomes of its keys in Redis, and of others' there."""

from chaos.checks.redis_keys import cluster_gone, keys_removed, keys_untouched
from chaos.experiment import experiment
from chaos.lab import Lab, cluster_target
from chaos.settings import Level
from chaos.stack.ray import RayClusterHandle
from chaos.turns import Part

# The head's grace period of 5 s, a look 10 s later, a clean-up Job that starts Python on a fifth of a CPU (10 to 40 s), and
# a look every 2 s; 9 s were measured.
_GONE_SECONDS = 90.0


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
