"""The API server's audit log, followed as it grows: who asked for what, when, and what the answer was.

The log is a file of JSON lines on this machine that the server appends to and now and then renames, starting a new one.
Its stamps are the server's, so how soon a line is read here doesn't matter to what it says; the file is looked at a few
times a second. What it held before `AuditTail.start` belongs to earlier runs and isn't read.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any, BinaryIO

from chaos.errors import StackError
from chaos.history.entry import What
from chaos.history.objects import epoch
from chaos.history.store import HistoryWriter

Keep = Callable[[dict[str, Any]], bool]

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_OPERATOR = ":kuberay-operator"
# The pod that a service account's token was made for: two pods of one account are told apart by it.
_POD = "authentication.kubernetes.io/pod-name"
_CHUNK = 1 << 20


def keep_writes(event: dict[str, Any]) -> bool:
    """Writes of what the claims are about (pods, services, Jobs, all of ray.io), and what the operator was refused."""
    user = (event.get("user") or {}).get("username", "")
    if user.startswith("system:serviceaccount:") and user.endswith(_OPERATOR) and _code(event) >= 400:
        return True
    ref = event.get("objectRef") or {}
    group, resource = ref.get("apiGroup", ""), ref.get("resource", "")
    about = group == "ray.io" or (group, resource) in {("batch", "jobs"), ("", "pods"), ("", "services")}
    return about and event.get("verb") in _WRITES


class AuditTail:
    """Writes an entry for every answered request of the log at ``path`` that ``keep`` accepts, from `start` to `stop`.

    The file need not exist yet. ``keep`` gets the audit event as the server wrote it.
    """

    def __init__(self, path: Path, writer: HistoryWriter, keep: Keep = keep_writes, *, every: float = 0.2) -> None:
        self._path = path
        self._writer = writer
        self._keep = keep
        self._every = every
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="audit", daemon=True)
        self._file: BinaryIO | None = None
        self._rest = b""  # of a line that isn't complete yet

    def start(self) -> None:
        """Begin after what is in the file now. Raises StackError when the file is there and can't be read."""
        try:
            self._open()
        except OSError as error:
            raise StackError(f"audit log {self._path} could not be read: {error.strerror}") from error
        if self._file:
            self._file.seek(0, 2)
        self._thread.start()

    def stop(self) -> None:
        """Read what is there by now, then stop; idempotent."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            last = False
            while not last:
                last = self._stopping.wait(self._every)  # one more round once stopped: what the run caused is there now
                self._round()
        except OSError as error:
            self._writer.write(What.NOTE, text=f"the audit log {self._path.name} can't be read any more: {error}")
        finally:
            if self._file:
                self._file.close()

    def _round(self) -> None:
        renamed = self._was_replaced()  # asked for first: then the old file's end, read next, really is its end
        self._read()
        if renamed:
            self._open()
            self._read()

    def _was_replaced(self) -> bool:
        """Whether the name leads to another file than the open one, or to the same one cut short."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        if self._file is None:
            return True
        here = os.fstat(self._file.fileno())
        return not os.path.samestat(there, here) or there.st_size < self._file.tell()

    def _open(self) -> None:
        if self._file:
            self._file.close()
        self._file, self._rest = None, b""
        with contextlib.suppress(FileNotFoundError):  # between a rename and the new file
            self._file = self._path.open("rb", buffering=0)

    def _read(self) -> None:
        while self._file and (chunk := self._file.read(_CHUNK)):
            *complete, self._rest = (self._rest + chunk).split(b"\n")
            for line in complete:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            if event["stage"] != "ResponseComplete" or not self._keep(event):
                return
            fields = _fields(event)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._writer.write(What.NOTE, text=f"a line of the audit log can't be read: {error!r}")
            return
        self._writer.write(What.AUDIT, **fields)


def _code(event: dict[str, Any]) -> int:
    return int((event.get("responseStatus") or {}).get("code", 0))


def _fields(event: dict[str, Any]) -> dict[str, Any]:
    ref = event.get("objectRef") or {}
    resource = ref.get("resource", "")
    answered = (event.get("responseObject") or {}).get("metadata") or {}
    return {
        "verb": event["verb"],
        "resource": f"{resource}/{ref['subresource']}" if ref.get("subresource") else resource,
        "namespace": ref.get("namespace", ""),
        # A name that the server generated is only in its answer, if the audit policy keeps that.
        "name": ref.get("name") or answered.get("name", ""),
        "user": event["user"]["username"],
        "pod": next(iter((event["user"].get("extra") or {}).get(_POD, [])), ""),
        "code": _code(event),
        "requested": epoch(event["requestReceivedTimestamp"]),
        "answered": epoch(event["stageTimestamp"]),
        "id": event["auditID"],
    }
