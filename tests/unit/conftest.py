"""Histories made up for tests, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chaos.history.entry import Entry
from chaos.history.reader import History

NAMESPACE, CLUSTER, JOB = "ns", "c1", "job1"


class Story:
    """A history in the making. Entries may be added in any order; times are seconds since the chapter began."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.experiment: str | None = "test_it"
        self.start = 0.0
        self.tag = ""  # keeps the UIDs of chapters apart

    def chapter(self, experiment: str, start: float) -> None:
        """Begin another experiment, ``start`` seconds after the run began; what lived before is deleted first."""
        last = {e["uid"]: e for e in sorted(self.entries, key=lambda e: e["t"]) if e["what"] == "object"}
        for e in last.values():
            if e["change"] != "DELETED":
                self.entries.append({**e, "t": start - 1, "change": "DELETED", "experiment": None})
        self.experiment, self.start, self.tag = experiment, start, f"-{experiment}"

    def add(self, what: str, t: float, **more: Any) -> None:
        t += self.start
        self.entries.append({"t": t, "wall": 1_800_000_000 + t, "what": what, "experiment": self.experiment, **more})

    def phase(self, name: str, t: float, **detail: Any) -> None:
        self.add("phase", t, phase=name, detail=detail)

    def step(self, fault: str, step: str, t: float, target: dict[str, str] | None = None, **detail: Any) -> None:
        target = {k: v + self.tag if k == "uid" else v for k, v in (target or {}).items()}
        self.add("fault", t, fault=fault, id=f"{fault}{self.tag}", group=fault, step=step, target=target, detail=detail)

    def object(
        self, resource: str, t: float, obj: dict[str, Any], change: str = "MODIFIED", listed: bool = False
    ) -> None:
        meta = obj["metadata"]
        self.add(
            "object", t, change=change, resource=resource, uid=meta["uid"] + self.tag, namespace=meta["namespace"],
            name=meta["name"], rv="1", listed=listed, object=obj,
        )  # fmt: skip

    def pod(self, t: float, name: str, uid: str, role: str, change: str = "MODIFIED", **state: Any) -> None:
        self.object("pods", t, pod(name, uid, role, **state), change)

    def rayjob(self, t: float, stage: str, name: str = JOB, **status: Any) -> None:
        shown = {"jobDeploymentStatus": stage, "rayClusterName": "job1-abcde", "jobId": "job1-fghij", **status}
        meta = {"name": name, "namespace": NAMESPACE, "uid": f"rayjob-{name}"}
        self.object("rayjobs", t, {"metadata": meta, "status": {k: v for k, v in shown.items() if v}})

    def job(self, t: float, uid: str, change: str = "ADDED", name: str = JOB) -> None:
        meta = {"name": name, "namespace": NAMESPACE, "uid": uid, "labels": {"ray.io/originated-from-cr-name": JOB}}
        self.object("jobs", t, {"metadata": meta}, change)

    def probe(self, name: str, t: float, ok: bool = True, took: float = 0.5, **more: Any) -> None:
        target = more.pop("target", {"namespace": NAMESPACE, "cluster": CLUSTER})
        error = "" if ok else "timed out"
        self.add("probe", t, probe=name, target=target, ok=ok, took=took, value=more.pop("value", {}), error=error)

    def gap(self, resource: str, since: float, until: float) -> None:
        self.add("gap", until, resource=resource, since=self.start + since, until=self.start + until, reason="410 Gone")

    def drop(self, unwanted: Callable[[Entry], bool]) -> None:
        self.entries = [entry for entry in self.entries if not unwanted(entry)]

    def end(self, t: float, name: str = "end") -> None:
        """End the experiment; nothing after it is kept."""
        self.drop(lambda e: e["t"] > self.start + t)
        self.phase(name, t)

    def all(self) -> History:
        ordered = sorted(self.entries, key=lambda entry: entry["t"])
        return History([{"n": n, **entry} for n, entry in enumerate(ordered)])

    def view(self) -> History:
        return self.all().experiment("test_it")

    # --- stories that several tests begin with -----------------------------------------------------------------------

    def head_loss(self, *claims: tuple[str, str]) -> None:
        """The head is deleted at 20 s and back, functional, at 37.2 s; two workers and an actor live on to 130 s."""
        self.phase("begin", 5, claims=claims or [("FT-2", "delete")])
        for worker in ("w1", "w2"):
            self.pod(1, worker, f"uid-{worker}", "worker", "ADDED")
        self.pod(1, "h1", "uid-h1", "head", "ADDED")
        self.phase("steady", 12)
        target = {"namespace": NAMESPACE, "pod": "h1", "uid": "uid-h1"}
        self.step("delete-pod", "record", 19.9, target, undo=[])
        self.step("delete-pod", "apply", 20, target)
        self.pod(20.1, "h1", "uid-h1", "head", deleting=True)
        self.pod(22.6, "h1", "uid-h1", "head", "DELETED", deleting=True)
        self.step("delete-pod", "effect", 22.7, target, entry=0)
        self.pod(22.9, "h2", "uid-h2", "head", "ADDED", phase="Pending", ready=False, container=None, scheduled=False)
        self.pod(23.0, "h2", "uid-h2", "head", phase="Pending", ready=False, container=None)
        self.pod(25.0, "h2", "uid-h2", "head", ready=False)
        self.pod(35.4, "h2", "uid-h2", "head")
        count = 0
        for t in (14, 16, 18, 24, 28, 32, 37.2, *range(40, 130, 4)):
            ok = not 20 < t < 37
            count += ok
            self.functional(t, ok, count)
        self.phase("settled", 60)
        self.end(130)

    def functional(self, t: float, ok: bool, count: int, pid: int = 174, born: str = "b1") -> None:
        actors = {"counter": {"pid": pid, "count": count, "born": born, "node": "n1"}} if ok else {}
        self.probe("functional", t, ok, value={"actors": actors})

    def operator_kill(self, fault: str = "kill-process") -> None:
        """The operator is killed at 20 s with the submitter Job just made; a new one runs at 21.5 s and goes on."""
        self.phase("begin", 5, claims=[["OP-2", "kill"]])
        self.pod(1, "op", "uid-op", "operator", "ADDED")
        self.rayjob(6, "", rayClusterName="", jobId="")
        self.rayjob(7, "Initializing")
        self.job(19.8, "uid-job")
        target = {"namespace": "operators", "pod": "op", "uid": "uid-op"}
        self.step(fault, "apply", 20, target)
        self.pod(20.4, "op", "uid-op", "operator", ready=False, container="terminated", exit_code=137)
        self.step(fault, "effect", 20.5, target)
        self.pod(21.5, "op", "uid-op", "operator", ready=False, restarts=1, exit_code=137)
        self.pod(32, "op", "uid-op", "operator", restarts=1, exit_code=137)
        self.rayjob(39, "Running")
        self.rayjob(70, "Complete")
        self.end(100)


