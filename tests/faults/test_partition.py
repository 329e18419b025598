"""The black hole, proved on a connection that was open before, and undone without a trace."""

import json
import subprocess
import threading
import time

from chaos.faults.partition import BlackHole

_CLIENT = """
import socket, sys, time, json
s = socket.create_connection((sys.argv[1], 7000), timeout=5); s.settimeout(None)
f = s.makefile("rw")
while True:
    began = time.monotonic(); f.write("x\\n"); f.flush(); f.readline()
    print(json.dumps({"took": time.monotonic() - began}), flush=True); time.sleep(0.1)
"""


class Client:
    """Exchanges lines over one connection from a pod to an address, and keeps how long each took."""

    def __init__(self, cluster, pod, address):
        where = pod["metadata"]
        command = cluster.exec_command(where["namespace"], where["name"], ["python3", "-c", _CLIENT, address])
        self.took = []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.took.append(json.loads(line)["took"])

    def exchanged_within(self, seconds):
        """Whether another exchange completes within that time."""
        seen, end = len(self.took), time.monotonic() + seconds
        while time.monotonic() < end:
            if len(self.took) > seen:
                return True
            time.sleep(0.05)
        return False


def rules(cluster, pod):
    """The pod's own packet filter, as text."""
    node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
    sandbox = cluster.node_exec(
        node, ["crictl", "pods", "-q", "--label", f"io.kubernetes.pod.uid={uid}"]
    ).stdout.split()[0]
    pid = json.loads(cluster.node_exec(node, ["crictl", "inspectp", sandbox.decode()]).stdout)["info"]["pid"]
    listed = cluster.node_exec(node, ["nsenter", "-t", str(pid), "-n", "iptables-save", "-t", "filter"])
    return [line for line in listed.stdout.decode().splitlines() if line.startswith(("-", "*", ":KUBERAY"))]


def test_black_hole_stalls_an_open_connection_and_no_other(cluster, inject, stand_in):
    server, cut, free = stand_in("server"), stand_in("cut"), stand_in("free")
    address = server["status"]["podIP"]
    clients = [Client(cluster, pod, address) for pod in (cut, free)]
    try:
        assert all(client.exchanged_within(20) for client in clients)
        before = rules(cluster, cut)
        with inject(BlackHole.between(cut, [server])):
            assert not clients[0].exchanged_within(5)
            assert clients[1].exchanged_within(5)
        assert clients[0].exchanged_within(30), "the same connection must go on when the packets do"
        assert max(clients[0].took) >= 5
        assert rules(cluster, cut) == before
    finally:
        for client in clients:
            client.process.kill()


def test_undoing_twice_and_without_a_target_is_no_error(cluster, stand_in):
    from chaos.faults.undo import Undo, perform

    pod = stand_in("undone")
    undo = Undo("pod-chain", {"node": pod["spec"]["nodeName"], "uid": pod["metadata"]["uid"]})
    perform(cluster, undo)
    perform(cluster, undo)
    perform(
        cluster, Undo("pod-chain", {"node": pod["spec"]["nodeName"], "uid": "00000000-0000-0000-0000-000000000000"})
    )
