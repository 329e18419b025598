"""What the recorder knows of one resource, and what a delivery adds to it. No I/O.

An object is known by its UID, never by its name: a pod that was replaced under its name is two objects. Deliveries come
from lists and watches, repeat after a reconnect and leave holes; each is turned into the changes that it really brings:

* a state is news when its resourceVersion is newer than the one known for that UID;
* a UID that is missing from a list is deleted, and stays so: the server never uses a UID again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chaos.history.objects import Object, share


@dataclass(frozen=True)
class Change:
    """One state of one object, as the history records it; ``kind`` is ADDED, MODIFIED or DELETED."""

    kind: str
    uid: str
    listed: bool
    object: Object


class Known:
    """The live objects of one resource, and the UIDs that are gone."""

    def __init__(self) -> None:
        self._live: dict[str, Object] = {}
        self._gone: set[str] = set()

    def listed(self, items: Iterable[Object]) -> Iterator[Change]:
        """What a complete, consistent list brings: deletions first, so that a replaced object is seen to go."""
        found = {item["metadata"]["uid"]: item for item in items}
        for uid in [uid for uid in self._live if uid not in found]:
            yield self._delete(uid, self._live[uid], listed=True)
        for uid, item in found.items():
            if change := self._state(uid, item, listed=True):
                yield change

    def watched(self, kind: str, item: Object) -> Change | None:
        """What one watch event brings; None when it is nothing new. Raises KeyError when it isn't an object."""
        uid: str = item["metadata"]["uid"]
        if kind != "DELETED":
            return self._state(uid, item, listed=False)
        return None if uid in self._gone else self._delete(uid, item, listed=False)

    def _state(self, uid: str, item: Object, *, listed: bool) -> Change | None:
        last = self._live.get(uid)
        if uid in self._gone or (last is not None and not _newer(item, last)):
            return None
        self._live[uid] = item if last is None else share(item, last)
        return Change("ADDED" if last is None else "MODIFIED", uid, listed, self._live[uid])

    def _delete(self, uid: str, item: Object, *, listed: bool) -> Change:
        last = self._live.pop(uid, None)
        self._gone.add(uid)
        return Change("DELETED", uid, listed, item if last is None else share(item, last))


def _newer(item: Object, than: Object) -> bool:
    """Of two states of one object. Versions that aren't numbers can only be told apart, not ordered."""
    new, old = item["metadata"]["resourceVersion"], than["metadata"]["resourceVersion"]
    if new.isdecimal() and old.isdecimal():
        return int(new) > int(old)
    return bool(new != old)
