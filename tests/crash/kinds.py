"""One row a kind of fault: how it is made on a stage of light pods. A fault without a row fails a unit test.

Several rows may be of one class, where its parameters make a different mechanism of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from chaos.faults.api_server_pause import ApiServerPause
from chaos.faults.base import Fault
from chaos.faults.cpu_pressure import CpuPressure
from chaos.faults.delay import Delay
from chaos.faults.delete_cluster import DeleteCluster
from chaos.faults.delete_job import DeleteJob
from chaos.faults.delete_pod import DeletePod
from chaos.faults.delete_rayjob import DeleteRayJob
from chaos.faults.head_away import HeadAway
from chaos.faults.hold_deletion import HoldDeletion
from chaos.faults.image_cold import ImageCold
from chaos.faults.kill_process import KillProcess
from chaos.faults.loss import Loss
from chaos.faults.memory_pressure import MemoryPressure
from chaos.faults.network_policy import NetworkPolicy
from chaos.faults.node_cordon import NodeCordon
from chaos.faults.node_disconnect import NodeDisconnect
from chaos.faults.node_drain import NodeDrain
from chaos.faults.node_stop import NodeStop
from chaos.faults.partition import Direction, Mode, Partition
from chaos.faults.redis_change_password import RedisChangePassword
from chaos.faults.redis_failover import RedisFailover
from chaos.faults.redis_fill_memory import RedisFillMemory
from chaos.faults.redis_lose_data import RedisLoseData
from chaos.faults.redis_pause import RedisPause
from chaos.faults.redis_read_only import RedisReadOnly
from chaos.faults.refuse_write import RefuseWrite
from chaos.faults.replace_operator import ReplaceOperator
from chaos.faults.restart_container import RestartContainer
from chaos.faults.scale_deployment import ScaleDeployment
from chaos.faults.shut_out import ShutOut
from chaos.faults.stop_process import StopProcess
from chaos.kernel import FEATURES, has
from chaos.machine import LocalMachine
from chaos.stack import redis
from chaos.stack.cluster import Object
from chaos.stack.kuberay import ACCOUNT, CLUSTER_ROLE
from tests.crash.stage import Stage

# The one Deployment of the stack that nothing waits for: a second pod of it is idle.
STORAGE, PROVISIONER = "kuberay-chaos-storage", "local-path-provisioner"


@dataclass(frozen=True)
class Row:
    """``build`` makes the fault. ``heavy`` ones hit the stack itself: they come seldom, and the stack may take its time."""

    fault: type[Fault]
    build: Callable[[Stage], Fault]
    heavy: bool = False

    @property
    def undone(self) -> bool:
        """Whether there is something to undo; otherwise the stack's own controllers restore what was hit, or nobody does."""
        return self.fault.undo is not Fault.undo


def _between(mode: Mode, direction: Direction) -> Callable[[Stage], Partition]:
    def build(stage: Stage) -> Partition:
        server, cut = stage.pod("server"), stage.pod("cut")
        stage.traffic(cut, server)  # the proof is that packets of an open connection are hit
        return Partition.between(cut, [server], mode=mode, direction=direction)

    return build


def _busy(build: Callable[[Object], Fault]) -> Callable[[Stage], Fault]:
    """On a pod whose packets are under way, as the proof needs them."""

    def on(stage: Stage) -> Fault:
        server, client = stage.pod("server"), stage.pod("client")
        stage.traffic(client, server)
        return build(client)

    return on


