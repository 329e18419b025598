"""Whatever mix of lists, watches, repeats and holes delivers a sequence of states, the lifetimes come out the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.history.known import Known

UIDS = ("a", "b", "c")


def state(uid: str, rv: int) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "name": "same", "resourceVersion": str(rv)}, "status": {"seen": rv}}


@st.composite
def worlds(draw: st.DrawFn) -> list[tuple[str, dict[str, Any]]]:
    """What really happened: (event type, object), versions rising; each UID is born once and may die once."""
    events = []
    alive: set[str] = set()
    dead: set[str] = set()
    for rv in range(1, draw(st.integers(1, 14)) + 1):
        uid = draw(st.sampled_from([uid for uid in UIDS if uid not in dead] or ["d"]))
        if uid not in alive:
            alive.add(uid)
            events.append(("ADDED", state(uid, rv)))
        elif uid != "d" and draw(st.booleans()):
            alive.discard(uid)
            dead.add(uid)
            events.append(("DELETED", state(uid, rv)))
        else:
            events.append(("MODIFIED", state(uid, rv)))
    return events


def listing(world: list[tuple[str, dict[str, Any]]], until: int) -> list[dict[str, Any]]:
    """What a consistent list says after the first ``until`` events."""
    live: dict[str, dict[str, Any]] = {}
    for kind, obj in world[:until]:
        uid = obj["metadata"]["uid"]
        if kind == "DELETED":
            live.pop(uid)
        else:
            live[uid] = obj
    return list(live.values())


@settings(max_examples=100, deadline=None)
@given(worlds(), st.data())
def test_any_interleaving_gives_the_same_final_lifetimes(world, data):
    known = Known()
    changes = []
    at = 0
    for _ in range(data.draw(st.integers(0, 4), label="watches")):
        changes += known.listed(listing(world, at))
        # A watch goes on from the list, may repeat what was already delivered, and may break anywhere.
        until = data.draw(st.integers(at, len(world)), label="the watch breaks after")
        for position in range(at, until):
            repeated = data.draw(st.integers(at, position), label="repeat from")
            for kind, obj in world[repeated : position + 1]:
                if change := known.watched(kind, obj):
                    changes.append(change)
        at = data.draw(st.integers(until, len(world)), label="the next list is at")
    changes += known.listed(listing(world, len(world)))

    lives: dict[str, list[Any]] = {}
    for change in changes:
        lives.setdefault(change.uid, []).append(change)
    really_alive = {obj["metadata"]["uid"]: obj for obj in listing(world, len(world))}
    assert {uid: life[-1].object for uid, life in lives.items() if life[-1].kind != "DELETED"} == really_alive
    for life in lives.values():
        kinds = [change.kind for change in life]
        assert kinds.count("ADDED") == 1
        assert kinds[0] == "ADDED"
        assert "DELETED" not in kinds[:-1]
        seen = [change.object["status"]["seen"] for change in life if not (change.listed and change.kind == "DELETED")]
        assert seen == sorted(set(seen))


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_an_unbroken_watch_loses_nothing(world):
    known = Known()
    assert [(c.kind, c.object) for kind, obj in world if (c := known.watched(kind, obj))] == world


def test_a_pod_replaced_under_its_name_in_a_gap_is_two_objects():
    known = Known()
    list(known.listed([state("old", 1)]))
    assert [(c.kind, c.uid, c.listed) for c in known.listed([state("new", 9)])] == [
        ("DELETED", "old", True),
        ("ADDED", "new", True),
    ]


def test_an_object_that_was_only_ever_seen_to_go_is_recorded():
    assert Known().watched("DELETED", state("a", 1)).kind == "DELETED"


def test_versions_that_are_not_numbers_are_told_apart():
    known = Known()
    first, second = state("a", 1), state("a", 1)
    first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"] = "x", "y"
    assert known.watched("ADDED", first).kind == "ADDED"
    assert known.watched("MODIFIED", first) is None
    assert known.watched("MODIFIED", second).kind == "MODIFIED"


def test_states_share_what_did_not_change():
    known = Known()
    first = {**state("a", 1), "spec": {"containers": [{"name": "ray"}]}}
    second = {**state("a", 2), "spec": {"containers": [{"name": "ray"}]}}
    known.watched("ADDED", first)
    assert known.watched("MODIFIED", second).object["spec"] is first["spec"]
