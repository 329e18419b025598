"""Shards: together all, none in two of them, always the same, and of about equal length."""

import random

from hypothesis import given
from hypothesis import strategies as st

from chaos.catalogue import declarations
from chaos.shards import Shard, divide

SECONDS = st.dictionaries(st.text(max_size=5), st.integers(1, 1000), max_size=40)


@given(SECONDS, st.integers(1, 12))
def test_together_they_are_everything_and_nothing_is_in_two(seconds, count):
    parts = divide(seconds, count)
    assert len(parts) == count
    assert sorted(name for part in parts for name in part) == sorted(seconds)


@given(SECONDS, st.integers(1, 12), st.randoms(use_true_random=False))
def test_the_order_in_which_they_come_does_not_matter(seconds, count, chance: random.Random):
    shuffled = list(seconds.items())
    chance.shuffle(shuffled)
    assert divide(dict(shuffled), count) == divide(seconds, count)


@given(SECONDS, st.integers(1, 12))
def test_no_part_is_longer_than_another_by_more_than_one_experiment(seconds, count):
    loads = [sum(seconds[name] for name in part) for part in divide(seconds, count)]
    assert max(loads) - min(loads) <= max(seconds.values(), default=0)


def test_the_experiments_that_there_are_divide_well():
    seconds = {name: declared.seconds for name, declared, _ in declarations()}
    for count in (2, 3, 4):
        loads = [sum(seconds[name] for name in part) for part in divide(seconds, count)]
        assert max(loads) < 1.2 * sum(seconds.values()) / count


def test_a_shard_is_told_as_it_is_asked_for():
    assert str(Shard(2, 3)) == "2/3"
