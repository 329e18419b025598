"""However a server mixes lists, watches, repeats, errors and broken connections, the recorder tells the same story.

The server is made up by hypothesis: a world of events, and for every watch how far the world has got, how much of it is
told, what is told twice and how the watch ends. The recorder is the real one, on real connections.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.history.recorder import Pace, Recorder, Watch
from chaos.history.store import HistoryWriter

PODS = Watch("pods", "api/v1")
PATH = PODS.path
PACE = Pace(connect=0.5, watch=1, slack=1, first_pause=0.001, longest_pause=0.005)
END = 1000  # the version of the object that closes every story

Event = tuple[str, dict[str, Any]]


def state(uid: str, rv: int) -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "name": "same", "namespace": "ray", "resourceVersion": str(rv)},
        "status": {"n": rv},
    }


def version(event: Event) -> int:
    return int(event[1]["metadata"]["resourceVersion"])


@st.composite
def worlds(draw: st.DrawFn) -> list[Event]:
    """What really happened, versions rising; each UID is born once and may die once."""
    events: list[Event] = []
    alive: set[str] = set()
    dead: set[str] = set()
    for rv in range(1, draw(st.integers(1, 12)) + 1):
        uid = draw(st.sampled_from([uid for uid in "abcd" if uid not in dead] or ["e"]))
        if uid not in alive:
            alive.add(uid)
            events.append(("ADDED", state(uid, rv)))
        elif uid != "e" and draw(st.booleans()):
            alive.discard(uid)
            dead.add(uid)
            events.append(("DELETED", state(uid, rv)))
        else:
            events.append(("MODIFIED", state(uid, rv)))
    return events


LOSE = ("HTTP 410", "ERROR 410", "garbage")
KEEP = ("end", "cut", "torn", "HTTP 429", "HTTP 500", "ERROR 500", "bookmark")


@dataclass(frozen=True)
class Step:
    """One watch: so many events happen before it, so many are told, the latest so often, and so it ends."""

    happens: int
    told: int
    repeats: int
    ending: str


steps = st.builds(Step, st.integers(0, 5), st.integers(0, 6), st.integers(0, 2), st.sampled_from(LOSE + KEEP))


class World:
    """The server's side of one example."""

    def __init__(self, events: list[Event], begin: int, plan: list[Step]) -> None:
        self.events, self.now, self.plan = events, begin, list(plan)
        self.relisted = -1  # the version of the latest list but the first
        self.lists = 0

    def list(self, exchange: Any) -> None:
        live: dict[str, dict[str, Any]] = {}
        for kind, obj in self.events[: self.now]:
            live.pop(obj["metadata"]["uid"], None)
            if kind != "DELETED":
                live[obj["metadata"]["uid"]] = obj
        self.lists += 1
        if self.lists > 1:
            self.relisted = self.now
        exchange.json({"metadata": {"resourceVersion": str(self.now)}, "items": list(live.values())})

    def watch(self, exchange: Any) -> None:
        step = self.plan.pop(0) if self.plan else Step(len(self.events), len(self.events), 0, "over")
        self.now = min(len(self.events), self.now + step.happens)
        if step.ending.startswith("HTTP"):
            exchange.json({}, status=int(step.ending.removeprefix("HTTP ")))
            return
        since = int(exchange.query["resourceVersion"])
        news = [event for event in self.events[: self.now] if version(event) > since]
        exchange.begin()
        told = news[: step.told]
        for event in told + told[-step.repeats :] * (step.repeats > 0):
            exchange.event(*event)
        self._end(exchange, step.ending, str(version(told[-1]) if told else since))

    def _end(self, exchange: Any, ending: str, at: str) -> None:
        if ending == "over":
            exchange.event("ADDED", state("over", END))
            exchange.hold()
        elif ending == "torn":
            exchange.send(json.dumps({"type": "ADDED", "object": state("torn", 999)}).encode()[:-9])
            exchange.cut()
        elif ending == "cut":
            exchange.cut()
        else:
            if ending.startswith("ERROR"):
                code = int(ending.removeprefix("ERROR "))
                exchange.event("ERROR", {"code": code, "reason": "x", "message": "y"})
            elif ending == "garbage":
                exchange.send(b"{garbage}\n")
            elif ending == "bookmark":
                exchange.event("BOOKMARK", {"metadata": {"resourceVersion": at}})
            exchange.end()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(events=worlds(), begin=st.integers(0, 12), plan=st.lists(steps, max_size=6))
def test_any_interleaving_of_lists_and_watches_gives_the_same_history(api, tmp_path_factory, events, begin, plan):
    world = World(events, min(begin, len(events)), plan)
    first = world.now

    def again(script: Any, answer: Any) -> Any:
        def one(exchange: Any) -> None:
            script[PATH].append(one)
            answer(exchange)

        return one

    api.script(PATH, again(api.watches, world.watch), lists=(again(api.lists, world.list),))
    writer = HistoryWriter(tmp_path_factory.mktemp("run") / "history.jsonl")
    recorder = Recorder(api.client, writer, [PODS], pace=PACE)
    try:
        recorder.start(deadline=10)
        writer.wait_for(lambda e: e.get("uid") == "over", deadline=20, what="the end of the story")
    finally:
        recorder.stop()
        writer.close()

    entries = [e for e in writer.entries() if e["what"] == "object" and e["uid"] != "over"]
    gaps = [e for e in writer.entries() if e["what"] == "gap"]
    told = [(e["change"], int(e["rv"])) for e in entries if not e["listed"]]
    happened = [(kind, version((kind, obj))) for kind, obj in events]

    # What is told by watches happened, in that order, and each once.
    assert told == sorted(set(told), key=lambda pair: pair[1])
    assert set(told) <= set(happened)
    # What happened after the first list is missing only where a later list went past it, and then there is a gap.
    missing = {rv for _, rv in happened[first:]} - {rv for _, rv in told}
    assert all(rv <= world.relisted for rv in missing)
    assert bool(gaps) == (world.lists > 1)
    if not gaps:
        assert told == happened[first:]

    lives: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        lives.setdefault(entry["uid"], []).append(entry)
    for life in lives.values():
        changes = [entry["change"] for entry in life]
        assert changes[0] == "ADDED"
        assert changes.count("ADDED") == 1
        assert "DELETED" not in changes[:-1]
        versions = [int(entry["rv"]) for entry in life if not (entry["listed"] and entry["change"] == "DELETED")]
        assert versions == sorted(set(versions))
    # The end is what really is.
    alive: dict[str, dict[str, Any]] = {}
    for kind, obj in events:
        alive.pop(obj["metadata"]["uid"], None)
        if kind != "DELETED":
            alive[obj["metadata"]["uid"]] = obj["status"]
    assert {
        uid: life[-1]["object"]["status"] for uid, life in lives.items() if life[-1]["change"] != "DELETED"
    } == alive
