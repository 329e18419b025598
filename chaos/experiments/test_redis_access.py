"""Who may talk to Redis: whoever knows the password, from where the network policy lets them."""

from chaos.checks.redis_access import redis_answers, redis_out_of_reach
from chaos.experiment import experiment
from chaos.lab import Lab
from chaos.settings import Level
from chaos.turns import Part

_PORTS = {"redis": 6379, "sentinel": 26379}


@experiment(
    ("FT-17", "no-password"),
    ("FT-17", "outside-pod"),
    ("FT-17", "replica-written"),
    seconds=40,
    level=Level.SMOKE,
    relies_on=[Part.REDIS],
)
def test_strangers_at_redis(lab: Lab) -> None:
    """A client without the password, a pod that the policy doesn't name, and a client that writes to a replica.

    Controls, from the same kind of pod: the same with the password, from the pod that may, and to the primary.
    """
    namespace = lab.namespace("strangers")
    client = lab.witness(namespace, "client")
    outsider = lab.witness(namespace, "outsider", may_reach_redis=False)
    primary, replica = lab.redis_primary(), lab.redis_replica()
    lab.let_in(client, primary)
    lab.phase("steady")

    for server, port in _PORTS.items():
        lab.knock(f"no-password-{server}", client, primary, ["PING"], port=port)
        lab.knock(f"outsider-{server}", outsider, primary, ["PING"], port=port)
        lab.knock(f"client-{server}", client, primary, ["PING"], port=port, log_in=True)
    write = ["SET", f"{namespace}-written", "x", "EX", "5"]
    lab.knock("write-replica", client, replica, write, log_in=True)
    lab.knock("write-primary", client, primary, write, log_in=True)

    for server in _PORTS:
        lab.expect(
            "FT-17", "no-password", redis_answers(probe=f"no-password-{server}", answer="NOAUTH"),
            control=("with-password", redis_answers(probe=f"client-{server}", answer="NOAUTH")),
        )  # fmt: skip
        lab.expect(
            "FT-17", "outside-pod", redis_out_of_reach(probe=f"outsider-{server}"),
            control=("allowed-pod", redis_out_of_reach(probe=f"client-{server}")),
        )  # fmt: skip
    lab.expect(
        "FT-17", "replica-written", redis_answers(probe="write-replica", answer="READONLY"),
        control=("primary-written", redis_answers(probe="write-primary", answer="READONLY")),
    )  # fmt: skip
