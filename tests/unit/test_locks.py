"""Locks: one holder, named to whoever comes second, released by death; files replaced as a whole."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chaos import locks
from chaos.errors import BusyError

HOLDER = """
import sys, time
from pathlib import Path
from chaos.locks import hold
with hold(Path(sys.argv[1]), who="run-a"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds tmp_path/lock."""
    argv = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"held\n"
        yield child
        child.kill()


def test_the_second_is_told_who_holds_it(other, tmp_path):
    with pytest.raises(BusyError) as refused, locks.hold(tmp_path / "lock", who="run-b"):
        pass
    assert "run-a" in str(refused.value)
    assert f"process {other.pid}" in str(refused.value)
    assert f"kill {other.pid}" in refused.value.fix
    assert refused.value.exit_code == 4


def test_it_waits_no_longer_than_told(other, tmp_path):
    began = time.monotonic()
    with pytest.raises(BusyError), locks.hold(tmp_path / "lock", who="run-b", wait=0.5):
        pass
    assert 0.3 < time.monotonic() - began <= 0.9


def test_it_gets_the_lock_while_waiting_when_the_holder_is_killed(other, tmp_path):
    os.kill(other.pid, signal.SIGKILL)
    with locks.hold(tmp_path / "lock", who="run-b", wait=5):
        assert locks.read(tmp_path / "lock").run == "run-b"


def test_a_killed_holder_is_told_as_abandoned(other, tmp_path):
    assert locks.abandoned(tmp_path / "lock") is None
    other.kill()
    other.wait()
    left = locks.abandoned(tmp_path / "lock")
    assert left is not None
    assert (left.run, left.pid) == ("run-a", other.pid)


@pytest.mark.parametrize("ending", [contextlib.nullcontext, KeyboardInterrupt, RuntimeError])
def test_an_orderly_end_leaves_no_name(tmp_path, ending):
    path = tmp_path / "deep" / "lock"
    raises = issubclass(ending, BaseException)
    with pytest.raises(ending) if raises else contextlib.nullcontext(), locks.hold(path, who="run-a"):
        if raises:
            raise ending
    assert locks.abandoned(path) is None
    assert path.read_text() == ""
    with locks.hold(path, who="run-b"):
        pass


def test_a_probe_of_a_free_lock_does_not_refuse_a_run(tmp_path, monkeypatch):
    """`abandoned` takes the lock for an instant; a run that starts just then must not be told that it is busy."""
    path = tmp_path / "lock"
    path.touch()
    probing, refused = threading.Event(), threading.Event()
    flock = locks.fcntl.flock

    def read_until_refused(_path):
        probing.set()
        refused.wait(5)

    def flock_and_tell(descriptor, operation):
        try:
            flock(descriptor, operation)
        except BlockingIOError:
            refused.set()
            raise

    monkeypatch.setattr(locks, "read", read_until_refused)
    monkeypatch.setattr(locks.fcntl, "flock", flock_and_tell)
    probe = threading.Thread(target=locks.abandoned, args=[path])
    probe.start()
    assert probing.wait(5)
    with locks.hold(path, who="run"):
        assert refused.is_set()
    probe.join()


def test_a_lock_on_a_removed_file_excludes_nobody_and_is_not_taken(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    flock = locks.fcntl.flock
    calls = []

    def remove_before_the_first_lock(descriptor, operation):
        if not calls:
            path.unlink()
        calls.append(descriptor)
        flock(descriptor, operation)

    monkeypatch.setattr(locks.fcntl, "flock", remove_before_the_first_lock)
    with locks.hold(path, who="run-a"):
        assert len(calls) == 2
        assert locks.read(path).run == "run-a"


def test_atomic_write_replaces_and_keeps_private(tmp_path):
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    locks.atomic_write(path, "new\n")
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(locks.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        locks.atomic_write(path, "new")
    assert path.read_text() == "old"
    assert list(Path(tmp_path).iterdir()) == [path]
