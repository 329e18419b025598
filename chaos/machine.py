"""The machine as the doctor sees it: a few questions, each with an answer or None, never an exception.

`LocalMachine` asks the real one; tests present others. Nothing here changes anything: no module is loaded, no package
installed, no file written.
"""

from __future__ import annotations

import gzip
import os
import platform
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from chaos.paths import nearest
from chaos.process import Executed, run


class Machine(Protocol):
    """What can be asked of a machine."""

    @property
    def system(self) -> str:
        """The operating system's name: Linux, Darwin …"""

    @property
    def architecture(self) -> str:
        """The processor's name: x86_64, aarch64 …"""

    @property
    def kernel(self) -> str:
        """The kernel's release."""

    @property
    def uid(self) -> int:
        """The effective user."""

    @property
    def cpus(self) -> int:
        """Processors that this process may use."""

    def read(self, path: str) -> str | None:
        """A file's text, unpacked if its name ends in .gz; None when it is not there or may not be read."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""

    def which(self, program: str) -> str | None:
        """Where the program is on PATH."""

    def run(self, argv: Sequence[str], *, timeout: float) -> Executed:
        """Run a program that only tells; code None when it did not end in time."""

    def variable(self, name: str) -> str | None:
        """An environment variable."""

    def free_bytes(self, path: str) -> tuple[int, int] | None:
        """(file system's number, bytes free on it) of the path, or of its nearest parent that exists."""

    def refuses_files(self, path: str) -> str:
        """Why no file can be made in that folder, or in its nearest parent that exists; empty when one can."""


class LocalMachine:
    """This machine."""

    @property
    def system(self) -> str:
        return platform.system()

    @property
    def architecture(self) -> str:
        return platform.machine()

    @property
    def kernel(self) -> str:
        return platform.release()

    @property
    def uid(self) -> int:
        return os.geteuid()

    @property
    def cpus(self) -> int:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def read(self, path: str) -> str | None:
        try:
            content = Path(path).read_bytes()
            return (gzip.decompress(content) if path.endswith(".gz") else content).decode(errors="replace")
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def which(self, program: str) -> str | None:
        return shutil.which(program)

    def run(self, argv: Sequence[str], *, timeout: float) -> Executed:
        return run(argv, timeout=timeout, check=False)

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def free_bytes(self, path: str) -> tuple[int, int] | None:
        place = nearest(Path(path))
        try:
            return place.stat().st_dev, shutil.disk_usage(place).free
        except OSError:
            return None

    def refuses_files(self, path: str) -> str:
        try:
            with tempfile.TemporaryFile(dir=nearest(Path(path))):
                return ""
        except OSError as error:
            return error.strerror or str(error)
