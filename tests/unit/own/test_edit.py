"""A copy is changed, the original never is, and each change is listed by a path that people can follow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.own.edit import Change, Edit, brief, differences

GIVEN = {"a": {"b": 1}, "list": [{"name": "x", "value": "1"}, {"name": "y"}, 3]}


def changes(edit):
    return [(change.path, change.before, change.after) for change in edit.changes]


def test_what_is_put_in_or_taken_out_is_listed_and_the_original_stays():
    edit = Edit.of(GIVEN)
    edit.child("a").put("b", 2, "why")
    edit.child("a").put("b", 2, "why")  # is so already
    edit.child("a").drop("nothing", "why")
    edit.drop("a", "why")
    assert changes(edit) == [("a.b", "1", "2"), ("a", '{"b": 2}', "")]
    assert edit.node == {"list": GIVEN["list"]}
    assert GIVEN["a"] == {"b": 1}


def test_a_mapping_is_made_when_something_is_put_into_it_and_not_before():
    edit = Edit.of({"a": 7})
    deep = edit.child("new").child("below")
    edit.child("other").drop("x", "why")
    assert edit.node == {"a": 7}
    deep.put("x", 1, "why")
    edit.child("new").put("y", 2, "why")
    assert edit.node == {"a": 7, "new": {"below": {"x": 1}, "y": 2}}
    assert changes(edit) == [("new.below.x", "", "1"), ("new.y", "", "2")]


def test_items_are_named_and_keep_their_places():
    edit = Edit.of(GIVEN)
    first, second = edit.items("list")
    edit.place("list", {"name": "x", "value": "2"}, "why")
    edit.place("list", {"name": "x", "value": "2"}, "why")
    edit.place("list", {"name": "z"}, "why")
    edit.discard("list", second, "why")
    edit.place("fresh", {"name": "z"}, "why")
    assert edit.node["list"] == [{"name": "x", "value": "2"}, 3, {"name": "z"}]
    assert edit.node["fresh"] == [{"name": "z"}]
    assert [path for path, _, _ in changes(edit)] == ["list[x]", "list[z]", "list[y]", "fresh[z]"]
    assert first.path == "list[x]"


def test_of_several_items_by_one_name_one_is_left():
    edit = Edit.of({"env": [{"name": "a", "value": "1"}, {"name": "b"}, {"name": "a", "value": "2"}]})
    edit.place("env", {"name": "a", "value": "3"}, "why")
    assert edit.node["env"] == [{"name": "a", "value": "3"}, {"name": "b"}]


def test_what_is_not_always_so_is_listed_in_any_case():
    edit = Edit.of({"replicas": 2})
    edit.put("replicas", 2, "why", after="as asked")
    assert changes(edit) == [("replicas", "2", "as asked")]


@pytest.mark.parametrize(
    ("value", "text"),
    [("", '""'), ({"name": "a", "value": "1"}, "1"), ({"name": "a"}, '{"name": "a"}'), (True, "true"), ("a\nb", "a b"),
     ("x" * 70, "x" * 57 + "...")],
)  # fmt: skip
def test_values_are_told_on_one_line(value, text):
    assert brief(value) == text


def test_differences_are_told_field_by_field():
    after = {"a": {"b": 1, "c": None}, "list": [{"name": "y", "value": "2"}]}
    found = [(c.path, c.before, c.after) for c in differences({**GIVEN, "list": GIVEN["list"][:2]}, after)]
    assert found == [("a.c", "", "null"), ("list[x]", "1", ""), ("list[y].value", "", "2")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from("abc"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name"]), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_nothing_differs_from_itself(value):
    assert list(differences(value, value)) == []


@given(st.dictionaries(st.sampled_from("abc"), JSON, max_size=3), st.lists(st.tuples(st.sampled_from("abc"), JSON)))
def test_what_was_put_is_what_differs(before, puts):
    edit = Edit.of(before)
    for key, value in puts:
        edit.put(key, value, "why")
    listed = {change.path for change in edit.changes}
    assert {change.path[0] for change in differences(before, edit.node)} <= listed
    assert all(isinstance(change, Change) for change in edit.changes)
