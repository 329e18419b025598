"""The API server is asked, strictly and without a trace, before anything is made of what the user gave."""

import pytest

from chaos.errors import StackError, UsageError
from chaos.own.accepted import require_accepted
from chaos.stack.cluster import ApiError


class FakeCluster:
    """Refuses the objects of one kind."""

    def __init__(self, kind="", status=0, reason="", message=""):
        self.asked = []
        self._kind, self._answer = kind, (status, reason, message)

    def request(self, method, path, *, query, body):
        self.asked.append((method, path, query, body))
        status, reason, message = self._answer
        if body["kind"] == self._kind:
            raise ApiError(f"{method} {path}: {status} {reason}: {message}", status=status, reason=reason)
        return body


def test_all_that_would_be_made_is_asked_for_as_it_was_given_and_nothing_is_made(own, fitted):
    cluster = FakeCluster()
    require_accepted(cluster, own("RayCluster"), fitted("RayCluster"))
    assert [body["kind"] for *_, body in cluster.asked] == ["RayCluster", "ConfigMap", "Secret", "Service"]
    for method, path, query, body in cluster.asked:
        assert (method, path.rpartition("/")[0].endswith("/namespaces/default")) == ("POST", True)
        assert (query["dryRun"], query["fieldValidation"]) == ("All", "Strict")
        assert "namespace" not in body["metadata"]
    assert cluster.asked[0][3]["spec"] == own("RayCluster").document["spec"]


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (400, "BadRequest", 'strict decoding error: unknown field "spec.headGroupSpecs"'),
        (422, "Invalid", "spec.headGroupSpec.template.spec.containers: Required value"),
    ],
)
@pytest.mark.parametrize("kind", ["RayJob", "ConfigMap"])
def test_a_refusal_is_the_users_to_correct_in_the_servers_words(own, fitted, kind, status, reason, message):
    with pytest.raises(UsageError) as raised:
        require_accepted(FakeCluster(kind, status, reason, message), own("RayJob"), fitted("RayJob"))
    assert raised.value.args[0].endswith(f"rayjob.yaml is refused: {message}")
    assert raised.value.exit_code == 3


def test_one_that_is_there_already_is_valid(own, fitted):
    require_accepted(FakeCluster("RayJob", 409, "AlreadyExists", "exists"), own("RayJob"), fitted("RayJob"))


def test_that_nobody_may_ask_is_no_fault_of_the_file(own, fitted):
    with pytest.raises(StackError):
        require_accepted(FakeCluster("RayJob", 403, "Forbidden", "no"), own("RayJob"), fitted("RayJob"))
