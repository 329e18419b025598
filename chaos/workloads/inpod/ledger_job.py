"""The entrypoint of RayJobs: writes each of its executions into the execution ledger, outside of all it depends on.

The ledger is the file ``$CHAOS_LEDGER``. An execution appends a ``start`` line before it touches Ray and an ``end`` line when
its work is done; each is one write and is on disk before the execution goes on::

    {"event", "execution", "submission_id", "attempt", "pid", "time"}

``execution`` is random and the same in both lines. ``attempt`` is the name of the Ray cluster, one an attempt in KubeRay.

With ``--stubborn`` it does without Ray and won't be stopped: it appends a ``write`` line five times a second, a ``sigterm`` line
for each SIGTERM that it gets, and goes on.
"""

import argparse
import json
import os
import secrets
import signal
import sys
import time
from pathlib import Path

EXECUTION = secrets.token_hex(8)


def record(event: str) -> None:
    """Appends one line and waits until it is on disk."""
    path = Path(os.environ["CHAOS_LEDGER"])
    path.parent.mkdir(parents=True, exist_ok=True)
    # Ray tells a job's entrypoint about the job in this variable.
    job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}"))
    line = {
        "event": event,
        "execution": EXECUTION,
        "submission_id": job.get("metadata", {}).get("job_submission_id"),
        "attempt": os.environ.get("RAY_CLUSTER_NAME"),
        "pid": os.getpid(),
        "time": time.time(),
    }
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
        os.fsync(file)
    finally:
        os.close(file)


def work(seconds: float, release: str | None) -> None:
    """What the job does, as a Ray task: it works for a time, or until a file appears."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (release and os.path.exists(release)):
        time.sleep(0.2)


def persist(seconds: float, release: str | None) -> None:
    """What a job does that takes no hint: it writes to the outside world until it is killed, or is done as in `work`."""
    signal.signal(signal.SIGTERM, lambda *_: record("sigterm"))
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (release and os.path.exists(release)):
        record("write")
        time.sleep(0.2)


def main() -> None:
    """Records, works, records, and exits as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1, help="how long the work takes at most")
    parser.add_argument("--release", help="a file at whose appearance the work is done")
    parser.add_argument("--exit-code", type=int, default=0, help="what to exit with when the work is done")
    parser.add_argument("--stubborn", action="store_true", help="write all the time, and go on when told to stop")
    args = parser.parse_args()
    record("start")

    if args.stubborn:
        persist(args.seconds, args.release)
    else:
        import ray  # noqa: PLC0415 - takes a second, which must not be between the start and its record

        ray.init(address="auto")
        ray.get(ray.remote(work).options(num_cpus=0.1).remote(args.seconds, args.release))
    record("end")
    sys.exit(args.exit_code)


if __name__ == "__main__":
    main()
