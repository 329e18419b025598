"""The recorder: what the API server says of the objects that matter, written to the history as it is said.

One thread a resource runs one loop: list once, then watch from the list's version. The watch is asked to end itself
every few seconds (``timeoutSeconds``), and the next goes on from the last version seen, so nothing is missed between.

That short life is what gives silence a meaning. A watch on a quiet resource says nothing for minutes, bookmarks come
about once a minute, and a half-open connection says nothing for ever; but a server that is there ends its watch in
time, so one that was silent for ``Pace.watch + Pace.slack`` seconds is stalled or gone. The read time-out is just that
sum, and it costs one small request every few seconds.

What goes wrong, and what becomes of it:

=============================== =====================================================================================
connection cut, refused, silent reconnect from the last version, backing off; nothing is missed if the server takes it
out of reach for too long       as before, and a gap: the entries that follow come later than what they tell of
410 Gone, unreadable event      list again; a gap; what vanished is DELETED, what is new ADDED, both ``listed``
404 (CRD not installed)         an empty list, asked for again every ``Pace.missing`` seconds
=============================== =====================================================================================
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any
from urllib.parse import quote

import urllib3
from kubernetes.client import ApiClient

from chaos.errors import NotReached, StackError
from chaos.history.entry import What
from chaos.history.known import Change, Known
from chaos.history.objects import Json, Object, trim
from chaos.history.store import HistoryWriter
from chaos.history.transport import Transport, abort, lines
from chaos.waiting import until

_GONE, _NOT_FOUND = 410, 404


@dataclass(frozen=True)
class Watch:
    """One resource to record: ``api`` is its path prefix; in all namespaces, unless ``namespace`` names one."""

    resource: str
    api: str
    namespace: str | None = None
    fields: str = ""  # a field selector

    @property
    def path(self) -> str:
        """The collection's path on the API server."""
        scope = f"namespaces/{quote(self.namespace, safe='')}/" if self.namespace else ""
        return f"/{self.api}/{scope}{self.resource}"


WATCHES = (
    Watch("pods", "api/v1"),
    Watch("services", "api/v1"),
    Watch("jobs", "apis/batch/v1"),
    Watch("events", "api/v1"),
    Watch("rayclusters", "apis/ray.io/v1"),
    Watch("rayjobs", "apis/ray.io/v1"),
    # Kubernetes renews its own leases every 2 to 10 s, and no claim is about them.
    Watch(
        "leases",
        "apis/coordination.k8s.io/v1",
        fields="metadata.namespace!=kube-system,metadata.namespace!=kube-node-lease",
    ),
)


@dataclass(frozen=True)
class Pace:
    """How long the recorder waits for what, in seconds."""

    connect: float = 3.0
    watch: int = 10  # the server ends each watch after that long; whole seconds, as the API wants
    slack: float = 5.0  # how late the end of a watch may come from a busy server
    first_pause: float = 0.1  # before the first reconnect; doubles
    longest_pause: float = 5.0
    missing: float = 1.0  # between two looks for a resource that isn't served

    @property
    def silence(self) -> float:
        """The longest time without a word from the server that isn't a stall."""
        return self.watch + self.slack


