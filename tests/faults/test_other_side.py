"""What a fault is about breaks while it is in force: it is undone all the same, and verdicts say what could not be seen."""

import contextlib

import pytest

from chaos.checks.one_head import one_head
from chaos.experiment import Declaration
from chaos.faults.api_server_pause import ApiServerPause
from chaos.faults.cpu_pressure import CpuPressure
from chaos.faults.delay import Delay
from chaos.faults.kill_process import KillProcess
from chaos.faults.loss import Loss
from chaos.faults.network_policy import NetworkPolicy
from chaos.faults.node_stop import NodeStop
from chaos.faults.partition import Partition
from chaos.faults.stop_process import StopProcess
from chaos.faults.undo import perform
from chaos.history.entry import What
from chaos.settings import Level
from chaos.stack import engine as docker_engine
from chaos.stack.components import wait_for_nodes
from chaos.verdict import Outcome
from chaos.waiting import until

pytestmark = pytest.mark.level("core")

CLUSTER = "nobody-made-it"
HEAD = {"ray.io/cluster": CLUSTER, "ray.io/node-type": "head"}

# --- the cluster ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def nothing(chaos_run, lab):
    yield


@contextlib.contextmanager
def paused(chaos_run, lab):
    with lab.inject(ApiServerPause(chaos_run.stack.kind.control_plane)) as pause:
        pause.hold(30)
        yield


@contextlib.contextmanager
def control_plane_restarted(chaos_run, lab):
    with lab.inject(NodeStop(chaos_run.stack.kind.control_plane)):
        yield


@contextlib.contextmanager
def docker_restarted(chaos_run, lab):
    """Only an engine that we started is restarted; its nodes come back with it. Another one is left alone."""
    ours = docker_engine.started_by_us()
    assert docker_engine.stop(chaos_run.console) is (ours is not None)
    docker_engine.ensure(chaos_run.console)
    assert docker_engine.started_by_us() != ours or ours is None
    wait_for_nodes(chaos_run.stack.cluster, count=len(chaos_run.stack.kind.nodes()), deadline=240)
    yield


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize(
    "outage",
    [nothing, paused, control_plane_restarted, pytest.param(docker_restarted, marks=pytest.mark.level("full"))],
    ids=lambda outage: outage.__name__,
)
def test_what_could_not_be_seen_is_a_gap_and_is_not_judged(chaos_run, cluster, stand_in, outage):
    """Without an outage the same check, on the same pod and with the same fault, comes to a judgement."""
    pod = stand_in("head", labels=HEAD)
    fault, verdicts = Delay.of(pod, milliseconds=100), list(chaos_run.verdicts)
    seen = not (outage is nothing or (outage is docker_restarted and docker_engine.started_by_us() is None))
    lab = chaos_run.begin(f"self_{outage.__name__}", Declaration((("FT-2", "self"),), Level.SMOKE, 60))
    since = len(chaos_run.writer.entries())
    with lab.inject(fault), outage(chaos_run, lab):
        pass
    lab.expect("FT-2", "self", one_head(namespace=pod["metadata"]["namespace"], cluster=CLUSTER))
    [verdict] = chaos_run.end(lab)
    chaos_run.verdicts[:] = verdicts  # not a verdict on the stack
    entries = chaos_run.writer.entries(since)
    gaps = [entry for entry in entries if entry["what"] == What.GAP and entry["resource"] == "pods"]
    if seen:
        assert gaps
        assert (verdict.verdict, "the history of pods has a gap" in verdict.reason) == (Outcome.UNKNOWN, True)
    else:
        assert (gaps, verdict.verdict) == ([], Outcome.HOLDS)
    steps = [entry["step"] for entry in entries if entry["what"] == What.FAULT]
    assert steps.count("record") == steps.count("undone")
    assert chaos_run.stack.undo_log.pending() == []
    for undo in fault.queue.undo:
        perform(cluster, undo)
    fault.relieved(lab.injector.reach)


# --- the target -----------------------------------------------------------------------------------------------------

FAULTS = {
    "delay": lambda pod, other: Delay.of(pod, milliseconds=100),
    "loss": lambda pod, other: Loss.of(pod, percent=50),
    "partition": lambda pod, other: Partition.between(pod, [other]),
    "stop": lambda pod, other: StopProcess.of(pod),
    "policy": lambda pod, other: NetworkPolicy.ingress(pod, 7000, probed_from=other),
    "cpu": lambda pod, other: CpuPressure.of(pod, busy=1, free=1, seconds=120),
}
EACH = pytest.mark.parametrize("kind", FAULTS)


@pytest.fixture
def in_force(inject, stand_in, connect):
    """A function that puts the fault of that kind in force on a pod whose packets are under way; for a block."""

    @contextlib.contextmanager
    def build(kind):
        pod, other = stand_in("target", labels={"app": f"other-side-{kind}"}), stand_in("other")
        if kind in ("loss", "partition"):
            connect(pod, other["status"]["podIP"])
        with inject(FAULTS[kind](pod, other)):
            yield pod

    return build


@EACH
def test_a_target_that_goes_while_the_fault_is_on_it(chaos_run, cluster, in_force, kind):
    with in_force(kind) as pod:
        where = pod["metadata"]
        cluster.delete("pods", where["namespace"], where["name"], uid=where["uid"], grace=0)
        until(lambda: cluster.get("pods", where["namespace"], where["name"]) is None, what="its end", deadline=30)
    assert chaos_run.stack.undo_log.pending() == []


@EACH
def test_a_target_that_crashes_again_and_again_while_the_fault_is_on_it(chaos_run, cluster, inject, in_force, kind):
    with in_force(kind) as pod:
        where = pod["metadata"]

        def status():
            [main] = cluster.get("pods", where["namespace"], where["name"])["status"]["containerStatuses"]
            return main

        for restarts in (1, 2):
            until(lambda: "running" in status()["state"], what="a container to kill", deadline=60)
            with inject(KillProcess.of(pod)):
                until(lambda n=restarts: status()["restartCount"] >= n, what="a restart", deadline=60)
    assert chaos_run.stack.undo_log.pending() == []
