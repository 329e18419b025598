"""What repetitions are called: in the history, and as namespaces, which no two of them share."""

import functools

import pytest

from chaos.rehearsal import rehearse
from chaos.repetition import in_words, named, parts
from chaos.settings import Settings
from chaos.stack.ours import namespace_name, namespaces_begin
from tests.unit.test_rehearsal import EXPERIMENTS, RUNS


@pytest.mark.parametrize(
    ("name", "found"),
    [("it", ("it", None)), ("it#2", ("it", 2)), ("it[a]#12", ("it[a]", 12)), ("it[#1]", ("it[#1]", None))],
)
def test_a_name_tells_the_experiment_and_the_repetition(name, found):
    assert parts(name) == found
    assert named(*found) == name


def test_a_repetition_in_words():
    assert [in_words("it"), in_words("it#2")] == ["it", "it, repetition 2"]


def test_repetitions_arms_and_experiments_have_namespaces_of_their_own():
    names = [
        namespace_name(*each) for each in (("it", "a"), ("it#1", "a"), ("it#11", "a"), ("it[x]#1", "a"), ("it#1", "b"))
    ]
    assert names == ["chaos-it-a", "chaos-it-1-a", "chaos-it-11-a", "chaos-it-x-1-a", "chaos-it-1-b"]
    assert names[1].startswith(namespaces_begin("it#1"))
    assert not names[2].startswith(namespaces_begin("it#1"))


def test_a_name_that_is_too_long_for_a_namespace_keeps_its_beginning_and_stays_its_own():
    long = "deleted_cluster_whose_name_begins_the_others#100"
    one, other = namespace_name(long, "a-very-long-arm-1"), namespace_name(long, "a-very-long-arm-2")
    assert one != other
    for name in (one, other):
        assert len(name) == 63
        assert name.startswith(namespaces_begin(long))


@pytest.mark.parametrize("repetition", [None, 999])
def test_no_two_arms_of_any_experiment_have_one_namespace(repetition):
    """As each experiment itself asks for them."""
    made: list[str] = []

    def say(line: str) -> None:
        if "create namespace " in line:
            made.append(line.rpartition(" ")[2])

    for name, more in RUNS:
        declared, function = EXPERIMENTS[name]
        shown = f"{name}[{'-'.join(map(str, more.values()))}]" if more else name
        rehearse(named(shown, repetition), declared, functools.partial(function, **more), Settings(), say)
    assert len(made) > len(RUNS)
    assert len(set(made)) == len(made)
    assert max(map(len, made)) <= 63
