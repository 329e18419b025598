from __future__ import annotations

import pytest

from chaos.checks import head_crash_loops

CHECK = head_crash_loops(namespace="ns", cluster="c1")


@pytest.fixture
def loop(story):
    story.phase("begin", 5, claims=[["FT-14", "password"]])
    story.pod(6, "h1", "uid-h1", "head", "ADDED", ready=False, container=None)
    for restarts, t in enumerate((10, 30, 60)):
        story.pod(t, "h1", "uid-h1", "head", ready=False, restarts=restarts, exit_code=1 if restarts else None)
    story.end(70)
    return story


def test_a_head_that_ends_again_and_again(loop):
    finding = CHECK.judge(loop.view())
    assert finding.outcome == "holds"
    assert finding.reason == "head h1 was restarted 2 times, exit code 1, never Ready"


def test_a_head_that_gets_ready_once_is_no_loop(loop):
    loop.pod(65, "h1", "uid-h1", "head", restarts=2, exit_code=1)
    assert CHECK.judge(loop.view()).outcome == "broken"


def test_ends_without_an_error_are_another_matter(loop):
    loop.pod(65, "h1", "uid-h1", "head", ready=False, restarts=3, exit_code=0)
    assert CHECK.judge(loop.view()).outcome == "broken"


def test_one_restart_is_no_loop_yet(loop):
    loop.drop(lambda e: e["what"] == "object" and e["t"] > 40)
    assert CHECK.judge(loop.view()).outcome == "unknown"


def test_no_head(loop):
    loop.drop(lambda e: e["what"] == "object")
    assert CHECK.judge(loop.view()).outcome == "unknown"