class Recorder:
    """Records ``watches`` into ``writer`` between `start` and `stop`."""

    def __init__(
        self,
        api_client: ApiClient,
        writer: HistoryWriter,
        watches: Iterable[Watch] = WATCHES,
        *,
        pace: Pace | None = None,
    ) -> None:
        self._stopping = Event()
        self._transport = Transport(api_client)
        self._watchers = [_Watcher(watch, self._transport, writer, pace or Pace(), self._stopping) for watch in watches]

    def start(self, *, deadline: float = 30.0) -> None:
        """Return when every resource has been listed once, within ``deadline`` seconds.

        Raises NotReached, naming the resource and the last trouble with it; the recorder is then stopped.
        """
        ends = time.monotonic() + deadline
        for watcher in self._watchers:
            watcher.thread.start()
        for watcher in self._watchers:
            if not watcher.complete.wait(max(0.0, ends - time.monotonic())):
                self.stop()
                trouble = watcher.trouble or "no answer"
                raise NotReached(f"{watcher.resource} could not be listed within {deadline:g} s: {trouble}")

    def catch_up(self, *, deadline: float = 60.0) -> None:
        """Return when no resource is out of reach, so that what is judged now is not judged without what comes late.

        One that isn't back within ``deadline`` seconds leaves a gap. Sooner once a signal has asked for the end.
        """
        try:
            until(
                lambda: not any(watcher.behind for watcher in self._watchers),
                what="the recorder has caught up", deadline=deadline, every=0.1,
            )  # fmt: skip
        except NotReached:
            for watcher in self._watchers:
                watcher.concede("not back yet")

    def stop(self, *, deadline: float = 2.0) -> None:
        """Stop recording; idempotent. Nothing is written after it returns, which it does within ``deadline`` seconds.

        A resource that was out of reach when it ended leaves a gap. Raises StackError when a watcher had failed by a
        fault of our own or because the history could not be written, since the record then ended early.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        ends = time.monotonic() + deadline
        for watcher in self._watchers:
            watcher.interrupt()
        for watcher in self._watchers:
            # A thread that still connects can't be interrupted. It ends by its own time-outs and writes nothing more.
            if watcher.thread.ident is not None:
                watcher.thread.join(max(0.0, ends - time.monotonic()))
        self._transport.close()
        for watcher in self._watchers:
            watcher.concede("not back when the recording ended")
        for watcher in self._watchers:
            if watcher.failed:
                raise StackError(f"the recording of {watcher.resource} failed: {watcher.failed}") from watcher.failed


class _Broken(Exception):
    """This watch is of no more use; the next can go on from the same version."""


class _Short(Exception):
    """The watch ended in order, but as soon as it began: the next must not follow in a hot loop."""


class _Lost(Exception):
    """The version can't be continued from: what happened since has to be found by a list."""


