"""Running other programs: argument lists only, a deadline always, and an error that shows what the program said.

Every program leads a process group of its own. The group is killed when its time is up or we are interrupted, so that a
compiler's children do not go on by themselves, and a terminal's Ctrl-C reaches us alone: what undoes a fault must not be
cut off by it. A descendant that left the group may keep the output open; nobody waits for it beyond the deadline.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from chaos.errors import ChaosError, StackError
from chaos.signals import Deadline, checkpoint, shielded

# After the kill, what the group had written is in the pipes already: this is for the kernel to hand it over.
_DRAIN_SECONDS = 0.5
_LOOK_EVERY = 0.2
_CHUNK = 1 << 16
_SAID = 2000  # characters of a program's words that an error quotes
_TAIL_LINES = 15


@dataclass(frozen=True)
class Executed:
    """How a program ended: here, in a pod or on a node.

    ``code`` is its exit code, negative for a signal, or None when its end was not seen: its time was up, what it ran in
    went away, or it could not be started at all. ``stderr`` then says why, and what was printed until then is kept.
    """

    code: int | None
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        """Whether it was seen to end with exit code 0."""
        return self.code == 0

    @property
    def text(self) -> str:
        return self.stdout.decode(errors="replace")

    @property
    def error_text(self) -> str:
        return self.stderr.decode(errors="replace")

    def require(self, what: str, *, error: type[ChaosError] = StackError, fix: str = "") -> bytes:
        """The standard output; raises ``error`` naming ``what``, with the program's own words, if it did not end well."""
        if self.ok:
            return self.stdout
        ended = "did not end" if self.code is None else f"exited with {self.code}"
        said = (self.error_text.strip() or self.text.strip())[-_SAID:]
        raise error(f"{what}: the command {ended}" + (f": {said}" if said else ""), fix=fix)


def run(
    argv: Sequence[str | Path],
    *,
    stdin: bytes | IO[bytes] | None = None,
    timeout: float = 60,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
    error: type[ChaosError] = StackError,
    fix: str = "",
) -> Executed:
    """Run to the end, ``timeout`` seconds at most, fewer once a signal has asked for the end.

    ``env`` is added to this process's environment.

    ``stdin`` is what the program reads: bytes, or a file or pipe that it takes over; nothing by default.
    With ``check``, raises ``error`` with the program's own words when it failed, could not be started or ran out of time.
    """
    words = [str(word) for word in argv]
    try:
        with (
            _readable(stdin) as source,
            _started(words, stdin=source, stderr=subprocess.PIPE, env=env, cwd=cwd) as process,
        ):
            result = _communicate(process, timeout)
    except _NotStartedError as problem:
        result = Executed(None, b"", str(problem).encode())
    if check:
        result.require(_shown(words), error=error, fix=fix)
    return result


@contextlib.contextmanager
def _readable(stdin: bytes | IO[bytes] | None) -> Iterator[IO[bytes] | None]:
    """What a program can read from; bytes in memory, never on a disk, and with nobody needed to feed them."""
    if not isinstance(stdin, bytes):
        yield stdin
        return
    with os.fdopen(os.memfd_create("stdin", os.MFD_CLOEXEC), "w+b") as file:
        file.write(stdin)
        file.seek(0)
        yield file


def _communicate(process: subprocess.Popen[bytes], timeout: float) -> Executed:
    ends = Deadline(timeout)
    while True:
        try:
            # To be looked at now and then: a signal stops the run, or leaves less time than there was.
            stdout, stderr = process.communicate(timeout=min(ends.left, _LOOK_EVERY))
        except subprocess.TimeoutExpired:
            checkpoint()
            if not ends.left:
                _kill_group(process)
                break
        else:
            return Executed(process.returncode, stdout, stderr)
    try:
        stdout, stderr = process.communicate(timeout=_DRAIN_SECONDS)
    except subprocess.TimeoutExpired as held:
        stdout, stderr = held.output or b"", held.stderr or b""
    return Executed(None, stdout, stderr + f"\nno end within {timeout:g} s".encode())


def run_logged(
    argv: Sequence[str | Path],
    *,
    log: Path,
    on_line: Callable[[str], None] | None = None,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    error: type[ChaosError] = StackError,
    fix: str = "",
) -> None:
    """Run a long program with its output, both streams, appended to ``log``; each line also goes to ``on_line``.

    Raises ``error`` with the last lines when it failed, could not be started or did not end within ``timeout`` seconds.
    """
    words = [str(word) for word in argv]
    log.parent.mkdir(parents=True, exist_ok=True)
    tail: list[str] = []
    with log.open("ab") as sink:
        try:
            with _started(words, stdin=None, stderr=subprocess.STDOUT, env=env, cwd=cwd) as process:
                assert process.stdout is not None
                deadline = time.monotonic() + timeout
                for raw in _lines(process.stdout, deadline):
                    sink.write(raw)
                    line = raw.decode(errors="replace").rstrip()
                    tail = [*tail[1 - _TAIL_LINES :], line]
                    if on_line and line:
                        on_line(line)
                code = process.wait(max(0.0, deadline - time.monotonic()))
                why = f"exit code {code}"
        except _NotStartedError as problem:
            raise error(str(problem), fix=fix) from problem
        except (TimeoutError, subprocess.TimeoutExpired):
            code, why = None, f"no end within {timeout:g} s"
    if code != 0:
        raise error(f"{_shown(words)} failed ({why}); the whole output is in {log}\n" + "\n".join(tail), fix=fix)


def _lines(pipe: IO[bytes], deadline: float) -> Iterator[bytes]:
    """Lines as they come, each with its end; raises TimeoutError at the deadline, when what came last has been given."""
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and selector.select(left):
            chunk = os.read(pipe.fileno(), _CHUNK)
            if not chunk:
                late = False
                break
            *whole, pending = (pending + chunk).split(b"\n")
            yield from (line + b"\n" for line in whole)
        else:
            late = True
    if pending:
        yield pending
    if late:
        raise TimeoutError


class _NotStartedError(Exception):
    """A program could not be started; the text says which and why."""


@contextlib.contextmanager
def _started(
    words: list[str],
    *,
    stdin: IO[bytes] | None,
    stderr: int,
    env: Mapping[str, str] | None,
    cwd: Path | None,
) -> Iterator[subprocess.Popen[bytes]]:
    """The program, running. Whatever cuts the block short, it is killed with its group; it is always reaped."""
    process: subprocess.Popen[bytes] | None = None
    try:
        with shielded():  # an interrupt while it is being started would leave it running, unknown to us
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL if stdin is None else stdin,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env={**os.environ, **(env or {})},
                    cwd=cwd,
                    start_new_session=True,
                )
            except OSError as problem:
                raise _NotStartedError(f"{words[0]} can't be run: {problem}") from problem
        yield process
    except BaseException:
        if process is not None:
            _kill_group(process)
        raise
    finally:
        if process is not None:
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was not written to it has no reader any more
                        pipe.close()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _shown(words: list[str]) -> str:
    return f"`{' '.join(words[:6])}`"
