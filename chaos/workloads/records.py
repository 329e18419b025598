"""Ray's own records of jobs, asked through Ray's own client over a forwarded port."""

from __future__ import annotations

from typing import Any

from ray.job_submission import JobSubmissionClient

from chaos.errors import StackError
from chaos.stack.cluster import Cluster, Object
from chaos.stack.forward import forwarded
from chaos.stack.ray import RayClusterHandle, ray_container

_DASHBOARD = 8265
ABSENT = "ABSENT"
# Ray's words for an ID that it has a record of; there is no code for it.
_EXISTS = "already exists"


def job_record(cluster: Cluster, handle: RayClusterHandle, submission_id: str) -> dict[str, Any]:
    """``{"ok", "status", "message", "driver_pid"}`` of one submission; the status is ABSENT when Ray has no record."""
    head = _head(cluster, handle)
    with forwarded(cluster, handle.namespace, _name(head), _DASHBOARD) as port:
        found = [d for d in _jobs(port) if d.submission_id == submission_id]
    status, message = (str(found[0].status.value), found[0].message) if found else (ABSENT, None)
    return {
        "ok": True,
        "status": status,
        "message": message,
        "driver_pid": _driver(cluster, handle, head, submission_id),
    }


def submission_ids(cluster: Cluster, handle: RayClusterHandle) -> list[str]:
    """All submission IDs that Ray has a record of, sorted."""
    with forwarded(cluster, handle.namespace, _name(_head(cluster, handle)), _DASHBOARD) as port:
        return sorted(details.submission_id for details in _jobs(port) if details.submission_id)


def submit(cluster: Cluster, handle: RayClusterHandle, submission_id: str, entrypoint: str) -> dict[str, Any]:
    """``{"ok", "before", "accepted", "refusal"}``: whether Ray took the submission, and its record of the ID before it.

    Only the answer that the ID exists is a refusal; anything else that goes wrong raises `StackError`.
    """
    with forwarded(cluster, handle.namespace, _name(_head(cluster, handle)), _DASHBOARD) as port:
        before = [str(each.status.value) for each in _jobs(port) if each.submission_id == submission_id]
        answer = {"ok": True, "before": before[0] if before else ABSENT, "accepted": True, "refusal": None}
        try:
            client = JobSubmissionClient(f"http://127.0.0.1:{port}")
            client.submit_job(entrypoint=entrypoint, submission_id=submission_id)
        except (RuntimeError, OSError) as problem:
            said = [line for line in str(problem).splitlines() if _EXISTS in line]
            if not said:
                raise StackError(f"Ray did not take {submission_id} and did not refuse it: {problem}") from problem
            return {**answer, "accepted": False, "refusal": said[-1].strip()}
        return answer


def _jobs(port: int) -> list[Any]:
    try:
        jobs: list[Any] = JobSubmissionClient(f"http://127.0.0.1:{port}").list_jobs()
    except (RuntimeError, ConnectionError) as problem:
        raise StackError(f"Ray's job API does not answer: {problem}") from problem
    return jobs


def _head(cluster: Cluster, handle: RayClusterHandle) -> Object:
    pod = handle.head_pod(cluster)
    if pod is None:
        raise StackError(f"{handle.namespace}/{handle.name} has no head pod")
    return pod


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def _driver(cluster: Cluster, handle: RayClusterHandle, head: Object, submission_id: str) -> int | None:
    """The driver's process in the head's container, found by the name of the actor that it was told to own."""
    listed = cluster.exec(
        handle.namespace, _name(head), ["pgrep", "--full", "--oldest", f"^python /chaos/driver.py .*{submission_id}"],
        container=ray_container(head), timeout=10,
    )  # fmt: skip
    words = listed.stdout.split()
    return int(words[0]) if words else None