class _Watcher:
    """One resource's loop.

    ``complete`` is set once it was listed; ``trouble`` is why it was out of reach last, and ``behind`` whether the server has
    said nothing since then; ``failed`` is what ended the loop early.
    """

    def __init__(self, watch: Watch, transport: Transport, writer: HistoryWriter, pace: Pace, stopping: Event) -> None:
        self.resource = watch.resource
        self.complete = Event()
        self.trouble = ""
        self.behind = False
        self.failed: Exception | None = None
        self.thread = Thread(target=self._run, name=f"record-{watch.resource}", daemon=True)
        self._watch = watch
        self._transport = transport
        self._writer = writer
        self._pace = pace
        self._stopping = stopping
        self._known = Known()
        self._version: str | None = None  # None: to be listed
        self._lost = ""  # why it has to be listed again
        self._heard = 0.0  # the history's time at which the server last said something
        self._failures = 0  # in a row
        self._response: urllib3.HTTPResponse | None = None

    def interrupt(self) -> None:
        """Make a blocking read end."""
        if response := self._response:
            abort(response)

    def concede(self, why: str) -> None:
        """Write the gap that is still open."""
        if self.behind and self.complete.is_set():
            self._gap_if_late(f"{self.trouble}; {why}")

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        except Exception as error:  # kept for the main thread, which must learn that the record ended early
            self.failed = error

    def _turn(self) -> None:
        try:
            if self._version is None and not self._list():
                self._stopping.wait(self._pace.missing)
                return
            self._follow()
            self._failures = 0
        except _Lost as lost:
            self._version, self._lost = None, str(lost)
            self._back_off(str(lost))
        except _Short as short:
            self._back_off(str(short), behind=False)
        except (_Broken, urllib3.exceptions.HTTPError, OSError) as error:
            self._back_off(f"{type(error).__name__.lstrip('_')}: {error}")

    def _back_off(self, trouble: str, *, behind: bool = True) -> None:
        """Exponential, and jittered so that the threads don't return all at once to a server that just came up."""
        if self._stopping.is_set():  # the trouble is of our own making
            return
        self.trouble, self.behind = trouble, behind
        pause = min(self._pace.longest_pause, self._pace.first_pause * 2 ** min(self._failures, 16))
        self._failures += 1
        self._stopping.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311

    def _list(self) -> bool:
        """Bring the known objects up to date. False when the resource isn't served."""
        items: list[Object] = []
        query = {"limit": "500"}
        while True:
            page = self._page(query)
            items += page.get("items") or []
            if not (token := page["metadata"].get("continue")):
                break
            query["continue"] = token
        if self._lost:
            self._gap(self._lost)
            self._lost = ""
        elif self.complete.is_set():
            self._gap_if_late(self.trouble)
        self._heard = self._writer.now()
        # The lists of typed resources leave out what each item is; trim() goes by the resource.
        for change in self._known.listed(trim(self.resource, item) for item in items):
            self._record(change)
        self._version = page["metadata"].get("resourceVersion")
        self.trouble, self.behind = "", False
        self.complete.set()
        return self._version is not None

    def _page(self, query: dict[str, str]) -> dict[str, Any]:
        response = self._get(query)
        try:
            if response.status == _NOT_FOUND:
                return {"metadata": {}}  # not served, so there is nothing; and no version to watch from
            if response.status == _GONE:  # its pages are kept for some minutes only
                raise _Broken("410 Gone: the list expired before its last page")
            self._expect_ok(response)
            page = json.loads(response.data.decode("utf-8", "surrogateescape"))
            if not isinstance(page, dict) or not isinstance(page.get("metadata"), dict):
                raise _Broken("the list is not a list")
            return page
        except ValueError as error:
            raise _Broken(f"the list is not JSON: {error}") from error
        finally:
            self._release(response)

    def _follow(self) -> None:
        """One watch, until the server ends it."""
        assert self._version is not None
        response = self._get(
            {
                "watch": "true",
                "resourceVersion": self._version,
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(self._pace.watch),
            }
        )
        try:
            if response.status == _NOT_FOUND:
                raise _Lost("the resource is no longer served")
            self._expect_ok(response)
            self._gap_if_late(self.trouble)
            opened = self._heard = self._writer.now()
            self.trouble = ""
            idle = True
            for event in self._events(response):
                idle = False
                self._heard = self._writer.now()
                self._apply(event)
                self._failures, self.behind = 0, False
            self._heard = self._writer.now()
            self.behind = False
            if idle and self._heard - opened < min(1.0, self._pace.watch / 2):
                raise _Short("the watch ended as soon as it began")
        finally:
            self._release(response)

    def _events(self, response: urllib3.HTTPResponse) -> Iterator[dict[str, Any]]:
        for line in lines(response):
            if self._stopping.is_set():
                return
            if not line.endswith(b"\n"):
                raise _Broken("the watch was cut within an event")
            try:
                event = json.loads(line.decode("utf-8", "surrogateescape"))
            except ValueError as error:
                raise _Lost(f"an event is not JSON: {error}") from error
            yield event

    def _apply(self, event: Json) -> None:
        try:
            kind, item = event["type"], event["object"]
            if kind == "ERROR":
                message = f"{item.get('code')} {item.get('reason', '')}: {item.get('message', '')}"
                raise _Lost(message) if item.get("code") == _GONE else _Broken(message)
            version = item["metadata"]["resourceVersion"]
            change = None if kind == "BOOKMARK" else self._known.watched(kind, trim(self.resource, item))
        except (KeyError, TypeError, AttributeError) as error:
            raise _Lost(f"an event is not an event: {error!r}") from error
        if change:
            self._record(change)
        self._version = version

    def _record(self, change: Change) -> None:
        if self._stopping.is_set():
            return
        metadata = change.object["metadata"]
        self._writer.write(
            What.OBJECT,
            change=change.kind,
            resource=self.resource,
            uid=change.uid,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            rv=metadata["resourceVersion"],
            listed=change.listed,
            object=change.object,
        )

    def _gap_if_late(self, reason: str) -> None:
        silent = self._writer.now() - self._heard
        if silent > self._pace.silence:
            self._gap(f"out of reach for {silent:.1f} s, what follows is told late: {reason}")

    def _gap(self, reason: str) -> None:
        self._writer.write(
            What.GAP,
            resource=self.resource,
            since=round(self._heard, 6),
            until=round(self._writer.now(), 6),
            reason=reason,
        )

    def _get(self, query: dict[str, str]) -> urllib3.HTTPResponse:
        if self._watch.fields:
            query = {**query, "fieldSelector": self._watch.fields}
        response = self._transport.get(self._watch.path, query, connect=self._pace.connect, read=self._pace.silence)
        self._response = response
        if self._stopping.is_set():  # interrupt() came while there was nothing to interrupt
            self._release(response)
            raise _Broken("stopped")
        return response

    def _release(self, response: urllib3.HTTPResponse) -> None:
        """Return a connection whose answer was read to its end; drop any other."""
        self._response = None
        if not response.isclosed():
            response.close()
        response.release_conn()

    def _expect_ok(self, response: urllib3.HTTPResponse) -> None:
        if response.status == _GONE:
            raise _Lost("410 Gone: the version is too old")
        if response.status != 200:
            raise _Broken(f"HTTP {response.status}")
