"""The side that lives: starts the process that dies, and sees to it that it died as it was told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.crash.points import Orders

# Start of Python and its packages, one listing of every resource, and the proof of the slowest fault, on a busy machine.
_LIFE_SECONDS = 150
_ROOT = Path(__file__).parents[2]


def run_to_death(orders: Orders) -> None:
    """Run it until it has died at the point; anything else is an AssertionError with what it said."""
    said = orders.folder / "said"
    with said.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.child", orders.save()],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": str(_ROOT)}, start_new_session=True,
        )  # fmt: skip
        try:
            code = child.wait(_LIFE_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            child.kill()
            child.wait()
    reached = orders.marker.read_text() if orders.marker.exists() else "no point"
    assert (code, reached) == (-signal.SIGKILL, orders.point), said.read_text()[-3000:]
