"""A local port that leads to one pod's port, for clients that speak HTTP and know nothing of Kubernetes.

It is bound to one pod and to loopback: when the pod goes, the forward is over, and whoever needs another asks for one.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
from collections.abc import Iterator

from chaos.errors import StackError
from chaos.stack.cluster import Cluster

_READY = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")
_READY_SECONDS = 10.0


@contextlib.contextmanager
def forwarded(cluster: Cluster, namespace: str, pod: str, port: int) -> Iterator[int]:
    """The local port for the block. Raises StackError when it isn't there within 10 s."""
    command = cluster.kubectl_command(
        ["port-forward", f"--namespace={namespace}", "--address=127.0.0.1", f"pod/{pod}", f":{port}"]
    )
    forward = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    timer = threading.Timer(_READY_SECONDS, forward.kill)
    timer.start()
    try:
        said = ""
        assert forward.stdout is not None
        for line in forward.stdout:
            said += line
            if found := _READY.search(line):
                timer.cancel()
                yield int(found[1])
                return
        raise StackError(f"port {port} of pod {pod} could not be forwarded: {said.strip()[-300:] or 'no answer'}")
    finally:
        timer.cancel()
        forward.kill()
        forward.wait()
