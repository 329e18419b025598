"""The whole stack against a bare three-node kind cluster of the same node image, made in the same run."""

import subprocess
import time
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from benchmarks.figure import Figure
from chaos.settings import Settings
from chaos.stack import engine as docker_engine
from chaos.stack import stack
from chaos.stack.engine import may_raise_limits
from chaos.stack.images.bake import bake
from chaos.stack.images.choose import choose

LIMIT = 2.5


def measure(console):
    settings = Settings(name=f"bench-{uuid.uuid4().hex[:6]}")
    engine = docker_engine.ensure(console)
    provided = choose(settings, engine, console).provide(console)
    node_image = bake(engine, provided, console)
    bare = bare_cluster(provided.kind, node_image, console)
    try:
        began = time.monotonic()
        stack.up(settings, console)
        whole = time.monotonic() - began
    finally:
        stack.down(settings, console)
    return [Figure("stand-up against a bare cluster", whole / bare, LIMIT, "×", f"{whole:.1f} s against {bare:.1f} s")]


def bare_cluster(kind, node_image, console):
    """Seconds that `kind create cluster` takes for three nodes and nothing in them."""
    name = f"bare-{uuid.uuid4().hex[:6]}"
    roles = [{"role": "control-plane"}, {"role": "worker"}, {"role": "worker"}]
    config = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"disableDefaultCNI": True},
        "nodes": roles,
    }
    if not may_raise_limits():
        config["featureGates"] = {"KubeletInUserNamespace": True}
    with TemporaryDirectory() as folder, console.step("bare kind cluster, three nodes", expect=30):
        path = Path(folder) / "kind.yaml"
        path.write_text(yaml.safe_dump(config))
        common = ["--name", name, "--kubeconfig", str(Path(folder) / "kubeconfig")]
        try:
            began = time.monotonic()
            subprocess.run(
                [kind, "create", "cluster", *common, "--image", node_image, "--config", path],
                check=True,
                capture_output=True,
            )
            return time.monotonic() - began
        finally:
            subprocess.run([kind, "delete", "cluster", *common], check=True, capture_output=True)
