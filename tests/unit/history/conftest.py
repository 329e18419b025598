"""A fake API server that misbehaves on purpose, and the writer and client that the tests share."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from kubernetes.client import ApiClient, Configuration

from chaos.history.store import HistoryWriter

Answer = Callable[["Exchange"], None]


class Exchange:
    """One request, and the means to answer it well or badly."""

    def __init__(self, handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
        self._handler = handler
        self.closing = closing
        url = urlsplit(handler.path)
        self.path = url.path
        self.query = dict(parse_qsl(url.query))

    def json(self, body: Any, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self._handler.send_response(status)
        self._handler.send_header("Content-Length", str(len(data)))
        self._handler.end_headers()
        self._handler.wfile.write(data)

    def begin(self) -> None:
        self._handler.send_response(200)
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()

    def send(self, data: bytes) -> None:
        self._handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def event(self, kind: str, obj: Any) -> None:
        self.send(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    def end(self) -> None:
        self._handler.wfile.write(b"0\r\n\r\n")

    def hold(self) -> None:
        """Say nothing more, as on a half-open connection, until the client is gone or the test is over."""
        connection = self._handler.connection
        connection.settimeout(0.05)
        while not self.closing.is_set():
            try:
                if not connection.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.cut()

    def cut(self) -> None:
        """Break the connection."""
        self._handler.close_connection = True
        with contextlib.suppress(OSError):
            self._handler.connection.shutdown(socket.SHUT_RDWR)


class FakeApi:
    """Answers each path from a script; when that has run out, lists ``objects`` and holds watches open."""

    def __init__(self) -> None:
        self.lists: dict[str, deque[Answer]] = {}
        self.watches: dict[str, deque[Answer]] = {}
        self.objects: dict[str, list[dict[str, Any]]] = {}
        self.version = "100"
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.closing = threading.Event()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                exchange = Exchange(self, api.closing)
                api.requests.append((exchange.path, exchange.query))
                api._answer(exchange)

            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):  # the client left: that is what some tests are about
                    super().handle()

            def log_message(self, *args: Any) -> None:
                pass

        self._handler = Handler
        self._port = 0
        self.arrive()

    def arrive(self) -> None:
        """Listen, on the same port each time."""
        self.closing.clear()
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), self._handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def _answer(self, exchange: Exchange) -> None:
        follows = "watch" in exchange.query or exchange.path.endswith("/log")
        script = (self.watches if follows else self.lists).get(exchange.path)
        if script:
            script.popleft()(exchange)
        elif follows:
            exchange.begin()
            exchange.hold()
        else:
            exchange.json(self.list(exchange.path))

    def list(self, path: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": self.version}, "items": self.objects.get(path, [])}

    def script(self, path: str, *watches: Answer, lists: tuple[Answer, ...] = ()) -> None:
        self.watches[path] = deque(watches)
        self.lists[path] = deque(lists)

    def queries(self, path: str, *, watch: bool) -> list[dict[str, str]]:
        return [query for where, query in list(self.requests) if where == path and ("watch" in query) == watch]

    @property
    def client(self) -> ApiClient:
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{self._port}"
        return ApiClient(configuration)

    def leave(self) -> None:
        """Cut what is open, and refuse connections from now on."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def api() -> Iterator[FakeApi]:
    server = FakeApi()
    yield server
    server.leave()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[HistoryWriter]:
    history = HistoryWriter(tmp_path / "history.jsonl")
    yield history
    history.close()


@pytest.fixture
def pod() -> Callable[..., dict[str, Any]]:
    def make(uid: str, rv: int, name: str = "head", **status: Any) -> dict[str, Any]:
        return {
            "metadata": {"uid": uid, "name": name, "namespace": "ray", "resourceVersion": str(rv)},
            "spec": {"nodeName": "worker"},
            "status": status,
        }

    return make