def pod(
    name: str,
    uid: str,
    role: str,
    *,
    phase: str = "Running",
    ready: bool = True,
    restarts: int = 0,
    deleting: bool = False,
    container: str | None = "running",
    exit_code: int | None = None,
    scheduled: bool = True,
    within: str | None = None,
) -> dict[str, Any]:
    """A pod as the API server tells it; ``container`` is the state of its one container, None before it has any.

    It is in the namespace ``within``, if given, else in that of its role.
    """
    if role == "operator":
        # The name is shared by all that KubeRay's plain manifests and its controllers make.
        namespace = "operators"
        labels = {"app.kubernetes.io/component": "kuberay-operator", "app.kubernetes.io/name": "kuberay"}
    elif role == "submitter":
        namespace, labels = NAMESPACE, {"job-name": JOB}
    elif role == "redis":
        namespace, labels = "redis", {"app.kubernetes.io/name": "redis-ha"}
    else:
        namespace = NAMESPACE
        labels = {
            "app.kubernetes.io/created-by": "kuberay-operator",
            "app.kubernetes.io/name": "kuberay",
            "ray.io/cluster": CLUSTER,
            "ray.io/is-ray-node": "yes",
            "ray.io/node-type": role,
        }
    meta: dict[str, Any] = {"name": name, "namespace": within or namespace, "uid": uid, "labels": labels}
    if deleting:
        meta["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    ended = {"terminated": {"exitCode": exit_code, "finishedAt": "2027-01-15T08:00:00Z"}}
    statuses = []
    if container:
        state = ended if container == "terminated" else {container: {}}
        last = ended if exit_code is not None and container != "terminated" else {}
        statuses = [{"name": "main", "restartCount": restarts, "state": state, "lastState": last}]
    conditions = [{"type": "PodScheduled", "status": str(scheduled)}, {"type": "Ready", "status": str(ready)}]
    return {"metadata": meta, "status": {"phase": phase, "conditions": conditions, "containerStatuses": statuses}}


@pytest.fixture
def story() -> Story:
    return Story()
