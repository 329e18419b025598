"""A kind cluster that isn't ours, on the same machine and of the same node image, stays as it was."""

import shutil
import subprocess
import uuid
from pathlib import Path

import pytest
import yaml

from chaos.errors import ChaosError
from chaos.paths import stack_dir
from chaos.stack import network, redis, stack
from chaos.stack.engine import may_raise_limits
from chaos.stack.kind import Kind

pytestmark = pytest.mark.level("core")


@pytest.fixture
def foreign(chaos_run, tmp_path):
    """The name of a cluster of one node, made by kind as anybody would."""
    name = f"foreign-{uuid.uuid4().hex[:6]}"
    config = {
        "kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "networking": {"disableDefaultCNI": True},
        "nodes": [{"role": "control-plane"}],
    }  # fmt: skip
    if not may_raise_limits():
        config["featureGates"] = {"KubeletInUserNamespace": True}
    (tmp_path / "kind.yaml").write_text(yaml.safe_dump(config))
    program = chaos_run.stack.provided.kind
    common = ["--name", name, "--kubeconfig", tmp_path / "kubeconfig"]
    image = chaos_run.stack.record.node_image
    try:
        subprocess.run(
            [program, "create", "cluster", *common, "--image", image, "--config", tmp_path / "kind.yaml"],
            check=True, capture_output=True, timeout=300,
        )  # fmt: skip
        yield name
    finally:
        subprocess.run([program, "delete", "cluster", *common], check=True, capture_output=True, timeout=120)
        shutil.rmtree(stack_dir(name), ignore_errors=True)  # made by asking whose it is


def state(engine, node):
    """What must not change: since when it runs, on which networks, and where its packets may go."""
    found = engine.inspect("container", node)
    networks = {name: of["IPAddress"] for name, of in found["NetworkSettings"]["Networks"].items()}
    routes = engine.exec(node, ["ip", "route", "show", "table", "all"], timeout=15).text
    return found["State"]["StartedAt"], networks, routes


def test_a_foreign_cluster_is_neither_sealed_nor_taken_nor_removed(chaos_run, foreign):
    engine, kind = chaos_run.stack.engine, chaos_run.stack.kind
    node = f"{foreign}-control-plane"
    before = state(engine, node)
    assert kind.network not in before[1]
    assert "default via" in before[2]

    network.seal(engine, kind.nodes())
    network.prove_sealed(
        engine, chaos_run.stack.cluster, network=kind.network, nodes=kind.nodes(),
        image=chaos_run.stack.record.node_image, pod=redis.PROBE_POD,
    )  # fmt: skip
    theirs = Kind(foreign, engine, Path("/nonexistent"), Path("/nonexistent"))
    assert theirs.nodes() == [node]
    assert not theirs.owned()
    with pytest.raises(ChaosError, match="isn't ours"):
        theirs.create(chaos_run.stack.record.node_image, chaos_run.console, meanwhile=lambda: None)
    with pytest.raises(ChaosError, match="isn't ours"):
        stack.down(type(chaos_run.settings)(name=foreign), chaos_run.console)
    assert state(engine, node) == before
    assert node not in kind.nodes()
