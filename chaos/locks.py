"""One holder at a time: two runs on one stack would judge each other's faults.

A lock is an ``flock`` on a file that stays; the kernel releases it when the holder dies, however it dies. The file's
text says who holds it, and is emptied by an orderly release: text without a lock therefore means that a run was killed
and cleaned nothing up, which `abandoned` tells.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import tenacity

from chaos.errors import BusyError, StackError

# flock() itself cannot be given a time limit, so waiting for a lock is asking again. Even without a wait it is asked
# again for a moment, since `abandoned` takes the lock for an instant to see whether it is free.
_POLL_SECONDS = 0.05
LEAST_WAIT = 0.2


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, or held it when it died."""

    pid: int
    started: str  # ISO 8601, UTC
    command: str
    run: str

    def __str__(self) -> str:
        return f"{self.run} (process {self.pid}, since {self.started}: {self.command})"


@contextmanager
def hold(path: Path, *, who: str, wait: float = 0, tell: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Hold the lock at ``path`` for the block; ``who`` is the run's name, ``wait`` the seconds to wait for it at most.

    Makes the folder if need be. Whom it waits for is told once. Raises `BusyError`, which names the other run, when the
    lock stays taken that long.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StackError(
            f"{path.parent} can't be made: {error.strerror}",
            fix="choose another folder for state with KUBERAY_CHAOS_STATE",
        ) from error
    try:
        try:
            descriptor = _acquire(path, LEAST_WAIT)
        except BlockingIOError:
            if wait <= LEAST_WAIT:
                raise
            tell(f"waiting up to {wait:g} s for {read(path) or 'another run'}")
            descriptor = _acquire(path, wait - LEAST_WAIT)
    except BlockingIOError:
        raise busy(read(path)) from None
    try:
        name_holder(descriptor, this_process(who))
        try:
            yield
        finally:
            name_holder(descriptor, None)
    finally:
        os.close(descriptor)


def this_process(who: str, *, pid: int | None = None) -> Holder:
    """This process as the holder of a lock; ``pid`` is another one's that is to be ended in its place."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return Holder(pid or os.getpid(), started, command, who)


def name_holder(descriptor: int, holder: Holder | None) -> None:
    """Let a locked file say who holds it."""
    text = json.dumps(asdict(holder)) + "\n" if holder else ""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _acquire(path: Path, wait: float) -> int:
    """The descriptor of the locked file; raises BlockingIOError when it stays locked for ``wait`` seconds."""
    asking = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(BlockingIOError),
        stop=tenacity.stop_before_delay(wait),
        wait=tenacity.wait_fixed(_POLL_SECONDS),
        reraise=True,
    )
    return asking(take, path, fcntl.LOCK_EX)


def take(path: Path, how: int) -> int:
    """The descriptor of the file, locked alone (LOCK_EX) or with others (LOCK_SH); raises BlockingIOError when it isn't free."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        if not _still_at(path, descriptor):
            # The file was removed with its folder between open and lock: a lock on it would exclude nobody.
            raise BlockingIOError
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _still_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def read(path: Path) -> Holder | None:
    """Who the file names; None when it names nobody, or is just being written."""
    try:
        return Holder(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def busy(other: Holder | None) -> BusyError:
    """The error of one who finds the lock taken."""
    if other is None:
        return BusyError("in use by another run", fix="wait for it with --wait SECONDS, or use another stack (--name)")
    return BusyError(
        f"in use by {other}",
        fix=f"wait for it with --wait SECONDS, end it with `kill {other.pid}` (it heals first), or use another stack (--name)",
    )


def held(path: Path) -> bool:
    """Whether a live process holds the lock at ``path``; also when that can't be told, since it is another user's."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # alone: it may be shared, see chaos.sharing
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def abandoned(path: Path) -> Holder | None:
    """The run that held ``path`` and ended without releasing it; None when it is held, was released or never was."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # alone: it may be shared, see chaos.sharing
    except BlockingIOError:
        return None
    else:
        return read(path)
    finally:
        os.close(descriptor)


def atomic_write(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace the file at ``path`` as a whole: a reader sees the old text or the new, also after a power cut."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk: a new file is durable only with them."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
