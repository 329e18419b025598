"""Logs of containers, streamed from their start, so that those of killed containers are kept.

One thread follows one *instance* of a container (a pod's UID, the container's name, its restart count) into one file,
``<namespace>_<pod>_<container>_<restart count>.log``. A second pod of the same name gets the first eight characters of
its UID appended to the stem, after a dot. Lines begin with the kubelet's time stamp and are otherwise the container's
own bytes, UTF-8 or not, less registered secrets.

Which instances there are, and when one is over, is learnt from the pods in the history. A stream that breaks is taken
up again after the last whole line received; but never by the name of a pod that is gone, since that name may be
another pod's by then. A log that could not be kept to its end says so in its last line; nothing reaches the recorder.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import BinaryIO
from urllib.parse import quote

import urllib3
from kubernetes.client import ApiClient

from chaos.history.entry import Entry, What
from chaos.history.redaction import Redactor
from chaos.history.store import HistoryWriter
from chaos.history.transport import Transport, abort, lines

MEBIBYTE = 1024 * 1024
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")


@dataclass(frozen=True)
class LogPace:
    """How long the streamer waits for what, in seconds."""

    connect: float = 3.0
    # A log may be silent for ever. Asking again costs little and finds half-open connections.
    silence: float = 60.0
    # After a stream ends, the pod's status says why within a second or two (the kubelet looks once a second). Asking
    # again earlier could reach the container's next instance.
    verdict: float = 3.0
    retry: float = 1.0
    after_end: float = 30.0  # for how long the rest of an ended container's log is asked for


@dataclass
class _Instance:
    """One run of one container, and how far its log was received."""

    namespace: str
    pod: str
    uid: str
    container: str
    restart: int
    ended: Event = field(default_factory=Event)
    behind: int = 0  # instances of the same container that came after it
    gone: bool = False  # with its pod
    response: urllib3.HTTPResponse | None = None
    stamp: bytes = b""  # the latest of the lines received
    at_stamp: int = 0  # lines received that carry it
    tail: bytes = b""  # received after the last newline

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod} {self.container}#{self.restart}"


class LogStreamer:
    """Follows containers into ``folder``, between `start` and `stop`.

    ``selects`` tells, of a namespace, whether its pods are followed; by default all are. ``limit`` is in bytes a file.
    Secrets are those of ``writer.redact``.
    """

    def __init__(
        self,
        api_client: ApiClient,
        writer: HistoryWriter,
        folder: Path,
        *,
        selects: Callable[[str], bool] = lambda namespace: True,
        limit: int = 20 * MEBIBYTE,
        pace: LogPace | None = None,
    ) -> None:
        self._transport = Transport(api_client)
        self._writer = writer
        self._folder = folder
        self._selects = selects
        self._limit = limit
        self._pace = pace or LogPace()
        self._stopping = Event()
        self._lock = Lock()
        self._runs: dict[str, dict[tuple[str, int], _Instance]] = {}  # by the pod's UID
        self._threads: dict[Thread, _Instance] = {}
        self._next = 0  # number of the first entry that start() has not seen
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Follow what runs, and what will run. Raises OSError when the folder can't be made."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock:  # keeps newer entries waiting while we catch up
            self._unsubscribe = self._writer.subscribe(self._see)
            past = self._writer.entries()
            self._next = len(past)
            for entry in {e["uid"]: e for e in past if self._concerns(e)}.values():
                if entry["change"] != "DELETED":
                    self._learn(entry)

    def stop(self, *, deadline: float = 2.0) -> None:
        """Stop following and close the files, within ``deadline`` seconds; idempotent."""
        self._unsubscribe()
        with self._lock:
            self._stopping.set()
            threads = dict(self._threads)
        for instance in threads.values():
            instance.ended.set()  # wakes a thread that waits to learn whether its container is over
            if response := instance.response:
                abort(response)
        ends = time.monotonic() + deadline
        for thread in threads:
            thread.join(max(0.0, ends - time.monotonic()))
        self._transport.close()

    def _concerns(self, entry: Entry) -> bool:
        return entry["what"] == What.OBJECT and entry["resource"] == "pods" and self._selects(entry["namespace"])

    def _see(self, entry: Entry) -> None:
        if self._concerns(entry):
            with self._lock:
                if entry["n"] >= self._next and not self._stopping.is_set():
                    self._learn(entry)

    def _learn(self, entry: Entry) -> None:
        """Begin to follow the instances that a pod's state shows for the first time; tell which are over."""
        if entry["change"] == "DELETED":
            for instance in self._runs.pop(entry["uid"], {}).values():
                instance.gone = True
                instance.ended.set()
            return
        runs = self._runs.setdefault(entry["uid"], {})
        status = entry["object"].get("status") or {}
        found: list[_Instance] = []
        for container in (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or []):
            name, restart, state = container["name"], container.get("restartCount", 0), container.get("state") or {}
            shown = [restart] if "running" in state or "terminated" in state else []
            if restart and "terminated" in (container.get("lastState") or {}):
                shown.append(restart - 1)  # if it was too short-lived to be seen running
            for number in shown:
                if (name, number) not in runs:
                    instance = _Instance(entry["namespace"], entry["name"], entry["uid"], name, number)
                    runs[name, number] = instance
                    found.append(instance)
            for instance in runs.values():
                if instance.container == name:
                    instance.behind = restart - instance.restart
                    if instance.behind > 0 or "terminated" in state:
                        instance.ended.set()
        for instance in found:
            self._follow(instance)

    def _follow(self, instance: _Instance) -> None:
        thread = Thread(target=self._run, args=(instance,), name=f"log-{instance}", daemon=True)
        self._threads = {other: its for other, its in self._threads.items() if other.is_alive()}
        self._threads[thread] = instance
        thread.start()

    def _run(self, instance: _Instance) -> None:
        try:
            with self._open(instance) as file:
                self._keep(instance, _Output(file, self._limit, self._writer.redact))
        except OSError as error:  # of the file: those of the stream are dealt with where they can be survived
            if not self._stopping.is_set():
                self._writer.write(What.NOTE, text=f"the log of {instance} was not kept: {error}")

    def _open(self, instance: _Instance) -> BinaryIO:
        stem = f"{instance.namespace}_{instance.pod}_{instance.container}_{instance.restart}"
        try:
            return (self._folder / f"{stem}.log").open("xb", buffering=0)
        except FileExistsError:
            return (self._folder / f"{stem}.{instance.uid[:8]}.log").open("xb", buffering=0)

    def _keep(self, instance: _Instance, output: _Output) -> None:
        """Receive until the log is complete, or can't be completed, or is as long as it may get."""
        trouble = ""
        give_up: float | None = None
        while not (instance.gone or instance.behind > 1 or self._stopping.is_set()):
            over = instance.ended.is_set()
            trouble = self._receive(instance, output)
            if output.full or (over and not trouble):
                break
            if not over:
                instance.ended.wait(self._pace.verdict)
                continue
            now = time.monotonic()
            give_up = give_up or now + self._pace.after_end
            if now > give_up:
                break
            self._stopping.wait(self._pace.retry)
        else:
            if instance.behind > 1:
                trouble = trouble or "two instances of the container came after it"
        output.write(instance.tail)
        if trouble and not self._stopping.is_set():
            output.remark(f"the end of this log may be missing: {trouble}")

    def _receive(self, instance: _Instance, output: _Output) -> str:
        """Append what the server has beyond what was received, and what comes, until the stream ends.

        Returns what went wrong, empty when the server ended the stream.
        """
        query = {"container": instance.container, "timestamps": "true", "follow": "true"}
        if instance.behind:
            query["previous"] = "true"
        if found := _STAMP.match(instance.stamp):
            query["sinceTime"] = (found[1] + found[3]).decode()
        path = f"/api/v1/namespaces/{quote(instance.namespace, safe='')}/pods/{quote(instance.pod, safe='')}/log"
        try:
            response = self._transport.get(path, query, connect=self._pace.connect, read=self._pace.silence)
        except urllib3.exceptions.HTTPError as error:
            return str(error)
        instance.response = response
        try:
            if self._stopping.is_set():  # stop() came while there was nothing to interrupt
                return ""
            if response.status != 200:
                return f"HTTP {response.status}"
            for line in _fresh(instance, lines(response, longest=self._limit), self._limit):
                output.write(line)
                if output.full:
                    break
            return ""
        except urllib3.exceptions.HTTPError as error:
            return str(error)
        finally:
            instance.response = None
            response.close()
            response.release_conn()


