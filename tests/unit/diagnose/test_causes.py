"""The trouble table: a healthy cluster has no cause, and each trouble is named by its own, with evidence and a fix.

The log lines are what Ray 2.60's client prints, taken from real runs.
"""

import json

import pytest

from .conftest import condition, restarted  # type: ignore[import-not-found]

CHECK = (
    "[2026-11-30 04:34:46,759 C 26 26] (gcs_server) redis_store_client.cc:547:  An unexpected system state has occurred. "
    "Check failed: context.Connect(options.ip, options.port, options.username, options.password, options.enable_ssl) "
    "Status not OK: RedisError: "
)
WRONGPASS = CHECK + "WRONGPASS invalid username-password pair or user is disabled. Failed to connect to Redis."
NO_PASSWORD = CHECK + "Failed to get Redis cluster info Failed to connect to Redis."
NO_NAME = CHECK + "Failed to resolve DNS for redis.redis:6379: resolve: Host not found (authoritative)"
REFUSED = (
    "[2026-11-30 04:36:42,163 E 5 5] (ray_init) redis_context.cc:562: Failed to connect to Redis due to: RedisError: "
    "Could not establish connection to Redis 10.244.1.7:6379 (context.err = 1).. Will retry in 500ms."
)
SHARDS = CHECK + "Ray currently doesn't support Redis Cluster with more than one shard."
MOVED = (
    "[2026-11-30 20:35:58,567 E 11 11] (gcs_server) redis_context.cc:270: Redis request [HSCAN RAY0e53@JOB 0 COUNT 1000] failed "
    "due to error MOVED 821 10.244.1.52:6379. 0 retries left."
)
THROUGH = "2026-11-30 20:36:19,560 INFO node.py:538 -- Could not retrieve session key from storage."
GAVE_UP = "[2026-11-30 03:11:00,808 C 23 23] (raylet) rpc_client.h:204: Failed to connect to GCS within 15 seconds"
STRANGER = (
    "[2026-11-30 03:37:44,808 C 23 23] (raylet) node_manager.cc:524: GCS returned an authentication error. This may happen "
    "when GCS is not backed by a DB and restarted or there is data loss in the DB."
)
PING = (
    "[2026-11-30 03:37:00,000 C 9 9] (gcs_server) redis_context.cc:308: Failed to run redis cmds: [PING] for 5 times."
)
OPTIONS = {"gcsFaultToleranceOptions": {"redisAddress": "redis.redis:6379"}}


def healthy(world):
    pass


def wrong_password(world):
    world.crash_loop(WRONGPASS)


def no_password(world):
    del world.cluster["spec"]["gcsFaultToleranceOptions"]["redisPassword"]
    world.crash_loop(NO_PASSWORD)


def wrong_service(world):
    world.cluster["spec"]["gcsFaultToleranceOptions"]["redisAddress"] = "rediss.redis:6379"
    world.crash_loop(NO_NAME)


def wrong_port(world):
    world.cluster["spec"]["gcsFaultToleranceOptions"]["redisAddress"] = "redis.redis:6380"
    world.crash_loop(REFUSED)


