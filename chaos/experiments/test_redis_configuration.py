"""A fault-tolerant cluster whose Redis can't be used as it was told to: the head does not start."""

from chaos.checks.head_crash_loops import head_crash_loops
from chaos.experiment import experiment
from chaos.lab import Lab, cluster_target
from chaos.settings import Level
from chaos.stack import redis
from chaos.turns import Part

# What is wrong, and what makes it right again, as merges into the spec.
_SECRET = {"secretKeyRef": {"name": redis.SECRET, "key": "password"}}
_WRONG: dict[str, dict[str, object]] = {
    "password": {"gcsFaultToleranceOptions": {"redisPassword": {"valueFrom": None, "value": "not-the-password"}}},
    "address": {"gcsFaultToleranceOptions": {"redisAddress": f"redis.{redis.NAMESPACE}.svc.cluster.local:6380"}},
    "policy": {"headGroupSpec": {"template": {"metadata": {"labels": {redis.CLIENT_LABEL: None}}}}},
}
_RIGHT: dict[str, dict[str, object]] = {
    "password": {"gcsFaultToleranceOptions": {"redisPassword": {"valueFrom": _SECRET, "value": None}}},
    "address": {"gcsFaultToleranceOptions": {"redisAddress": redis.SENTINEL_ADDRESS}},
    "policy": {"headGroupSpec": {"template": {"metadata": {"labels": {redis.CLIENT_LABEL: "true"}}}}},
    "two-shards": {"gcsFaultToleranceOptions": {"redisAddress": redis.SENTINEL_ADDRESS}},
}
# Ray tries 120 times, up to 1.5 s apart; a tenth of that is enough to see it give up.
_TRIES = {"RAY_redis_db_connect_retries": "12"}
# Two starts (20 s each on a busy machine) and their tries (20 s), and a back-off of 10 s and 20 s; doubled.
_LOOP_SECONDS = 220.0


@experiment(
    *(("FT-14", wrong) for wrong in _RIGHT), seconds=220, level=Level.FULL, relies_on=[Part.OPERATOR, Part.REDIS]
)
def test_head_that_can_not_use_its_redis(lab: Lab) -> None:
    """A wrong password, an address where nothing listens, a network policy in the way, and a Redis Cluster of two shards.

    Control: the same cluster with nothing wrong.
    """
    sound = lab.ray_cluster("sound", ft=True, workers=0, head_env=_TRIES)
    wrong = {
        name: lab.ray_cluster(name, ft=True, workers=0, head_env=_TRIES, spec=spec) for name, spec in _WRONG.items()
    }
    shards = lab.sharded_redis("two-shards")
    wrong["two-shards"] = lab.ray_cluster("two-shards", ft=True, workers=0, head_env=_TRIES, redis_address=shards)
    lab.phase("steady")
    lab.ready(sound)
    for each in wrong.values():
        lab.head_restarts(each, 2, deadline=_LOOP_SECONDS)

    for name, each in wrong.items():
        lab.amend(each, _RIGHT[name])  # so that the clean-up of the deleted cluster gets through
        lab.expect(
            "FT-14", name, head_crash_loops(**cluster_target(each)),
            control=(f"right-{name}", head_crash_loops(**cluster_target(sound))),
        )  # fmt: skip
