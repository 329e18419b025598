"""Docker: the engine that runs the nodes.

The one that runs is used as it is; its configuration is never changed. Where none runs and we are root on Debian or
Ubuntu, the distribution's engine is installed and started by us, adapted to what the machine lacks, and recorded in the
state folder so that `down` can stop it again. Everything goes through the `docker` command, as kind itself does.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chaos.console import Console
from chaos.errors import EngineError
from chaos.paths import state_dir
from chaos.process import Executed, run, run_logged
from chaos.waiting import until

# Containers, networks and images of ours carry these labels, so that leftovers can be told from other people's.
STACK_LABEL = "kuberay-chaos.stack"
# The stack's folder, which says whether anybody still knows of it: several state folders may share one engine.
FOLDER_LABEL = "kuberay-chaos.folder"


def labels(stack: str, folder: Path) -> list[str]:
    """Options that label a new container or network as a stack's."""
    return [f"--label={STACK_LABEL}={stack}", f"--label={FOLDER_LABEL}={folder}"]


# The runtime under which our own engine grants what this machine can grant.
ADAPTED_RUNTIME = "without-sys-resource"

_ANSWER_SECONDS = 10.0

_START_FIX = (
    "start Docker, or run as root on Debian or Ubuntu, where the distribution's engine is installed and started"
)


class Engine:
    """A reachable Docker engine."""

    def docker(
        self,
        *args: str | Path,
        stdin: bytes | None = None,
        timeout: float = 60,
        check: bool = True,
        env: dict[str, str] | None = None,
    ) -> Executed:
        """Run one docker command; raises `EngineError` with Docker's own words."""
        return run(["docker", *args], stdin=stdin, timeout=timeout, check=check, error=EngineError, env=env)

    def exec(self, container: str, argv: Sequence[str], stdin: bytes | None = None, timeout: float = 60) -> Executed:
        """Run a command in a container; its exit code is the result's, never an exception."""
        interactive = ["-i"] if stdin is not None else []
        return self.docker("exec", *interactive, container, *argv, stdin=stdin, timeout=timeout, check=False)

    def inspect(self, kind: str, name: str) -> dict[str, Any] | None:
        """`docker KIND inspect NAME`, or None when there is no such thing."""
        found = self.docker(kind, "inspect", name, check=False)
        if not found.ok:
            return None
        document: dict[str, Any] = json.loads(found.stdout)[0]
        return document

    def has_image(self, reference: str) -> bool:
        return self.docker("image", "inspect", "--format", "{{.Id}}", reference, check=False).ok

    def image_id(self, reference: str) -> str:
        """The image's content address, ``sha256:…``."""
        return self.docker("image", "inspect", "--format", "{{.Id}}", reference).text.strip()

    def info(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.docker("info", "--format", "{{json .}}").stdout)
        return document


def reachable() -> Executed:
    """Ask the daemon for its version; not ok when there is none, it hangs, or we may not."""
    return run(["docker", "version", "--format", "{{.Server.Version}}"], timeout=_ANSWER_SECONDS, check=False)


def ensure(console: Console) -> Engine:
    """The running engine, or one that we install and start."""
    answer = reachable()
    if answer.ok:
        return Engine()
    said = answer.error_text
    if answer.code is None and shutil.which("docker") is not None:
        # There is one: a second beside it would fight it for the same folders and rules.
        raise EngineError(f"the Docker engine does not answer: {said.strip()}", fix="restart it, or see its log")
    if "permission denied" in said.lower():
        raise EngineError(
            "Docker is there but this user may not use it",
            fix="add the user to the docker group (sudo usermod -aG docker $USER, then log in anew), or run as root",
        )
    if not startable():
        raise EngineError(f"no Docker engine answers: {said.strip()[-300:]}", fix=_START_FIX)
    with console.step("Docker engine: none runs, installing and starting the distribution's", expect=40) as step:
        if shutil.which("dockerd") is None:
            step.say("apt-get install docker.io")
            _install()
        step.say("starting dockerd")
        _start()
    return Engine()