def wrong_port_of_a_headless_service(world):
    world.service["spec"]["clusterIP"] = "None"
    world.stateful["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 6379}]
    wrong_port(world)


def wrong_host_outside(world):
    world.cluster["spec"]["gcsFaultToleranceOptions"]["redisAddress"] = "redis.example.com:6379"
    world.crash_loop(NO_NAME.replace("redis.redis", "redis.example.com"))


def policy(world):
    world.policy["spec"]["ingress"] = []
    world.crash_loop(REFUSED)


def egress_policy(world):
    egress = {"metadata": {"name": "closed", "namespace": "serving"}}
    egress["spec"] = {"podSelector": {}, "policyTypes": ["Egress"], "egress": []}
    world.objects["networkpolicies"] = [egress]
    world.crash_loop(REFUSED)


def shards(world):
    world.crash_loop(SHARDS)


def shards_seen_late(world):
    """The head got through, both times, and was sent elsewhere by what it asked then."""
    world.crash_loop(THROUGH, MOVED)
    world.log(world.head, THROUGH)


def all_redis_down(world):
    for member in world.redis:
        member["status"]["conditions"] = [condition("Ready", "False")]
    world.crash_loop(REFUSED)


def unreachable_for_no_known_reason(world):
    world.crash_loop(REFUSED)


def single_redis_gone(world):
    world.stateful["spec"]["replicas"] = 1
    world.redis = []
    world.crash_loop(NO_NAME)


def single_redis_replaced(world):
    world.stateful["spec"]["replicas"] = 1
    world.redis = world.redis[:1]
    world.redis[0]["metadata"]["creationTimestamp"] = "2026-11-30T11:00:00Z"
    restarted(world.head)
    world.log(world.head, PING, previous=True)
    for worker in world.workers:
        restarted(worker)
        world.log(worker, STRANGER, previous=True)


def short_timeout(world):
    for worker in world.workers:
        worker["spec"]["containers"][0]["env"][0]["value"] = "15"
        restarted(worker)
        world.log(worker, GAVE_UP, previous=True)


def short_timeout_without_logs(world):
    world.head["metadata"]["creationTimestamp"] = "2026-11-30T11:00:00Z"
    world.head["status"]["conditions"] = [condition("Ready", at="2026-11-30T11:01:12Z")]
    for worker in world.workers:
        worker["spec"]["containers"][0]["env"][0]["value"] = "15"
        restarted(worker, finished="2026-11-30T11:00:43Z")


def pruned(world):
    del world.cluster["spec"]["gcsFaultToleranceOptions"]
    applied = json.dumps({"spec": OPTIONS})
    world.cluster["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = applied


def refused(world):
    world.head, world.workers = None, []
    world.objects["events"] = [
        {
            "metadata": {"name": "e", "namespace": "serving"},
            "reason": "InvalidRayClusterSpec",
            "message": "ray.io/ft-enabled annotation and GcsFaultToleranceOptions are both set",
            "involvedObject": {"kind": "RayCluster", "name": "models", "namespace": "serving"},
        }
    ]


def set_later(world):
    world.head["metadata"]["annotations"]["ray.io/ft-enabled"] = "false"
    world.head["spec"]["containers"][0]["env"] = []


def never_asked_for(world):
    del world.cluster["spec"]["gcsFaultToleranceOptions"]
    world.head["metadata"]["annotations"]["ray.io/ft-enabled"] = "false"
    world.head["spec"]["containers"][0]["env"] = []
    for worker in world.workers:
        restarted(worker)
        world.log(worker, STRANGER, previous=True)


def actor_restarted(world):
    actor = {"actor_id": "a1", "name": "model", "class_name": "Model", "state": "ALIVE", "num_restarts": 1}
    world.ray["serving", "models"]["actors"] = [actor]


def actor_died_with_its_node(world):
    cause = {"actor_died_error_context": {"error_message": "The actor died because its node has died."}}
    actor = {"actor_id": "a1", "name": "model", "class_name": "Model", "state": "DEAD", "is_detached": True}
    world.ray["serving", "models"]["actors"] = [actor | {"death_cause": cause}]


def actor_died_as_logs_tell(world):
    world.ray = {}
    world.log(world.head, "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.")


TROUBLES = {
    healthy: [],
    wrong_password: ["redis-password"],
    no_password: ["redis-password"],
    wrong_service: ["redis-address"],
    wrong_port: ["redis-address"],
    wrong_port_of_a_headless_service: ["redis-address"],
    wrong_host_outside: ["redis-address"],
    policy: ["redis-policy"],
    egress_policy: ["redis-policy"],
    shards: ["redis-shards"],
    shards_seen_late: ["redis-shards"],
    all_redis_down: ["redis-down"],
    unreachable_for_no_known_reason: ["redis-unreachable"],
    single_redis_gone: ["redis-single-point"],
    single_redis_replaced: ["redis-single-point"],
    short_timeout: ["worker-timeout"],
    short_timeout_without_logs: ["worker-timeout"],
    pruned: ["ft-not-applied"],
    refused: ["ft-not-applied"],
    set_later: ["ft-not-applied"],
    never_asked_for: ["ft-not-applied"],
    actor_restarted: ["actor-state"],
    actor_died_with_its_node: ["actor-state"],
    actor_died_as_logs_tell: ["actor-state"],
}


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_each_trouble_is_named_and_no_other(world, trouble):
    trouble(world)
    found = world.causes()
    assert [cause.id for cause in found] == TROUBLES[trouble]
    for cause in found:
        assert cause.evidence
        assert cause.fix
        assert all(place.shows for place in cause.evidence)


def test_a_trouble_that_is_over_is_not_named(world):
    """The head said so once and is well now."""
    restarted(world.head)
    world.log(world.head, WRONGPASS, previous=True)
    assert world.causes() == []


def test_a_head_that_got_through_and_is_still_starting_is_well(world):
    world.crash_loop(REFUSED)
    world.log(world.head, REFUSED, THROUGH)
    assert world.causes() == []
    world.log(world.head, THROUGH, REFUSED)
    assert [cause.id for cause in world.causes()] == ["redis-unreachable"]


def test_a_cluster_without_fault_tolerance_that_lost_nothing_is_well(world):
    del world.cluster["spec"]["gcsFaultToleranceOptions"]
    world.head["metadata"]["annotations"]["ray.io/ft-enabled"] = "false"
    world.head["spec"]["containers"][0]["env"] = []
    assert world.causes() == []


def test_an_ha_redis_that_failed_over_is_no_single_point(world):
    world.redis[0]["metadata"]["creationTimestamp"] = "2026-11-30T11:00:00Z"
    restarted(world.head)
    world.log(world.head, PING, previous=True)
    assert world.causes() == []


def test_a_clean_up_that_is_shut_out_is_named_though_the_head_is_gone(world):
    cleaner = world.head
    cleaner["metadata"]["labels"]["ray.io/node-type"] = "redis-cleanup"
    cleaner["status"]["phase"] = "Failed"
    world.policy["spec"]["ingress"] = []
    world.log(cleaner, REFUSED)
    assert [cause.id for cause in world.causes()] == ["redis-policy"]


def test_actors_that_ended_by_will_are_not_missed(world):
    world.ray["serving", "models"]["actors"] = [
        {"name": "a", "state": "DEAD", "is_detached": True, "death_cause": "The actor was killed by ray.kill"},
        {"name": "", "state": "DEAD", "is_detached": False},
        {"name": "_ray_internal_job_actor_x", "state": "DEAD", "is_detached": True},
    ]
    assert world.causes() == []
