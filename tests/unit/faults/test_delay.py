"""Packets that are late: two ways to do it, one measure for both, and the program that is one of the ways."""

import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from chaos.errors import FeatureMissing, NoEffect, StackError
from chaos.faults import delay, kernel_queue, late_packets
from chaos.faults.delay import Delay, round_trips
from chaos.faults.kernel_queue import KernelQueue
from chaos.faults.late_packets import acceptance, packets, requests
from chaos.faults.undo import Undo, perform
from chaos.faults.user_queue import UserQueue, _programs
from chaos.process import Executed


@pytest.fixture
def kernel(monkeypatch):
    """A function that says whether this machine's kernel has netem."""
    return lambda answer: monkeypatch.setattr(delay, "offers", lambda machine, way: answer)


# --- the fault


@pytest.mark.parametrize(("netem", "queue"), [(True, KernelQueue), (None, KernelQueue), (False, UserQueue)])
def test_the_kernels_own_way_is_taken_unless_it_is_known_not_to_be_there(kernel, pod, netem, queue):
    kernel(netem)
    assert type(Delay.of(pod(), milliseconds=100).queue) is queue


@pytest.mark.parametrize(("milliseconds", "jitter"), [(0, 0), (10, 10), (10, -1)])
def test_a_delay_that_could_not_be_told_from_none_is_refused(pod, milliseconds, jitter):
    with pytest.raises(StackError, match="more or less"):
        Delay.of(pod(), milliseconds=milliseconds, jitter=jitter)


class Node:
    """A node that takes so many seconds for a round trip, and on which nothing else works."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.python = True

    def node_exec(self, node, argv, *, stdin=None, timeout=30):
        if argv[0] == "timeout":
            return Executed(0, f"10.5 {10.5 + self.seconds} Connection refused\n".encode(), b"")
        if argv[:2] == ["crictl", "pods"]:
            return Executed(0, b"", b"")
        return Executed(0 if self.python else 127, b"", b"")


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(delay, "_BITE_SECONDS", 0.3)


@pytest.mark.usefixtures("quick")
def test_the_round_trip_is_the_proof_and_was_shorter_before(kernel, pod, reach, writer):
    kernel(True)
    fault, node = Delay.of(pod(), milliseconds=200, jitter=20), Node(0.001)
    fault.undo(reach(node))
    [before] = [entry for entry in writer.entries() if entry["what"] == "probe"]
    assert (before["probe"], before["took"]) == ("round-trip", 0.001)
    with pytest.raises(NoEffect, match="late"):
        fault.prove(reach(node), 0)
    node.seconds = 0.18
    assert fault.prove(reach(node), 0) == {"round_trip_seconds": 0.18, "by": "netem"}
    with pytest.raises(NoEffect, match="without the delay"):
        fault.undo(reach(node))


def test_a_node_without_python_is_told_where_the_kernel_lacks_netem(kernel, pod, reach):
    kernel(False)
    node = Node(0.001)
    node.python = False
    with pytest.raises(FeatureMissing, match="netem in the kernel, or Python on n1"):
        Delay.of(pod(), milliseconds=100).undo(reach(node))


def test_relief_of_a_pod_that_is_gone_or_in_another_sandbox(kernel, pod, reach, monkeypatch):
    kernel(True)
    fault, node = Delay.of(pod(), milliseconds=100), Node(0.1)
    assert fault.relieved(reach(node)) == {"sandbox": "gone"}
    shown = Executed(0, b"2: eth0    inet 10.0.0.12/24 brd 10.0.0.255 scope global eth0", b"")
    monkeypatch.setattr(delay, "in_sandbox", lambda *arguments: shown)
    assert fault.relieved(reach(node)) == {"sandbox": "gone"}
    monkeypatch.setattr(delay, "in_sandbox", lambda *arguments: Executed(0, b"2: eth0    inet 10.0.0.1/24 scope", b""))
    node.seconds = 0.001
    assert fault.relieved(reach(node)) == {"round_trip_seconds": 0.001}


def test_only_answers_are_round_trips():
    told = "1.000001 1.100001 Connection refused\n2.0 2.05 connected\n3.0 6.1 No route to host\n"
    assert round_trips(told) == [0.1, 0.05]
    assert round_trips("") == []


def test_a_round_trip_is_measured_by_the_script_itself():
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = delay._ROUND_TRIPS.replace("/dev/tcp/$0/1", f"/dev/tcp/$0/{server.getsockname()[1]}")
        open_, refused = (
            subprocess.run(["bash", "-c", each, "127.0.0.1"], capture_output=True, text=True, check=True).stdout
            for each in (script, delay._ROUND_TRIPS)
        )
    assert [line.split(" ", 2)[2] for line in open_.splitlines()] == ["connected"] * 3
    assert [line.split(" ", 2)[2] for line in refused.splitlines()] == ["Connection refused"] * 3
    assert len(round_trips(open_)) == len(round_trips(refused)) == 3


# --- the kernel's queue

SHOWN = "qdisc netem c4a0: root refcnt 13 limit 1000 delay 100ms\n"


def test_our_queue_is_told_by_its_handle():
    assert kernel_queue.has_queue(SHOWN, "c4a0:")
    assert not kernel_queue.has_queue(SHOWN, "c4a1:")
    assert not kernel_queue.has_queue("qdisc noqueue 0: root refcnt 2\n", "c4a0:")


def test_handles_of_queues():
    handles = {KernelQueue("n", "u").handle for _ in range(200)}
    assert len(handles) > 100
    assert all(0x1000 <= int(handle.rstrip(":"), 16) < 0xFFFF for handle in handles)
    with pytest.raises(StackError, match="no handle of ours"):
        perform(None, Undo("pod-queue", {"node": "n", "uid": "u", "handle": "1: ; reboot"}))


# --- the program's queue


@pytest.fixture
def marked():
    """A process with the marker among its arguments, and one of which it is a part only."""
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    both = [subprocess.Popen([*sleep, argument]) for argument in ("marker-1234", "marker-12345")]
    yield both
    for each in both:
        each.kill()
        each.wait()


def test_the_program_is_found_by_its_marker_and_ended_and_nothing_else_is(marked, local_node):
    ours, other = marked
    node = local_node()
    assert _programs(node, "n1", "marker-1234") == [str(ours.pid)]
    undo = Undo("late-packets", {"node": "n1", "marker": "marker-1234"})
    threading.Thread(target=ours.wait).start()
    perform(node, undo)
    assert other.poll() is None
    assert ours.wait(5) == -9
    perform(node, undo)


def test_rules_and_program_go_together(packet_filter, monkeypatch):
    queue, pod = UserQueue("n1", "u"), packet_filter
    begun = []

    def node_exec(node, argv, *, stdin=None, timeout=30):
        if argv[0] == "nsenter" and argv[6].startswith("python3"):
            begun.append(argv[7:])
            argv = [*argv[:6], "iptables-restore -w --noflush"]
        return type(pod).node_exec(pod, node, argv, stdin=stdin, timeout=timeout)

    monkeypatch.setattr(pod, "node_exec", node_exec)
    before = pod.saved()
    queue.begin(pod, 100, 10)
    [[_, program, *arguments]] = begun
    assert "def main" in program
    assert arguments == [queue.marker, str(queue.number), "100", "10"]
    assert pod.chains[queue.chain] == [f"-o eth0 -j NFQUEUE --queue-num {queue.number} --queue-bypass"]
    perform(pod, queue.undo[1])
    assert pod.saved() == before


# --- the program


def told(*numbers):
    """As the kernel tells of packets, with an attribute that isn't asked for before the number."""
    messages = b""
    for number in numbers:
        body = struct.pack(">BBH", 2, 0, 7) + struct.pack("=HHI", 8, 5, 1) + struct.pack("=HH", 11, 1)
        body += struct.pack(">IHB", number, 0x0800, 3) + b"\0"
        messages += struct.pack("=IHHII", 16 + len(body), 3 << 8, 0, 0, 0) + body
    return messages


