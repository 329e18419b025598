"""Calls an actor twice a second from outside its Ray cluster, as a client of a service does, and makes it when it is not there.

The actor takes ``--start-up`` seconds to begin, as one that loads a model does. Prints JSON lines: ``answer`` with what the actor
said of itself and how long it took, ``silence`` once a second while there is none, with the reason.

The calls are made by a second process, which is replaced when it ends or has nothing to say: what becomes of a Ray client whose
head is gone is not waited for. It is begun only when the head listens, since it costs seconds of a processor.
"""

import argparse
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from typing import Any

NAMESPACE, ACTOR = "chaos", "service"
PAUSE = 0.5
# Ray's client is imported and connected in 3 to 10 s on two busy cores; to a head that has only just begun to listen it may
# hang for longer than a new one takes. Once it is connected, the caller speaks every second.
CONNECT, PATIENCE = 15.0, 5.0


class Service:
    """An actor whose answers tell one life from the next."""

    def __init__(self, start_up: float) -> None:
        time.sleep(start_up)
        self.born = secrets.token_hex(8)
        self.count = 0

    def answer(self) -> dict[str, Any]:
        """Counts one call and says who counted."""
        self.count += 1
        return {"pid": os.getpid(), "born": self.born, "count": self.count}


def say(event: str, **more: object) -> None:
    """One line, seen at once."""
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def service(start_up: float) -> Any:
    """The actor's handle; one that nobody knows any more is made anew, on a node that takes work."""
    import ray  # noqa: PLC0415

    try:
        return ray.get_actor(ACTOR)
    except ValueError:
        options: dict[str, Any] = {"name": ACTOR, "lifetime": "detached", "num_cpus": 0.1, "max_restarts": -1}
        return ray.remote(Service).options(**options).remote(start_up)


def call(address: str, start_up: float) -> None:
    """Connects and calls, until something goes wrong."""
    import ray  # noqa: PLC0415

    ray.init(f"ray://{address}", namespace=NAMESPACE, log_to_driver=False, logging_level="CRITICAL")
    actor = service(start_up)
    while True:
        began = time.monotonic()
        answer = actor.answer.remote()
        while True:
            try:
                said = ray.get(answer, timeout=1)
                break
            except ray.exceptions.GetTimeoutError:
                say("silence", why="the actor does not answer")
        say("answer", took=round(time.monotonic() - began, 3), **said)
        time.sleep(max(0.0, began + PAUSE - time.monotonic()))


def await_head(address: str) -> None:
    """Returns when something listens at the address."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError as error:
            say("silence", why=f"{address}: {error}")
            time.sleep(1)


def supervise(address: str, start_up: float) -> None:
    """Passes on what callers say, one after the other."""
    while True:
        await_head(address)
        command = [sys.executable, __file__, address, f"--start-up={start_up}", "--caller"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as caller:
            assert caller.stdout is not None
            patience = CONNECT
            # A line is shorter than what a pipe passes on in one piece.
            while select.select([caller.stdout], [], [], patience)[0]:
                said = os.read(caller.stdout.fileno(), 65536)
                if not said:
                    break
                sys.stdout.buffer.write(said)
                sys.stdout.flush()
                patience = PATIENCE
            caller.kill()
        say("silence", why="the connection is lost")


def main() -> None:
    """Parses the arguments and calls, for ever."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="HOST:PORT of Ray's client server")
    parser.add_argument("--start-up", type=float, default=0)
    parser.add_argument("--caller", action="store_true", help="call until something goes wrong")
    args = parser.parse_args()
    (call if args.caller else supervise)(args.address, args.start_up)


if __name__ == "__main__":
    main()
