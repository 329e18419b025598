"""Connects to a Redis or Sentinel server once, says one command and prints the answer as a JSON line.

``{"reached": true, "answer": FIRST LINE}`` when there was one, ``{"reached": false, "error": NAME}`` when no connection came
about; NAME is ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH … With ``--log-in`` the password of ``REDIS_PASSWORD`` is presented first.
Exit code 0 whenever it can tell.
"""

import argparse
import errno
import json
import os
import socket
import sys


def send(connection: socket.socket, *words: bytes) -> str:
    """One command; the first line of the answer."""
    parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)]
    connection.sendall(b"".join(parts))
    with connection.makefile("rb") as answers:
        return answers.readline().decode(errors="replace").strip()


def main() -> None:
    """Parses the arguments, knocks and tells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--log-in", action="store_true")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("words", nargs="+", help="the command")
    args = parser.parse_args()
    try:
        connection = socket.create_connection((args.host, args.port), timeout=args.seconds)
    except OSError as error:
        name = "ETIMEDOUT" if isinstance(error, TimeoutError) else errno.errorcode.get(error.errno or 0, str(error))
        sys.stdout.write(json.dumps({"reached": False, "error": name}) + "\n")
        return
    with connection:
        if args.log_in and not send(connection, b"AUTH", os.environ["REDIS_PASSWORD"].encode()).startswith("+OK"):
            sys.exit("the password was refused")
        answer = send(connection, *(word.encode() for word in args.words))
    sys.stdout.write(json.dumps({"reached": True, "answer": answer}) + "\n")


if __name__ == "__main__":
    main()