def startable() -> bool:
    """Whether we may install and start an engine here: root on Debian or Ubuntu."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None and _distribution() in {"debian", "ubuntu"}


def _distribution() -> str:
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return ""
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    return values.get("ID", "").strip('"')


def install_packages(*names: str) -> None:
    """Install Debian packages, without questions."""
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    log = state_dir() / "engine" / "apt.log"
    fix = "see the log; `apt-get install " + " ".join(names) + "` must work on this machine"
    run_logged(["apt-get", "update"], log=log, timeout=300, env=quiet, error=EngineError, fix=fix)
    run_logged(
        ["apt-get", "install", "-y", "--no-install-recommends", *names],
        log=log, timeout=900, env=quiet, error=EngineError, fix=fix,
    )  # fmt: skip


def _install() -> None:
    # Debian's engine brings containerd and runc; iptables is only recommended by it, and nothing works without.
    install_packages("docker.io", "iptables")


# --- an engine of our own -------------------------------------------------------------------------------------------


def _home() -> Path:
    return state_dir() / "engine"


def _pid_file() -> Path:
    return _home() / "docker.pid"


def started_by_us() -> int | None:
    """The process of the engine that we started, if it still lives."""
    try:
        pid = int(_pid_file().read_text())
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, ValueError):
        return None
    return pid if name == "dockerd" else None


def _start() -> None:
    home = _home()
    home.mkdir(parents=True, exist_ok=True)
    _clear_stale()
    arguments = ["dockerd", "--pidfile", str(_pid_file())]
    if not may_raise_limits():
        arguments += ["--add-runtime", f"{ADAPTED_RUNTIME}={_install_runtime(home)}"]
        arguments += ["--default-runtime", ADAPTED_RUNTIME]
    with (home / "dockerd.log").open("ab") as log:
        child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    fix = f"see {home / 'dockerd.log'}"
    until(
        lambda: child.poll() is not None or reachable().ok,
        what="an answer of dockerd", deadline=60, error=EngineError, fix=fix,
    )  # fmt: skip
    if child.returncode is not None:
        raise EngineError(f"dockerd ended with exit code {child.returncode}: {_last_error(home)}", fix=fix)


def _last_error(home: Path) -> str:
    lines = (home / "dockerd.log").read_text(errors="replace").splitlines()
    return lines[-1][-300:] if lines else "no word from it"


def _clear_stale() -> None:
    """Forget pid files of an engine that was killed: dockerd refuses to start while the number belongs to any process."""
    for pid_file, program in (
        (_pid_file(), "dockerd"),
        (Path("/var/run/docker.pid"), "dockerd"),
        (Path("/var/run/docker/containerd/containerd.pid"), "containerd"),
    ):
        try:
            pid = int(pid_file.read_text())
        except (OSError, ValueError):
            continue
        try:
            alive = Path(f"/proc/{pid}/comm").read_text().strip() == program
        except OSError:
            alive = False
        if not alive:
            pid_file.unlink(missing_ok=True)


def may_raise_limits() -> bool:
    """Whether the bounding set of capabilities holds CAP_SYS_RESOURCE (bit 24), which privileged containers are granted."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapBnd:"):
            return bool(int(line.split()[1], 16) >> 24 & 1)
    return True


def _install_runtime(home: Path) -> Path:
    """Write the runtime wrapper as a program that dockerd can call."""
    source = (Path(__file__).parent / "runtime_wrapper.py").read_text()
    program = home / "runc-without-sys-resource"
    program.write_text(f"#!{sys.executable}\n{source}")
    program.chmod(0o755)
    return program


def stop(console: Console) -> bool:
    """Stop the engine if it is ours; False when it isn't or none runs."""
    pid = started_by_us()
    if pid is None:
        return False
    with console.step("Stopping the Docker engine that was started for this", expect=5):
        os.kill(pid, signal.SIGTERM)
        until(
            lambda: started_by_us() != pid,
            what="the end of dockerd", deadline=30, error=EngineError, fix=f"kill -9 {pid}",
        )  # fmt: skip
    return True
