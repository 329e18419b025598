"""Memory: the harness at its largest in the last run, and all nodes of the stack that is up."""

import json
import subprocess
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.running import running_cluster
from chaos.errors import UsageError

HARNESS_MIB = 300
STACK_GIB = 8
LATEST = Path("results/latest/run.json")
UNITS = {"GiB": 1.0, "MiB": 1 / 1024, "KiB": 1 / 1024**2, "B": 1 / 1024**3}


def measure(console):
    if not LATEST.exists():
        raise UsageError("there is no run to measure", fix="make chaos")
    peak = json.loads(LATEST.read_text())["peak_memory_mib"]
    cluster, _ = running_cluster()
    nodes = [node["metadata"]["name"] for node in cluster.list("nodes")]
    stats = subprocess.run(
        ["docker", "stats", "--no-stream", "--format", "{{.MemUsage}}", *nodes],
        check=True,
        capture_output=True,
        text=True,
    )
    total = sum(gibibytes(line.split("/")[0].strip()) for line in stats.stdout.splitlines())
    return [
        Figure("harness, peak of the last run", peak, HARNESS_MIB, "MiB"),
        Figure("stack, three nodes as they are now", total, STACK_GIB, "GiB"),
    ]


def gibibytes(text):
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    raise ValueError(f"not a size: {text}")
