"""Where the harness is killed: the points between any two steps of an injection, and the orders for the process that dies.

::

    read ▸ (before record) ▸ record ▸ apply begins ▸ apply call 1 … ▸ apply ▸ prove ▸ hold
         ▸ undo begins ▸ undo call 1 … ▸ undo ▸ undo noted ▸ verify

`X call N` is right after the N-th call to the cluster within that step, or at the step's end when it has fewer.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

from chaos.faults.base import Fault

CALLS = 4  # the most that a step of a fault makes, with one to spare
BEFORE_RECORD, TORN_RECORD = "before record", "torn record"

_NOTHING_DONE = (BEFORE_RECORD,)
_APPLYING = ("apply begins", *(f"apply call {n}" for n in range(1, CALLS + 1)))
IN_FORCE = ("apply", "prove", "hold")
_UNDOING = ("undo begins", *(f"undo call {n}" for n in range(1, CALLS + 1)), "undo")
_UNDONE = ("undo noted", "verify")

# In the log, and nobody has noted that it was undone: whoever heals must find something to do.
PENDING = ("record", *_APPLYING, *IN_FORCE, *_UNDOING)


def points(*, undone: bool) -> tuple[str, ...]:
    """All points of a fault; one that the stack's controllers repair has no steps of undoing, and nothing in the log."""
    torn, undoing = ((TORN_RECORD,), (*_UNDOING, *_UNDONE)) if undone else ((), ())
    return (*_NOTHING_DONE, *torn, "record", *_APPLYING, *IN_FORCE, *undoing)


@dataclass(frozen=True)
class Orders:
    """What the process that dies is told."""

    fault: Fault
    point: str
    stack: str
    kubeconfig: Path
    kubectl: str
    folder: Path  # for its undo log, its history and the marker

    @property
    def undo_log(self) -> Path:
        return self.folder / "undo.jsonl"

    @property
    def marker(self) -> Path:
        """Written at the point, just before the end."""
        return self.folder / "died-at"

    def save(self) -> Path:
        path = self.folder / "orders"
        path.write_bytes(pickle.dumps(self))
        return path

    @classmethod
    def load(cls, path: Path) -> Orders:
        found = pickle.loads(path.read_bytes())
        assert isinstance(found, cls)
        return found
