"""One entry of the history, and the vocabulary that every writer and reader of it shares.

A history is JSON lines (``history.jsonl``), one entry a line, in the order in which the recorder received them. Every
entry has ``n`` (its number, from 0), ``t`` (seconds since the run began, monotonic clock), ``wall`` (seconds since the
epoch), ``what`` (one of `What`) and ``experiment`` (the pytest function's name, with ``#N`` for its Nth repetition, or
null outside of one). The rest depends on ``what``:

======== ==============================================================================================================
what     further keys
======== ==============================================================================================================
object   ``change`` (ADDED, MODIFIED or DELETED), ``resource`` (plural: pods, services, jobs, events, rayclusters,
         rayjobs, leases …), ``uid``, ``namespace``, ``name``, ``rv`` (resourceVersion), ``listed`` (true when it came from a
         list and not from a watch: its time is then an upper bound), ``object`` (the object as the server sent it,
         less managedFields and last-applied annotations; DELETED carries the last state)
gap      ``resource``, ``since`` (t of the last thing known before it), ``until`` (t of the re-list), ``reason``
fault    ``fault`` (its name), ``id`` (one an injection), ``step`` (record, apply, effect, no-effect, hold, undo,
         undone), ``detail`` (dict; for effect: what was seen, for hold: ``seconds``)
probe    ``probe`` (its name), ``target`` (dict of names), ``ok``, ``took`` (seconds; the entry's t is its end),
         ``value`` (dict), ``error``
phase    ``phase`` (begin, steady, settled, end, error), ``detail`` (dict)
expect   ``claim``, ``arm``, ``checks`` (list of {check, params}), ``control`` (null, or {arm, checks})
audit    ``verb``, ``resource`` (with /subresource), ``namespace``, ``name``, ``user``, ``pod`` (that it runs in,
         or empty), ``code``, ``requested`` and ``answered`` (epoch seconds, the API server's clock), ``id``
note     ``text``: anything a reader of the timeline should know
======== ==============================================================================================================
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

Entry = dict[str, Any]


class What(StrEnum):
    """Kinds of entry."""

    OBJECT = "object"
    GAP = "gap"
    FAULT = "fault"
    PROBE = "probe"
    PHASE = "phase"
    EXPECT = "expect"
    AUDIT = "audit"
    NOTE = "note"