KINDS: Mapping[str, Row] = {
    "delete-pod, forced": Row(DeletePod, lambda stage: DeletePod.of(stage.pod("victim"))),
    "delete-pod, graceful": Row(DeletePod, lambda stage: DeletePod.of(stage.pod("victim"), grace=1)),
    "delete-cluster": Row(DeleteCluster, lambda stage: DeleteCluster.of(stage.raycluster("victim"))),
    "delete-rayjob": Row(DeleteRayJob, lambda stage: DeleteRayJob.of(stage.rayjob("victim"))),
    "hold-deletion": Row(HoldDeletion, lambda stage: HoldDeletion.of("rayclusters", stage.raycluster("held"))),
    "scale-deployment": Row(ScaleDeployment, lambda stage: ScaleDeployment(STORAGE, PROVISIONER, replicas=2)),
    "head-away": Row(HeadAway, lambda stage: HeadAway.of(stage.head(stage.raycluster("held")))),
    "shut-out": Row(ShutOut, lambda stage: ShutOut.of(stage.raycluster("stranger"))),
    "delete-job": Row(DeleteJob, lambda stage: DeleteJob.of(stage.job("victim"))),
    "kill-process, main": Row(KillProcess, lambda stage: KillProcess.of(stage.pod("victim"))),
    "kill-process, by name": Row(KillProcess, lambda stage: KillProcess.of(stage.pod("victim"), process="python3")),
    "restart-container": Row(RestartContainer, lambda stage: RestartContainer.of(stage.pod("victim"))),
    "stop-process, main": Row(StopProcess, lambda stage: StopProcess.of(stage.pod("victim"))),
    "stop-process, by name": Row(StopProcess, lambda stage: StopProcess.of(stage.pod("victim"), process="python3")),
    "partition, drop": Row(Partition, _between(Mode.DROP, Direction.BOTH)),
    "partition, drop out": Row(Partition, _between(Mode.DROP, Direction.OUT)),
    "partition, reject": Row(Partition, _between(Mode.REJECT, Direction.BOTH)),
    "partition, reset": Row(Partition, _between(Mode.RESET, Direction.BOTH)),
    "loss": Row(Loss, _busy(lambda pod: Loss.of(pod, percent=30))),
    "delay": Row(Delay, lambda stage: Delay.of(stage.pod("late"), milliseconds=100)),
    "network-policy": Row(
        NetworkPolicy,
        lambda stage: NetworkPolicy.ingress(stage.pod("server"), 7000, probed_from=stage.pod("client")),
    ),
    "cpu-pressure": Row(CpuPressure, lambda stage: CpuPressure.of(stage.pod("busy"), busy=1, free=1, seconds=120)),
    "memory-pressure": Row(
        MemoryPressure, lambda stage: MemoryPressure.of(stage.pod("full"), mebibytes=64, free=64, seconds=120)
    ),
    "refuse-write": Row(RefuseWrite, lambda stage: RefuseWrite(CLUSTER_ROLE, ACCOUNT, "ray.io", "rayjobs/status")),
    "image-cold": Row(ImageCold, lambda stage: ImageCold.of(*stage.unused_image())),
    "node-cordon": Row(NodeCordon, lambda stage: NodeCordon.of(stage.node())),
    "redis-read-only": Row(RedisReadOnly, lambda stage: RedisReadOnly.of(stage.redis())),
    "redis-fill-memory": Row(RedisFillMemory, lambda stage: RedisFillMemory.of(stage.redis())),
    "redis-pause": Row(RedisPause, lambda stage: RedisPause.of(stage.replica(), milliseconds=1000)),
    "redis-change-password": Row(RedisChangePassword, lambda stage: RedisChangePassword.of(stage.replica())),
    # On the stack itself, each with a recovery of the stack's own after it.
    # The same operator by another version's name: to build another one is no part of this.
    "replace-operator": Row(
        ReplaceOperator,
        lambda stage: ReplaceOperator(replace(stage.operator, version="0.0.0"), stage.operator),
        heavy=True,
    ),
    "redis-failover": Row(RedisFailover, lambda stage: RedisFailover.of(redis.wait_agreed(stage.cluster)), heavy=True),
    "redis-lose-data": Row(RedisLoseData, lambda stage: RedisLoseData.of(stage.redis()), heavy=True),
    "node-drain": Row(NodeDrain, lambda stage: NodeDrain.of(stage.node()), heavy=True),
    "node-disconnect": Row(
        NodeDisconnect, lambda stage: NodeDisconnect.of(stage.node(), stage.node(nth=1)), heavy=True
    ),
    "node-stop": Row(NodeStop, lambda stage: NodeStop.of(stage.node()), heavy=True),
    "api-server-pause": Row(
        ApiServerPause, lambda stage: ApiServerPause.of(stage.node(control_plane=True)), heavy=True
    ),
}


def missing_feature(row: Row) -> str:
    """The kernel feature that the fault needs and this machine is known to lack; empty when none."""
    machine = LocalMachine()
    lacking = [f.name for f in FEATURES if f.name in row.fault.needs and has(machine, f) is False]
    return ", ".join(lacking)