def _fresh(instance: _Instance, received: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """The lines that ``instance`` hasn't yet, noting how far it is with them.

    A stream that was taken up again begins in the second of the latest line received. Lines can share a stamp, so those
    that carry the latest are counted. A piece that is longer than ``limit`` is passed on as it is: it fills the file.
    """
    repeated, known = instance.at_stamp, _instant(instance.stamp)
    for line in received:
        instant = _instant(line)
        if known and instant and (instant < known or (instant == known and repeated > 0)):
            repeated -= instant == known
            continue
        known = None  # what follows is new: stamps of stdout and stderr may be out of order by a little
        instance.tail = b""
        if not line.endswith(b"\n") and len(line) <= limit:
            instance.tail = line
            return
        latest = _instant(instance.stamp)
        if instant and instant == latest:
            instance.at_stamp += 1
        elif instant and (latest is None or instant > latest):
            instance.stamp, instance.at_stamp = line[: line.index(b" ") + 1], 1
        yield line


def _instant(line: bytes) -> tuple[bytes, bytes] | None:
    """The line's stamp, comparable: seconds, and decimals less trailing zeros; None without a stamp."""
    found = _STAMP.match(line)
    return (found[1], found[2] or b"") if found else None


class _Output:
    """A file that takes ``limit`` bytes, then one last line that says that it was cut."""

    def __init__(self, file: BinaryIO, limit: int, redact: Redactor) -> None:
        self.full = False
        self._file = file
        self._room = limit
        self._redact = redact
        self._in_line = False

    def write(self, line: bytes) -> None:
        """Append a whole line, or the last piece of a log."""
        if self.full or not line:
            return
        line = self._redact.data(line, torn=not line.endswith(b"\n"))
        self._append(line[: self._room])
        if len(line) > self._room:
            self.full = True
            self.remark("this log was cut here: it reached the limit of a file")
        self._room -= len(line)

    def remark(self, text: str) -> None:
        """Append a line of our own."""
        self._append(b"\n" * self._in_line + f"[kuberay-chaos] {text}\n".encode())

    def _append(self, data: bytes) -> None:
        if data:
            self._in_line = not data.endswith(b"\n")
            self._file.write(data)
