"""Holds one TCP connection to a Redis server and pings it, to show what a fault does to a connection that was already open.

Prints JSON lines, each with ``t`` (seconds since the start, monotonic): ``connected``; ``slow`` when an answer took longer than
a second; ``second``, once a second, with the answers since the last one and how long the open question waits; and last
``closed``, ``error`` (with the error's name) or ``end``. The password is taken from ``REDISCLI_AUTH`` or ``REDIS_PASSWORD``.
Exit code 0 only when the connection lived to the end.
"""

import argparse
import errno
import json
import os
import select
import socket
import sys
import time

PING = b"*1\r\n$4\r\nPING\r\n"
PAUSE, SLOW = 0.2, 1.0
BEGAN = time.monotonic()


def say(event: str, **more: object) -> None:
    """One line, seen at once."""
    sys.stdout.write(json.dumps({"event": event, "t": round(time.monotonic() - BEGAN, 3), **more}) + "\n")
    sys.stdout.flush()


def authenticate(connection: socket.socket) -> None:
    """Logs in, if there is a password."""
    password = (os.environ.get("REDISCLI_AUTH") or os.environ.get("REDIS_PASSWORD") or "").encode()
    if not password:
        return
    connection.sendall(b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n" % (len(password), password))
    answer = connection.recv(256)
    if not answer.startswith(b"+OK"):
        raise PermissionError(errno.EACCES, answer.decode(errors="replace").strip())


def hold(connection: socket.socket, seconds: float) -> bool:
    """Pings until the time is over or the connection is; whether it outlived the time."""
    asked: float | None = None
    answers = 0
    next_ping = next_second = time.monotonic()
    while (now := time.monotonic()) < BEGAN + seconds:
        if now >= next_second:
            say("second", answers=answers, waiting=round(now - asked, 3) if asked is not None else 0.0)
            answers, next_second = 0, now + 1
        if asked is None and now >= next_ping:
            connection.sendall(PING)
            asked = now
        wake = next_second if asked is not None else min(next_second, next_ping)
        if not select.select([connection], [], [], max(0.0, wake - time.monotonic()))[0]:
            continue
        answer = connection.recv(256)
        if not answer:
            say("closed")
            return False
        if asked is not None and answer.endswith(b"\r\n"):
            took = time.monotonic() - asked
            if took > SLOW or not answer.startswith(b"+PONG"):
                say("slow", took=round(took, 3), answer=answer.decode(errors="replace").strip())
            answers, asked, next_ping = answers + 1, None, time.monotonic() + PAUSE
    say("end")
    return True


def main() -> None:
    """Connects, holds, and exits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("host")
    parser.add_argument("port", type=int, nargs="?", default=6379)
    parser.add_argument("--seconds", type=float, default=3600)
    args = parser.parse_args()
    try:
        with socket.create_connection((args.host, args.port), timeout=5) as connection:
            authenticate(connection)
            say("connected", local=connection.getsockname()[:2], peer=connection.getpeername()[:2])
            sys.exit(0 if hold(connection, args.seconds) else 1)
    except OSError as error:
        say("error", error=errno.errorcode.get(error.errno or 0, type(error).__name__), message=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
