"""A session that was cut short goes on where it was, and only there."""

from pathlib import Path

import pytest

from tests.resume import digest

ROOT = Path(__file__).parents[2]

TESTS = """
import os
import pytest

def test_passes(): pass

def test_fails(): assert os.environ.get("MENDED")

@pytest.fixture
def torn_down():
    yield
    assert os.environ.get("MENDED")

def test_whose_tear_down_fails(torn_down): pass

def test_kills():
    if os.environ.get("KILLS"):
        os._exit(9)

def test_last(): pass
"""


@pytest.fixture
def session(pytester, monkeypatch):
    """A function that runs the tests above, in a process of their own if it is to be killed, and tells what became of them."""
    pytester.makepyfile(test_it=TESTS)
    monkeypatch.setenv("KUBERAY_CHAOS_STATE", str(pytester.path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(*options, **environment):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            start = pytester.runpytest_subprocess if "KILLS" in environment else pytester.runpytest_inprocess
            return start("-p", "tests.resume", "-p", "no:cacheprovider", *options)

    return run


def test_what_passed_before_a_kill_is_not_run_again_until_all_was(session):
    assert session(KILLS="1").ret == 9
    resumed = session(MENDED="1")
    resumed.assert_outcomes(passed=4, deselected=1)
    resumed.stdout.fnmatch_lines(["passed in an earlier part of this session: 1 tests *"])
    session(MENDED="1").assert_outcomes(passed=5)


def test_a_session_that_came_to_its_end_is_forgotten_though_it_failed(session):
    session().assert_outcomes(passed=4, failed=1, errors=1)
    session().assert_outcomes(passed=4, failed=1, errors=1)


def test_one_that_was_killed_when_all_had_passed_has_nothing_left_to_do_and_the_next_begins_anew(session, pytester):
    assert session("-k", "passes or kills", KILLS="1").ret == 9
    [remembered] = (pytester.path / "state" / "tests").iterdir()
    with remembered.open("a") as file:
        file.write("test_it.py::test_kills\n")
    session("-k", "passes or kills").assert_outcomes(deselected=5)
    session("-k", "passes or kills").assert_outcomes(passed=2, deselected=3)


def test_other_options_go_on_from_nothing(session):
    assert session(KILLS="1").ret == 9
    session("-v", MENDED="1").assert_outcomes(passed=5)


@pytest.mark.parametrize("changed", ["chaos/module.py", "manifests/new.yaml", "tests/test_it.py", "requirements.lock"])
def test_other_code_is_another_session(tmp_path, changed):
    for folder in ("chaos", "manifests", "tests"):
        (tmp_path / folder).mkdir()
    for name in ("requirements.lock", "pyproject.toml", "chaos/module.py", "tests/test_it.py"):
        (tmp_path / name).write_text("as it was")
    before = digest(tmp_path, ["--chaos-level=full"])
    (tmp_path / "chaos" / "__pycache__").mkdir()
    (tmp_path / "chaos" / "__pycache__" / "module.pyc").write_text("compiled")
    assert digest(tmp_path, ["--chaos-level=full"]) == before
    assert digest(tmp_path, ["--chaos-level=core"]) != before
    (tmp_path / changed).write_text("changed")
    assert digest(tmp_path, ["--chaos-level=full"]) != before
