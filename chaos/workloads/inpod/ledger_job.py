"""The entrypoint of RayJobs: writes each of its executions into the execution ledger, outside of all it depends on.

The ledger is the file ``$CHAOS_LEDGER``. An execution appends a ``start`` line before it touches Ray and an ``end`` line when
its work is done; each is one write and is on disk before the execution goes on::

    {"event", "execution", "submission_id", "attempt", "pid", "time"}

``execution`` is random and the same in both lines. ``attempt`` is the name of the Ray cluster, one an attempt in KubeRay.

With ``--keyed`` it also writes where the outside world takes a key only once, the key being the submission ID; a ``keyed``
line says that the write was taken.

With ``--steps`` its work is done in steps, each a ``step`` line with the number of the ``step`` and the ``run`` of the work,
random. With ``--checkpoint`` the number is kept in a file, and a later run begins behind it; else at 1.

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
from collections.abc import Callable
from pathlib import Path

# Ray tells a job's entrypoint about the job in this variable.
_JOB = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")).get("metadata", {})

# These go with a task to wherever it runs.
LEDGER = Path(os.environ["CHAOS_LEDGER"])
IDENTITY = {
    "execution": secrets.token_hex(8),
    "submission_id": _JOB.get("job_submission_id"),
    "attempt": os.environ.get("RAY_CLUSTER_NAME"),
}


def record(event: str, **more: object) -> None:
    """Appends one line and waits until it is on disk."""
    LEDGER.parent.mkdir(parents=True, exist_ok=True)
    line = {"event": event, **IDENTITY, "pid": os.getpid(), "time": time.time(), **more}
    file = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
        os.fsync(file)
    finally:
        os.close(file)


def record_once() -> None:
    """Writes under a key that is taken once, and records that it was."""
    path = Path(f"{LEDGER}.keys", str(IDENTITY["submission_id"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        return
    record("keyed")


def repeat(act: Callable[[], None], seconds: float, release: str | None) -> None:
    """Acts five times a second for a time, or until a file appears."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (release and os.path.exists(release)):
        act()
        time.sleep(0.2)


def work(seconds: float, release: str | None, steps: bool, checkpoint: str | None) -> None:
    """What the job does, as a Ray task."""
    run, done = secrets.token_hex(8), 0
    if checkpoint and os.path.exists(checkpoint):
        done = int(Path(checkpoint).read_text())

    def step() -> None:
        nonlocal done
        done += 1
        record("step", run=run, step=done)
        if checkpoint:
            fresh = Path(f"{checkpoint}.{run}")
            fresh.write_text(str(done))
            fresh.replace(checkpoint)

    repeat(step if steps else lambda: None, seconds, release)


def persist(seconds: float, release: str | None) -> None:
    """What a job does that takes no hint: it writes to the outside world until it is killed, or is done as in `work`."""
    signal.signal(signal.SIGTERM, lambda *_: record("sigterm"))
    repeat(lambda: record("write"), seconds, release)


def main() -> None:
    """Records, works, records, and exits as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1, help="how long the work takes at most")
    parser.add_argument("--release", help="a file at whose appearance the work is done")
    parser.add_argument("--exit-code", type=int, default=0, help="what to exit with when the work is done")
    parser.add_argument("--stubborn", action="store_true", help="write all the time, and go on when told to stop")
    parser.add_argument("--keyed", action="store_true", help="write once for a submission ID, however often executed")
    parser.add_argument("--steps", action="store_true", help="record each step of the work")
    parser.add_argument("--checkpoint", help="a file that tells later runs of the work how far an earlier one came")
    args = parser.parse_args()
    record("start")
    if args.keyed:
        record_once()

    if args.stubborn:
        persist(args.seconds, args.release)
    else:
        import ray  # noqa: PLC0415 - takes a second, which must not be between the start and its record

        ray.init(address="auto")
        task = ray.remote(work).options(num_cpus=0.1)
        ray.get(task.remote(args.seconds, args.release, args.steps, args.checkpoint))
    record("end")
    sys.exit(args.exit_code)


if __name__ == "__main__":
    main()