def test_packets_are_told_by_their_numbers():
    assert packets(told(1, 70000)) == [1, 70000]
    assert packets(b"") == []
    answer = struct.pack("=IHHII", 36, 2, 0, 0, 0)
    assert packets(answer + struct.pack("=i", 0) + bytes(16)) == []
    with pytest.raises(PermissionError):
        packets(answer + struct.pack("=i", -1) + bytes(16))


def test_what_is_asked_of_the_kernel_is_of_its_own_length():
    for request in [*requests(7), acceptance(7, 70000)]:
        length, _, flags = struct.unpack_from("=IHH", request)
        assert (length, flags & 1) == (len(request), 1)
        assert struct.unpack_from(">H", request, 18) == (7,)


def test_each_packet_goes_when_its_time_has_come_and_all_ends_with_the_interface(monkeypatch):
    interfaces = [(1, "lo"), (2, "eth0")]
    monkeypatch.setattr(late_packets.socket, "if_nameindex", lambda: interfaces)
    monkeypatch.setattr(late_packets, "_LOOK_SECONDS", 0.1)
    ours, kernels = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, kernels:
        program = threading.Thread(target=late_packets._let_go, args=(ours, 7, 0.2, 0.0))
        program.start()
        kernels.settimeout(5)
        for number in (1, 2):
            kernels.send(told(number))
            began = time.monotonic()
            assert kernels.recv(100) == acceptance(7, number)
            assert 0.19 <= time.monotonic() - began < 1
        interfaces.pop()
        program.join(5)
        assert not program.is_alive()
