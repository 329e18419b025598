"""Lets packets go later: takes them from a queue of the kernel's, and gives each back when its time has come.

A program of its own for Linux, over nfnetlink_queue; it imports nothing of the package, since it runs on a node, in the
network namespace of a pod (`chaos.faults.user_queue`). Its arguments are a marker by which it is found, the queue's number,
the milliseconds that a packet waits, and by how many more or less. It returns when the queue is its own, and goes on in the
background until it is killed, or the pod's interface is gone. What a killed program held the kernel drops, as it does with
what is left in a queue of netem's.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import random
import select
import socket
import struct
import sys
import time

_NETLINK_NETFILTER = 12
_SOL_NETLINK, _NETLINK_NO_ENOBUFS, _SO_RCVBUFFORCE = 270, 5, 33
_QUEUE = 3 << 8
_PACKET, _VERDICT, _CONFIG, _ERROR = _QUEUE | 0, _QUEUE | 1, _QUEUE | 2, 2
_REQUEST, _ACKNOWLEDGE = 1, 4
_ACCEPT = 1
_MESSAGE = struct.Struct("=IHHII")  # length, kind, flags, and two numbers that aren't needed
_ATTRIBUTE = struct.Struct("=HH")  # length, kind
_FAMILY = 4  # bytes between a message's header and its attributes
_BUFFER = 8 << 20
_LONGEST_QUEUE = 10_000
_INTERFACE = "eth0"
_LOOK_SECONDS = 1.0


def _message(kind: int, queue: int, attributes: dict[int, bytes], flags: int = 0) -> bytes:
    body = struct.pack(">BBH", socket.AF_UNSPEC, 0, queue)
    for number, payload in attributes.items():
        body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(payload), number) + payload + bytes(-len(payload) % 4)
    return _MESSAGE.pack(_MESSAGE.size + len(body), kind, _REQUEST | flags, 0, 0) + body


def requests(queue: int) -> list[bytes]:
    """What makes the queue this program's; of each packet it is told no more than its number."""
    bind, numbers_only, unsplit = struct.pack(">BBH", 1, 0, 0), struct.pack(">IB", 0, 1), struct.pack(">I", 4)
    wanted = [{1: bind}, {2: numbers_only}, {3: struct.pack(">I", _LONGEST_QUEUE)}, {4: unsplit, 5: unsplit}]
    return [_message(_CONFIG, queue, attributes, _ACKNOWLEDGE) for attributes in wanted]


def acceptance(queue: int, packet: int) -> bytes:
    """What lets one packet go."""
    return _message(_VERDICT, queue, {2: struct.pack(">II", _ACCEPT, packet)})


def packets(told: bytes) -> list[int]:
    """The numbers of packets that came, by what the kernel told; raises OSError when it refused something."""
    found = []
    while len(told) >= _MESSAGE.size:
        length, kind, *_ = _MESSAGE.unpack_from(told)
        body, told = told[_MESSAGE.size : length], told[length + -length % 4 :]
        if kind == _ERROR and (refused := -struct.unpack_from("=i", body)[0]):
            raise OSError(refused, os.strerror(refused))
        attributes = body[_FAMILY:] if kind == _PACKET else b""
        while len(attributes) > _ATTRIBUTE.size:
            size, number = _ATTRIBUTE.unpack_from(attributes)
            if number == 1:
                found.append(struct.unpack_from(">I", attributes, _ATTRIBUTE.size)[0])
            attributes = attributes[size + -size % 4 :]
    return found


def _taken(queue: int) -> socket.socket:
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
    kernel.bind((0, 0))
    with contextlib.suppress(PermissionError):  # the usual size will do, but for bursts
        kernel.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
    kernel.setsockopt(_SOL_NETLINK, _NETLINK_NO_ENOBUFS, 1)
    for request in requests(queue):
        kernel.send(request)
        packets(kernel.recv(1 << 16))
    return kernel


def _let_go(kernel: socket.socket, queue: int, seconds: float, jitter: float) -> None:
    held: list[tuple[float, int]] = []
    look = 0.0
    while True:
        now = time.monotonic()
        while held and held[0][0] <= now:
            kernel.send(acceptance(queue, heapq.heappop(held)[1]))
        if now >= look:
            if _INTERFACE not in [name for _, name in socket.if_nameindex()]:
                return
            look = now + _LOOK_SECONDS
        until = min(look, held[0][0]) if held else look
        if select.select([kernel], [], [], max(0.0, until - time.monotonic()))[0]:
            came = time.monotonic()
            with contextlib.suppress(OSError):  # of a packet that the kernel has dropped meanwhile
                for packet in packets(kernel.recv(1 << 16)):
                    heapq.heappush(held, (came + seconds + random.uniform(-jitter, jitter), packet))  # noqa: S311


def main(arguments: list[str]) -> None:
    queue, milliseconds, jitter = map(int, arguments[1:])
    kernel = _taken(queue)
    if os.fork():
        return
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    _let_go(kernel, queue, milliseconds / 1000, jitter / 1000)


if __name__ == "__main__":
    main(sys.argv[1:])
