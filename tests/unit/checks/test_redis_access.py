from __future__ import annotations

import pytest

from chaos.checks import redis_answers, redis_out_of_reach


def knock(story, t, answer=None, refusal=None, ok=True):
    value = {"reached": answer is not None, "answer": answer, "refusal": refusal} if ok else {}
    story.probe("redis-knock", t, ok, target={"name": "stranger"}, value=value)


@pytest.fixture
def judged(story):
    def judge(check, **parameters):
        story.phase("begin", 5, claims=[["FT-17", "no-password"]])
        story.end(20)
        return check(probe="stranger", **parameters).judge(story.view())

    return judge


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [("-NOAUTH Authentication required.", "holds"), ("+PONG", "broken"), ("-READONLY You can't write", "broken")],
)
def test_the_answer_decides(story, judged, answer, outcome):
    knock(story, 6, answer)
    assert judged(redis_answers, answer="NOAUTH").outcome == outcome


def test_a_knock_that_did_not_get_through_was_refused_by_something_else(story, judged):
    knock(story, 6, refusal="ECONNREFUSED")
    assert judged(redis_answers, answer="NOAUTH").outcome == "unknown"


@pytest.mark.parametrize("refusal", ["ECONNREFUSED", "ETIMEDOUT"])
def test_out_of_reach(story, judged, refusal):
    knock(story, 6, refusal=refusal)
    assert judged(redis_out_of_reach).outcome == "holds"


def test_one_connection_is_one_too_many(story, judged):
    knock(story, 6, refusal="ETIMEDOUT")
    knock(story, 7, "-NOAUTH Authentication required.")
    assert judged(redis_out_of_reach).outcome == "broken"


def test_a_failure_of_another_kind_is_no_refusal(story, judged):
    knock(story, 6, refusal="Name or service not known")
    assert judged(redis_out_of_reach).outcome == "unknown"


@pytest.mark.parametrize(("check", "more"), [(redis_out_of_reach, {}), (redis_answers, {"answer": "NOAUTH"})])
def test_without_a_result_nothing_is_known(story, judged, check, more):
    knock(story, 6, ok=False)
    assert judged(check, **more).outcome == "unknown"
