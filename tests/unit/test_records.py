"""Ray's job API, asked through Ray's client: what is an answer, what a refusal, and what neither."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.errors import StackError
from chaos.stack.ray import RayClusterHandle
from chaos.workloads import records

HANDLE = RayClusterHandle("ns", "c", ft=False, workers=0)


class FakeClient:
    """Ray's client for a cluster that has a record of one job, and answers a submission with ``answer``."""

    answer: Exception | None = None

    def __init__(self, address: str) -> None:
        assert address == "http://127.0.0.1:4711"

    def list_jobs(self) -> list[Any]:
        return [SimpleNamespace(submission_id="known", status=SimpleNamespace(value="RUNNING"))]

    def submit_job(self, *, entrypoint: str, submission_id: str) -> str:
        assert entrypoint == "true"
        if self.answer:
            raise self.answer
        return submission_id


@pytest.fixture(autouse=True)
def ray(monkeypatch: pytest.MonkeyPatch) -> type[FakeClient]:
    @contextmanager
    def forwarded(*_: object) -> Any:
        yield 4711

    class Client(FakeClient):
        pass

    monkeypatch.setattr(records, "forwarded", forwarded)
    monkeypatch.setattr(records, "_head", lambda *_: {"metadata": {"name": "head"}})
    monkeypatch.setattr(records, "JobSubmissionClient", Client)
    return Client


def submit(submission_id: str) -> dict[str, Any]:
    return records.submit(None, HANDLE, submission_id, "true")  # type: ignore[arg-type]


def test_a_submission_is_accepted() -> None:
    assert submit("new") == {"ok": True, "before": "ABSENT", "accepted": True, "refusal": None}


def test_a_refusal_is_an_answer(ray: type[FakeClient]) -> None:
    text = "Request failed with status code 500: Traceback\nValueError: Job with submission_id known already exists. Please"
    ray.answer = RuntimeError(text)
    assert submit("known") == {
        "ok": True, "before": "RUNNING", "accepted": False, "refusal": text.splitlines()[-1],
    }  # fmt: skip


@pytest.mark.parametrize("problem", [RuntimeError("status code 500: No available agent"), ConnectionError("reset")])
def test_anything_else_is_no_answer(ray: type[FakeClient], problem: Exception) -> None:
    ray.answer = problem
    with pytest.raises(StackError, match="did not refuse"):
        submit("known")
