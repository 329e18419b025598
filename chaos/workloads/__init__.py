"""What runs on Ray while a fault is injected.

The scripts in ``inpod/`` run inside the Ray pods, on whatever Python the Ray image has (3.10 or newer) and with nothing but
Ray installed. They reach the pods through a ConfigMap that is mounted at ``/chaos``; they import nothing of this package.
"""

from pathlib import Path
from typing import Any

CONFIG_MAP = "chaos-workloads"
MOUNT = "/chaos"


def configmap(namespace: str) -> dict[str, Any]:
    """The ConfigMap of all scripts, for a namespace."""
    scripts = sorted((Path(__file__).parent / "inpod").glob("*.py"))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace},
        "data": {script.name: script.read_text("utf-8") for script in scripts},
    }
