"""One experiment several times in one run: what each of them is called.

A repetition is to the history, to the lab's namespaces and to the judge what any other experiment is: it has a name of its
own, ``name#2``, and so it is alone in its namespaces, whatever runs beside it, and is judged by itself. Verdicts bring them
together again (`chaos.rates`). An experiment that runs once has no number.
"""

from __future__ import annotations


def named(experiment: str, repetition: int | None) -> str:
    """The name under which a repetition begins. No experiment's own name has a ``#`` in front of its last digits."""
    return experiment if repetition is None else f"{experiment}#{repetition}"


def parts(name: str) -> tuple[str, int | None]:
    """The inverse of `named`: the experiment, and which repetition of it."""
    experiment, mark, number = name.rpartition("#")
    return (experiment, int(number)) if mark and number.isdecimal() else (name, None)


def in_words(name: str) -> str:
    """For a reader: ``name, repetition 2``."""
    experiment, repetition = parts(name)
    return experiment if repetition is None else f"{experiment}, repetition {repetition}"
