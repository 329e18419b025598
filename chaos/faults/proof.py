"""Proofs that several faults share."""

from __future__ import annotations

from typing import Any

from chaos.errors import NoEffect, NotReached
from chaos.faults.base import Reach


def uid_gone(reach: Reach, uid: str, *, what: str, since: int, deadline: float) -> dict[str, Any]:
    """The watch must report the end of exactly this UID; raises NoEffect after ``deadline`` seconds."""
    try:
        entry = reach.writer.wait_for(
            lambda e: e["what"] == "object" and e.get("uid") == uid and e["change"] == "DELETED",
            deadline=deadline,
            what=f"the end of {what}",
            since=since,
        )
    except NotReached as late:
        raise NoEffect(str(late)) from late
    return {"gone": entry["t"], "entry": entry["n"]}
