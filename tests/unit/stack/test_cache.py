"""The build cache: whole results or none, made once."""

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import ImageError
from chaos.paths import cache_dir
from chaos.stack.images import cache


def test_a_result_is_made_once_and_then_found():
    made = []

    def make(result, progress):
        made.append(result)
        result.write_text("content")

    first, second = (cache.cached("programs", "x-1", make) for _ in range(2))
    assert first == second == cache_dir() / "programs" / "x-1"
    assert first.read_text() == "content"
    assert len(made) == 1


@pytest.mark.parametrize("problem", [ImageError("did not compile"), KeyboardInterrupt()])
def test_a_builder_that_fails_leaves_nothing_that_looks_finished(problem):
    def fail(result, progress):
        result.mkdir()
        (result / "half").write_text("a part")
        raise problem

    with pytest.raises(type(problem)):
        cache.cached("programs", "x-1", fail)
    left = [path.name for path in (cache_dir() / "programs").iterdir() if not path.name.endswith(".lock")]
    assert left == []
    assert cache.cached("programs", "x-1", lambda result, progress: result.write_text("whole")).read_text() == "whole"


def test_a_step_is_shown_only_when_there_is_something_to_make():
    shown = []

    @contextmanager
    def show():
        shown.append("began")
        yield SimpleNamespace(say=shown.append)
        shown.append("ended")

    def make(result, progress):
        progress.say("compiling")
        result.touch()

    for _ in range(2):
        cache.cached("programs", "x-1", make, show=show)
    assert shown == ["began", "compiling", "ended"]


def test_a_result_may_be_a_folder():
    def make(result, progress):
        result.mkdir()
        (result / "part").write_text("x")

    assert (cache.cached("wheels", "ray", make) / "part").read_text() == "x"


def test_two_at_once_make_it_once():
    entered, go_on, made = threading.Event(), threading.Event(), []

    def make(result, progress):
        made.append(result)
        entered.set()
        go_on.wait(10)
        result.write_text("content")

    results = []
    threads = [threading.Thread(target=lambda: results.append(cache.cached("programs", "x-1", make))) for _ in "ab"]
    threads[0].start()
    entered.wait(10)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert results == [cache_dir() / "programs" / "x-1"] * 2
    assert len(made) == 1


def test_a_full_disk_is_told_with_what_to_do():
    def fail(result, progress):
        raise OSError(28, "No space left on device")

    with pytest.raises(ImageError, match="No space left on device") as failed:
        cache.cached("programs", "x-1", fail)
    assert "KUBERAY_CHAOS_CACHE" in failed.value.fix


def test_a_cache_that_cannot_be_made_is_told(monkeypatch):
    monkeypatch.setenv("KUBERAY_CHAOS_CACHE", "/proc/cache")
    with pytest.raises(ImageError, match="/proc/cache"):
        cache.cached("programs", "x-1", lambda result, progress: result.touch())


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_keys_are_equal_exactly_when_the_inputs_are(one, other):
    assert (cache.key(*one) == cache.key(*other)) == (one == other)


def test_the_order_in_a_dict_does_not_matter_to_its_key():
    assert cache.key({"a": 1, "b": 2}) == cache.key({"b": 2, "a": 1})
    assert cache.key("a", "b") != cache.key("b", "a")
