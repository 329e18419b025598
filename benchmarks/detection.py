"""How long after the API server answered a pod's deletion the history has it; both clocks are this machine's."""

import time
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figure import Figure
from benchmarks.running import running_cluster
from chaos.history.audit import AuditTail
from chaos.history.recorder import Recorder
from chaos.history.store import HistoryWriter
from chaos.stack import ray

LIMIT_MS = 100
PODS = 200
CPU_LIMIT = 5
IDLE_SECONDS = 30


def measure(console):
    cluster, folder = running_cluster()
    name = f"chaos-bench-{uuid.uuid4().hex[:6]}"
    ray.ensure_namespace(cluster, name)
    with TemporaryDirectory() as scratch:
        writer = HistoryWriter(Path(scratch) / "history.jsonl")
        recorder, audit = Recorder(cluster.api, writer), AuditTail(folder.audit_log, writer)
        recorder.start()
        audit.start()
        try:
            cpu, wall = time.process_time(), time.monotonic()
            with console.step("recorder at rest", expect=IDLE_SECONDS):
                time.sleep(IDLE_SECONDS)
            share = 100 * (time.process_time() - cpu) / (time.monotonic() - wall)
            with console.step(f"deleting {PODS} pods", expect=30):
                lags = sorted(deletion_lags(cluster, writer, name))
        finally:
            audit.stop()
            recorder.stop()
            writer.close()
            ray.delete_namespace(cluster, name, 60)
    p99 = lags[int(0.99 * (len(lags) - 1))]
    return [
        Figure(
            "deletion in the history, p99",
            p99,
            LIMIT_MS,
            "ms",
            f"{len(lags)} deletions, median {lags[len(lags) // 2]:.1f} ms",
        ),
        Figure("recorder's share of a core", share, CPU_LIMIT, "%", f"over {IDLE_SECONDS} s"),
    ]


def deletion_lags(cluster, writer, namespace):
    """Milliseconds from the audit log's time of the answer to the history entry, one a pod that no node ever runs."""
    uids = {}
    for number in range(PODS):
        body = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "none"}]},
        }  # fmt: skip
        uids[cluster.create("pods", namespace, body)["metadata"]["uid"]] = f"p{number}"
    for uid, pod in uids.items():
        cluster.delete("pods", namespace, pod, uid=uid, grace=0)
    gone, answered = {}, {}
    deadline = time.monotonic() + 30
    while (len(gone) < PODS or len(answered) < PODS) and time.monotonic() < deadline:
        for entry in writer.entries():
            if entry["what"] == "object" and entry["uid"] in uids and entry["change"] == "DELETED":
                gone.setdefault(entry["name"], entry["wall"])
            if (
                entry["what"] == "audit"
                and entry["namespace"] == namespace
                and entry["verb"] == "delete"
                and entry["resource"] == "pods"
            ):
                answered.setdefault(entry["name"], entry["answered"])
        time.sleep(0.2)
    missing = set(uids.values()) - (gone.keys() & answered.keys())
    if missing:
        raise SystemExit(f"{len(missing)} deletions are in only one of history and audit log")
    return [1000 * (gone[pod] - answered[pod]) for pod in uids.values()]
