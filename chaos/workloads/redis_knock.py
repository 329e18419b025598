"""One command said to a Redis server from a pod of ours, by ``inpod/knock.py``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from chaos.errors import StackError
from chaos.stack.cluster import Cluster, Object
from chaos.workloads import MOUNT

# The script's own time-outs (3 s to connect, 3 s for each answer) and what Python and exec take on a busy machine.
_SECONDS = 20.0


def knock(
    cluster: Cluster, pod: Object, address: str, port: int, command: Sequence[str], *, log_in: bool = False
) -> dict[str, Any]:
    """``{"ok", "reached", "answer", "refusal"}``. Raises `StackError` when the script could not tell."""
    where = pod["metadata"]
    options = ["--log-in"] if log_in else []
    argv = ["python", f"{MOUNT}/knock.py", *options, address, str(port), *command]
    executed = cluster.exec(where["namespace"], where["name"], argv, timeout=_SECONDS)
    if not executed.ok:
        raise StackError(f"{where['name']} could not knock at {address}:{port}: {executed.error_text.strip()[-300:]}")
    said = json.loads(executed.stdout)
    return {"ok": True, "reached": said["reached"], "answer": said.get("answer"), "refusal": said.get("error")}
