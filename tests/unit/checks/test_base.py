from __future__ import annotations

import json

import pytest

from chaos.checks import Check, workers_survived
from chaos.checks import base as base_module
from chaos.errors import UsageError
from chaos.history.reader import History

EMPTY = History([])


def test_an_expectation_is_data_and_comes_back_the_same():
    expectation = workers_survived(namespace="ns", cluster="c1", settle=80).during("f1")
    stored = json.loads(json.dumps(expectation.as_json()))
    params = {"namespace": "ns", "cluster": "c1", "settle": 80}
    assert stored == {"check": "workers_survived", "params": params, "window": "f1"}
    assert Check.from_json(stored) == expectation


def test_defaults_are_not_stored():
    assert "settle" not in workers_survived(namespace="ns", cluster="c1").params


def test_wrong_parameters_are_refused_when_the_expectation_is_made():
    with pytest.raises(TypeError):
        workers_survived(namespace="ns", clutser="c1")
    with pytest.raises(TypeError):
        workers_survived("ns", "c1")


def test_a_check_that_raises_is_unknown_with_the_error(monkeypatch):
    def broken(history):
        raise KeyError("status")

    monkeypatch.setitem(base_module._registry, "broken", broken)
    finding = Check("broken", {}).judge(EMPTY)
    assert (finding.outcome, finding.reason) == ("unknown", "check broken raised KeyError: 'status'")


def test_a_check_of_another_release_is_unknown():
    finding = Check("not_here", {}).judge(EMPTY)
    assert finding.outcome == "unknown"
    assert "not_here" in finding.reason


@pytest.mark.parametrize("data", [{}, {"check": 1, "params": {}}, {"check": "x"}, {"check": "x", "params": []}])
def test_what_is_no_check_is_refused(data):
    with pytest.raises(UsageError):
        Check.from_json(data)


def test_a_check_may_be_of_one_injection_alone(story):
    story.head_loss()
    story.step("other-fault", "record", 117)
    story.step("other-fault", "apply", 118)
    story.pod(119, "w1", "uid-w1", "worker", restarts=1, exit_code=1)
    whole = workers_survived(namespace="ns", cluster="c1")
    assert whole.judge(story.view()).outcome == "broken"
    assert whole.during("delete-pod").judge(story.view()).outcome == "holds"
    assert whole.during("no-such-fault").judge(story.view()).outcome == "unknown"
