"""Runs in a Ray head's container: what the Redis at RAY_REDIS_ADDRESS says of itself, as one line of JSON.

It sends commands that read, and nothing else: AUTH, PING, INFO, CONFIG GET, CLUSTER INFO, SENTINEL MASTERS, SCAN. The standard
library alone, since nothing else is sure to be in the image.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
from typing import Any
from urllib.parse import urlsplit

SECONDS = 5.0
MOST_KEYS = 100_000  # more than a thousand clusters' worth; beyond it the counts are a lower bound


class Refused(Exception):
    """An error reply."""


class Connection:
    """One connection that speaks RESP2."""

    def __init__(self, host: str, port: int, tls: bool) -> None:
        plain = socket.create_connection((host, port), timeout=SECONDS)
        if tls:
            context = ssl.create_default_context(cafile=os.environ.get("RAY_REDIS_CA_CERT") or None)
            certificate, key = os.environ.get("RAY_REDIS_CLIENT_CERT"), os.environ.get("RAY_REDIS_CLIENT_KEY")
            if certificate:
                context.load_cert_chain(certificate, key or None)
            plain = context.wrap_socket(plain, server_hostname=os.environ.get("RAY_REDIS_SERVER_NAME") or host)
        self.socket = plain
        self.file = plain.makefile("rb")

    def ask(self, *words: str | int) -> Any:
        encoded = [str(word).encode() for word in words]
        message = b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in encoded)
        self.socket.sendall(message)
        return self.reply()

    def reply(self) -> Any:
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Refused(rest.decode(errors="replace"))
        if kind == b"+":
            return rest.decode(errors="replace")
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if int(rest) < 0:
                return None
            data = self.file.read(int(rest) + 2)[:-2]
            return data.decode(errors="backslashreplace")
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        raise OSError(f"this is no Redis: it answered {line[:40]!r}")


def fields(text: str | None) -> dict[str, str]:
    """The fields of an INFO reply."""
    return dict(line.split(":", 1) for line in (text or "").splitlines() if ":" in line)


def connect(host: str, port: int, tls: bool) -> tuple[Connection, bool]:
    """A connection, and whether it would have answered without a password."""
    connection = Connection(host, port, tls)
    try:
        connection.ask("PING")
        unguarded = True
    except Refused:
        unguarded = False
    password, user = os.environ.get("REDIS_PASSWORD"), os.environ.get("REDIS_USERNAME")
    if password:
        try:
            connection.ask("AUTH", *([user] if user else []), password)
        except Refused as error:
            if not unguarded:  # a server without a password refuses one, and answers all the same
                raise error
    return connection, unguarded


def primary(connection: Connection, host: str, port: int) -> tuple[str, int]:
    """Where the data is: behind a Sentinel the primary that it names, else the server itself."""
    try:
        sentinel = connection.ask("INFO", "SENTINEL")
    except Refused:
        sentinel = ""
    if not fields(sentinel):
        return host, port
    [named] = connection.ask("SENTINEL", "MASTERS")
    said = dict(zip(named[::2], named[1::2], strict=False))
    return said["ip"], int(said["port"])


def namespaces(connection: Connection) -> dict[str, int]:
    """How many keys each key namespace has."""
    counts: dict[str, int] = {}
    seen, cursor = 0, "0"
    while True:
        cursor, keys = connection.ask("SCAN", cursor, "MATCH", "RAY*@*", "COUNT", 1000)
        for key in keys:
            name = key[len("RAY") :].rpartition("@")[0]
            counts[name] = counts.get(name, 0) + 1
        seen += len(keys)
        if cursor == "0" or seen > MOST_KEYS:
            return counts


def takes_snapshots(connection: Connection, persistence: dict[str, str]) -> bool:
    """Whether it saves from time to time, as it is configured, or, where that may not be read, as it has done."""
    try:
        return bool(connection.ask("CONFIG", "GET", "save")[1])
    except (Refused, IndexError):
        return int(persistence.get("rdb_saves", 0)) > 0


def look() -> dict[str, Any]:
    """All of it."""
    address = os.environ.get("RAY_REDIS_ADDRESS", "").split(",")[0]
    if not address:
        return {"error": "the head has no RAY_REDIS_ADDRESS"}
    parts = urlsplit(address if "://" in address else "redis://" + address)
    tls = parts.scheme == "rediss"
    host, port = parts.hostname or "", parts.port or 6379
    connection, unguarded = connect(host, port, tls)
    at = primary(connection, host, port)
    if at != (host, port):
        connection, here = connect(*at, tls)
        unguarded = unguarded or here
    shards = 1
    if fields(connection.ask("INFO", "CLUSTER")).get("cluster_enabled") == "1":
        shards = int(fields(connection.ask("CLUSTER", "INFO")).get("cluster_size", 1))
    replication, persistence = (
        fields(connection.ask("INFO", "REPLICATION")),
        fields(connection.ask("INFO", "PERSISTENCE")),
    )
    return {
        "open": unguarded,
        "shards": shards,
        "replicas": int(replication.get("connected_slaves", 0)),
        "aof": persistence.get("aof_enabled") == "1",
        "snapshots": takes_snapshots(connection, persistence),
        "namespaces": namespaces(connection),
    }


if __name__ == "__main__":
    try:
        answer = look()
    except (OSError, Refused, ValueError, KeyError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer) + "\n")
