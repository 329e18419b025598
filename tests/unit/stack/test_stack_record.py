"""When a stack that is up can be used again: it was made from the same inputs, whatever way they were asked for."""

from types import SimpleNamespace

import pytest

from chaos.settings import Settings, Source
from chaos.stack import stack
from chaos.stack.record import StackRecord

PROVIDED = SimpleNamespace(control_plane={}, images={"ray": "local/ray"}, provenance={"ray": "built"})
ENGINE = SimpleNamespace(image_id=lambda reference: f"sha256:{reference}")


def record(source=Source.AUTO, chosen="build", **inputs):
    settings = Settings(source=source, **inputs)
    return stack._record(settings, ENGINE, SimpleNamespace(name=chosen), PROVIDED, "node:1")


def test_a_source_that_was_asked_for_makes_the_same_stack_as_one_that_was_chosen():
    assert record(Source.BUILD).differs_from(record(Source.AUTO)) == []


def test_where_an_image_was_taken_from_makes_no_other_stack(tmp_path):
    made = record()
    made.save(tmp_path / "stack.json")
    found = StackRecord.load(tmp_path / "stack.json")
    found.provenance["ray"] = "fetched"
    assert found.differs_from(made) == []


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (record(open_egress=True), ["options", "sealed"]),
        (record(chosen="registry"), ["options", "source"]),
    ],
    ids=["egress", "source"],
)
def test_what_differs_is_named(other, told):
    assert record().differs_from(other) == told
