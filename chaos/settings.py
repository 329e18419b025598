"""Every input of a run, validated before anything is touched.

The command line and the pytest plugin declare the same options from the same two tables, `STACK_OPTIONS` (what the
stack is made of) and `RUN_OPTIONS` (what is done with it), and both hand the parsed values to `Settings.from_args`.
Whatever is wrong ends there, as one `UsageError` that says what would be right; the rest of the package takes a
`Settings` as given.

Options are declared without argparse's ``type`` and ``choices`` on purpose: argparse would answer in its own words and
with its own exit code.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from chaos.errors import UsageError
from chaos.own.file import Kind, Own, read
from chaos.paths import expanded, nearest
from chaos.shards import Shard


class Source(StrEnum):
    """Where images and programs come from; `AUTO` lets the image layer choose and say which."""

    AUTO = "auto"
    REGISTRY = "registry"
    BUILD = "build"
    ARCHIVE = "archive"


class Level(StrEnum):
    """How much is run, each level with those before: whether it works at all, what the product is known for, one arm of
    what people ask most, or everything.
    """

    SMOKE = "smoke"
    FLAGSHIP = "flagship"
    CORE = "core"
    FULL = "full"


# --- versions -------------------------------------------------------------------------------------------------------

# Releases that the version table speaks of and that every image source can serve.
KUBERAY_VERSIONS = (
    "1.0.0", "1.1.0", "1.1.1", "1.2.2", "1.3.2", "1.4.0", "1.4.2", "1.5.0", "1.5.1", "1.6.0", "1.6.2",
)  # fmt: skip
# Versions that the node image can be built for; others need official node images, hence the registry.
KUBERNETES_VERSIONS = ("1.34.0", "1.34.1", "1.34.2", "1.34.3", "1.34.4")
# The oldest Ray whose dashboard, CLI and GCS fault tolerance the workloads rely on.
OLDEST_RAY = "2.38.0"


@dataclass(frozen=True)
class Versions:
    """The stack's versions, each ``X.Y.Z`` without a leading v.

    Redis is not chosen: the image source names the one it has, and ``dataclasses.replace`` puts it here.
    """

    kuberay: str = "1.6.2"
    ray: str = "2.60.0"
    kubernetes: str = "1.34.4"
    redis: str = ""

    def as_json(self) -> dict[str, str]:
        """Component to version; a component whose version isn't known yet is left out."""
        return {component: version for component, version in asdict(self).items() if version}


_VERSION = re.compile(r"v?((0|[1-9]\d{0,4})\.(0|[1-9]\d{0,4})\.(0|[1-9]\d{0,4}))", re.ASCII)


def _version(component: str, text: str) -> str:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is not a version of {component}",
            fix=f"three numbers, as in {getattr(Versions(), component)}",
        )
    return match[1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _nearest(version: str, known: Iterable[str]) -> str:
    """The known version that differs least, the major number weighing most."""
    wanted = _numbers(version)
    return min(known, key=lambda candidate: [abs(a - b) for a, b in zip(_numbers(candidate), wanted, strict=True)])


def _kuberay_version(text: str) -> str:
    version = _version("kuberay", text)
    if version not in KUBERAY_VERSIONS:
        raise UsageError(
            f"KubeRay {version} is not one of the versions known here: {', '.join(KUBERAY_VERSIONS)}",
            fix=f"the nearest is {_nearest(version, KUBERAY_VERSIONS)}; for a build of your own give --kuberay DIR (a "
            "checkout's config folder) with --kuberay-image IMAGE",
        )
    return version


def _ray_version(text: str) -> str:
    version = _version("ray", text)
    if _numbers(version) < _numbers(OLDEST_RAY):
        raise UsageError(
            f"Ray {version} is too old: {OLDEST_RAY} or newer is needed", fix=f"the nearest is {OLDEST_RAY}"
        )
    return version


def _kubernetes_version(text: str, source: Source) -> str:
    version = _version("kubernetes", text)
    if version not in KUBERNETES_VERSIONS and source is not Source.REGISTRY:
        raise UsageError(
            f"Kubernetes {version} is not one of the versions known here: {', '.join(KUBERNETES_VERSIONS)}",
            fix=f"the nearest is {_nearest(version, KUBERNETES_VERSIONS)}; any other needs its official node image: "
            "--images registry",
        )
    return version


# --- options --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """One option: its long name without dashes, its help, and what its value is called; a flag has none."""

    name: str
    help: str
    metavar: str = ""
    repeated: bool = False  # may be given several times; each value may also be several, with commas between them

    def keywords(self, *, prefix: str = "") -> dict[str, Any]:
        """Keyword arguments for argparse's ``add_argument`` and pytest's ``addoption`` alike."""
        dest = prefix + self.name.replace("-", "_")
        if not self.metavar:
            return {"dest": dest, "action": "store_true", "default": False, "help": self.help}
        action = {"action": "append"} if self.repeated else {}
        return {"dest": dest, "metavar": self.metavar, "default": None, "help": self.help, **action}


STACK_OPTIONS: Sequence[Option] = (
    Option("name", "name of the stack (default: kuberay-chaos)", "NAME"),
    Option("kuberay", "KubeRay version, or a checkout's config folder (default: 1.6.2)", "VERSION|DIR"),
    Option("kuberay-image", "operator image that goes with --kuberay DIR", "IMAGE"),
    Option("ray", "Ray version (default: 2.60.0)", "VERSION"),
    Option("kubernetes", "Kubernetes version (default: 1.34.4)", "VERSION"),
    Option("images", "where images and programs come from: auto, registry, build or archive (default: auto)", "SOURCE"),
    Option("registry-prefix", "mirror that stands before every image name, as in mirror.example.org/hub", "PREFIX"),
    Option("archive", "file made by `images save`; implies --images archive", "FILE"),
    Option("open-egress", "let the stack reach the outside; it is sealed otherwise"),
    Option("wait", "seconds to wait for another run on this stack to end (default: 0, refuse at once)", "SECONDS"),
    Option("recreate", "replace a cluster that is unhealthy or was made from other inputs"),
)

RUN_OPTIONS: Sequence[Option] = (
    Option("level", "how much is run: smoke, flagship, core or full (default: core)", "LEVEL"),
    Option("select", "only experiments whose names match, as pytest's -k (`list` has the names)", "EXPRESSION"),
    Option("repeat", "run each experiment N times, and tell rates with their intervals (default: 1)", "N"),
    Option("shard", "run part I of N, of about equal time, and leave the other experiments to other runs", "I/N"),
    Option("jobs", "how many experiments run side by side (default: as many as the machine carries)", "N"),
    Option("seed", "seed of every random choice (default: a new one, printed)", "N"),
    Option("results", "folder for results (default: results)", "DIR"),
    Option("keep", "leave the stack up afterwards (the default, except with CI=true)"),
    Option("remove", "remove the stack afterwards (the default with CI=true)"),
    Option("accept-known", "let known defects pass, and print their number"),
    Option("dry-run", "tell every action and its undo, and do none of them"),
    Option("raycluster", "make Ray clusters from this manifest of yours, and run only what makes them", "FILE"),
    Option("rayjob", "make RayJobs from this manifest of yours, and run only what makes them", "FILE"),
    Option("kubeconfig", "run on a cluster of yours, in namespaces of our own; goes with --context", "FILE"),
    Option("context", "the context in --kubeconfig FILE", "NAME"),
    Option(
        "allow-fault",
        "on a cluster of yours: a fault that may reach beyond our own namespaces; repeatable",
        "FAULT[,FAULT]",
        repeated=True,
    ),
)


def add_stack_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that make a stack."""
    group = parser.add_argument_group("stack")
    for option in STACK_OPTIONS:
        group.add_argument(f"--{option.name}", **option.keywords())


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a run; ``--select`` is also ``-k``, as in pytest."""
    group = parser.add_argument_group("run")
    for option in RUN_OPTIONS:
        short = ("-k",) if option.name == "select" else ()
        group.add_argument(*short, f"--{option.name}", **option.keywords())


# --- a cluster of the user's ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GivenCluster:
    """A context of a kubeconfig of the user's. ``server`` is the API server's address, which tells clusters apart."""

    kubeconfig: Path
    context: str
    server: str

    @property
    def name(self) -> str:
        """What is kept of a run there is kept under this name, and locked: the same for every user of that server."""
        return f"given-{hashlib.sha256(self.server.encode()).hexdigest()[:10]}"


# What these would do to a stack of ours is not for a cluster of somebody else's.
_STACK_ONLY = (
    "name",
    "kubernetes",
    "images",
    "archive",
    "registry_prefix",
    "kuberay_image",
    "open_egress",
    "recreate",
    "remove",
)


def _given_cluster(kubeconfig: str, context: str, stack_options: Sequence[str]) -> GivenCluster | None:
    if not kubeconfig and not context:
        return None
    if not (kubeconfig and context):
        raise UsageError(
            "--kubeconfig and --context go together",
            fix="give both to run on a cluster of yours, or neither for one of our own",
        )
    if stack_options:
        option = stack_options[0].replace("_", "-")
        raise UsageError(
            f"--{option} is about a stack of our own and does not go with --kubeconfig", fix="leave it out"
        )
    path = _file(kubeconfig)
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        contexts = {str(item["name"]): item["context"]["cluster"] for item in document["contexts"] or []}
        servers = {str(item["name"]): item["cluster"]["server"] for item in document["clusters"] or []}
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        lines = str(problem).splitlines() or [""]
        raise UsageError(
            f"{path} is not a kubeconfig: {type(problem).__name__}: {lines[0]}",
            fix="`kubectl config view` shows what one looks like",
        ) from problem
    if context not in contexts:
        raise UsageError(
            f"{path} has no context {context!r}", fix=f"one of {', '.join(contexts)}" if contexts else "it has none"
        )
    if contexts[context] not in servers:
        raise UsageError(
            f"context {context!r} of {path} names the cluster {contexts[context]!r}, which is not in it",
            fix="choose another context, or correct the file",
        )
    server = str(servers[contexts[context]])
    if not server.startswith("https://"):
        raise UsageError(
            f"context {context!r} of {path} talks to {server}, which nobody can verify",
            fix="give it a server with https",
        )
    return GivenCluster(path, context, server)


def _allowed_faults(given: Sequence[str], cluster: GivenCluster | None) -> tuple[str, ...]:
    names = tuple(name.strip() for value in given for name in value.split(",") if name.strip())
    if names and cluster is None:
        raise UsageError(
            "--allow-fault goes with --kubeconfig", fix="leave it out: on a stack of our own every fault is allowed"
        )
    return names


# --- a workload of the user's ---------------------------------------------------------------------------------------


def _own(raycluster: str, rayjob: str, cluster: GivenCluster | None) -> dict[Kind, Own]:
    if rayjob and cluster is not None:
        raise UsageError(
            "--rayjob does not go with --kubeconfig: RayJobs are counted in a ledger that all nodes share",
            fix="leave --kubeconfig out: a stack of our own has one",
        )
    files = {Kind.RAYCLUSTER: raycluster, Kind.RAYJOB: rayjob}
    return {kind: read(_file(file), kind) for kind, file in files.items() if file}


# --- settings -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """The validated inputs of one command. Made by `from_args`; the defaults are those of a run without options."""

    name: str = "kuberay-chaos"
    versions: Versions = Versions()
    kuberay_dir: Path | None = None  # own build: a checkout's config folder; judged as versions.kuberay
    kuberay_image: str | None = None
    source: Source = Source.AUTO
    registry_prefix: str = ""
    archive: Path | None = None
    open_egress: bool = False
    wait: float = 0
    recreate: bool = False
    level: Level = Level.CORE
    select: str = ""
    repeat: int = 1
    shard: Shard | None = None  # all
    jobs: int | None = None  # as many as the machine carries
    seed: int = field(default_factory=lambda: secrets.randbits(32))
    results: Path = Path("results")
    keep: bool = True
    accept_known: bool = False
    dry_run: bool = False
    given: GivenCluster | None = None  # a cluster of the user's, in the place of a stack
    allow_faults: tuple[str, ...] = ()  # those that may reach beyond our own namespaces there
    own: Mapping[Kind, Own] = field(default_factory=dict)  # what the user gave in the place of our manifests

    @classmethod
    def from_args(cls, namespace: argparse.Namespace, *, prefix: str = "") -> Settings:
        """Settings from parsed options, each an attribute ``prefix + name``; absent ones take their default.

        Makes the results folder when ``namespace`` has that option. Raises `UsageError` for everything that is wrong.
        """

        def given(name: str) -> str:
            return getattr(namespace, prefix + name, None) or ""

        def flag(name: str) -> bool:
            return bool(getattr(namespace, prefix + name, False))

        cluster = _given_cluster(
            given("kubeconfig"),
            given("context"),
            [name for name in _STACK_ONLY if getattr(namespace, prefix + name, None)],
        )
        own = _own(given("raycluster"), given("rayjob"), cluster)
        source = _source(given("images"), archive=given("archive"), registry_prefix=given("registry_prefix"))
        default = Versions()
        kuberay, kuberay_dir = _kuberay(given("kuberay"), given("kuberay_image"))
        return cls(
            name=cluster.name if cluster else _name(given("name") or cls.name),
            versions=Versions(
                kuberay=kuberay,
                ray=_ray_version(given("ray") or default.ray),
                kubernetes=_kubernetes_version(given("kubernetes") or default.kubernetes, source),
            ),
            kuberay_dir=kuberay_dir,
            kuberay_image=given("kuberay_image") or None,
            source=source,
            registry_prefix=_registry_prefix(given("registry_prefix")),
            archive=_file(given("archive")) if given("archive") else None,
            open_egress=flag("open_egress"),
            wait=_seconds("--wait", given("wait")),
            recreate=flag("recreate"),
            level=Level(_one_of("--level", given("level") or Level.CORE, Level)),
            select=given("select"),
            repeat=_repeat(given("repeat")),
            shard=_shard(given("shard")),
            jobs=_jobs(given("jobs")),
            seed=_seed(given("seed")),
            results=_writable_folder(given("results") or "results", only_look=flag("dry_run"))
            if hasattr(namespace, f"{prefix}results")
            else cls.results,
            keep=_keep(keep=flag("keep"), remove=flag("remove")),
            accept_known=flag("accept_known"),
            dry_run=flag("dry_run"),
            given=cluster,
            allow_faults=_allowed_faults(getattr(namespace, f"{prefix}allow_fault", None) or (), cluster),
            own=own,
        )

    def fingerprint(self) -> str:
        """SHA-256, in hex, of the inputs that make a stack; a running one of equal fingerprint can be used again.

        `Source.AUTO` is an input like the others: put the source that was chosen in its place first.
        """
        inputs = {
            "versions": {**self.versions.as_json(), "redis": ""},  # the source decides it
            "source": self.source,
            "open_egress": self.open_egress,
            "kuberay_dir": _content_hash(self.kuberay_dir) if self.kuberay_dir else None,
            "kuberay_image": self.kuberay_image,
        }
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _one_of(option: str, text: str, known: Iterable[str]) -> str:
    names = [str(name) for name in known]
    if text not in names:
        near = get_close_matches(text, names, n=1)
        raise UsageError(
            f"{option} {text!r} is not known",
            fix=f"one of {', '.join(names)}" + (f"; did you mean {near[0]}?" if near else ""),
        )
    return text


def _name(text: str) -> str:
    # Node containers are named NAME-control-plane and so on, which must stay a DNS label of at most 63 characters.
    if len(text) > 40 or re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", text) is None:
        raise UsageError(
            f"{text!r} cannot be the name of a stack",
            fix="use at most 40 lower-case letters, digits and dashes, with a letter or digit at both ends",
        )
    return text


def _source(text: str, *, archive: str, registry_prefix: str) -> Source:
    source = Source(_one_of("--images", text or Source.AUTO, Source))
    if archive and registry_prefix:
        raise UsageError("--archive and --registry-prefix name two sources", fix="give one of them")
    for option, value, implied in (
        ("--archive", archive, Source.ARCHIVE),
        ("--registry-prefix", registry_prefix, Source.REGISTRY),
    ):
        if value and source not in {Source.AUTO, implied}:
            raise UsageError(
                f"{option} does not go with --images {source}", fix=f"leave one out, or use --images {implied}"
            )
        if value:
            source = implied
    if source is Source.ARCHIVE and not archive:
        raise UsageError(
            "--images archive needs --archive FILE",
            fix="make the file with `kuberay-chaos images save FILE` where images can be had",
        )
    return source


_REGISTRY_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")


def _registry_prefix(text: str) -> str:
    prefix = text.rstrip("/")
    if prefix and _REGISTRY_PREFIX.fullmatch(prefix) is None:
        raise UsageError(
            f"--registry-prefix {text!r} is not the beginning of an image name",
            fix="give HOST[:PORT][/PATH] in lower case and without a scheme, as in mirror.example.org:5000/hub",
        )
    return prefix


def _kuberay(text: str, image: str) -> tuple[str, Path | None]:
    """The version, and the folder of one's own build; a separator, or a folder of that name, tells that it is one."""
    default = Versions().kuberay
    own = os.sep in text or expanded(text).is_dir() if text else False
    if not own:
        if image:
            raise UsageError(
                "--kuberay-image goes with --kuberay DIR", fix="give the config folder that the image belongs to"
            )
        return _kuberay_version(text or default), None
    if not image:
        raise UsageError(f"--kuberay {text} is a folder, so its image is needed too", fix="add --kuberay-image IMAGE")
    return default, _config_folder(expanded(text))


def _config_folder(folder: Path) -> Path:
    kustomization = Path("default/kustomization.yaml")
    if (folder / kustomization).is_file():
        return folder.resolve()
    inside = next(
        (c for c in (folder / "config", folder / "ray-operator/config") if (c / kustomization).is_file()), None
    )
    raise UsageError(
        f"{folder} is not KubeRay's config folder: it has no {kustomization}",
        fix=f"give {inside}" if inside else "give the folder ray-operator/config of a KubeRay checkout",
    )


def _file(text: str) -> Path:
    path = expanded(text)
    if not path.is_file():
        raise UsageError(f"{path} is not a file" if path.exists() else f"there is no file {path}", fix="check the path")
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path} may not be read by this user", fix=f"chmod u+r {path}, or run as its owner")
    return path.resolve()


def _seconds(option: str, text: str) -> float:
    if text and re.fullmatch(r"\d{1,6}", text, re.ASCII) is None:
        raise UsageError(f"{option} {text!r} is not a number of seconds", fix="give a whole number, such as 600")
    return float(text or 0)


def _jobs(text: str) -> int | None:
    if text and re.fullmatch(r"[1-9]\d?", text, re.ASCII) is None:
        raise UsageError(f"--jobs {text!r} is not a number of experiments", fix="give 1 to 99")
    return int(text) if text else None


def _repeat(text: str) -> int:
    if text and re.fullmatch(r"[1-9]\d{0,2}", text, re.ASCII) is None:
        raise UsageError(f"--repeat {text!r} is not a number of times", fix="give 1 to 999")
    return int(text or 1)


def _shard(text: str) -> Shard | None:
    if not text:
        return None
    match = re.fullmatch(r"(\d{1,3})/(\d{1,3})", text, re.ASCII)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"--shard {text!r} is not a part of a run", fix="give I/N, with I from 1 to N, as in 1/3")
    return Shard(int(match[1]), int(match[2]))


def _seed(text: str) -> int:
    if not text:
        return secrets.randbits(32)
    if re.fullmatch(r"\d{1,18}", text, re.ASCII) is None:
        raise UsageError(f"--seed {text!r} is not a whole number", fix="give the number that an earlier run printed")
    return int(text)


def _writable_folder(text: str, *, only_look: bool) -> Path:
    folder = expanded(text).absolute()
    try:
        if only_look:
            place = nearest(folder)
            if not place.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if not os.access(place, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return folder
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"results cannot be written to {folder}: {error.strerror}",
            fix="give another folder with --results DIR, or make it writable",
        ) from error
    return folder


def _keep(*, keep: bool, remove: bool) -> bool:
    if keep and remove:
        raise UsageError("--keep and --remove contradict each other", fix="give one of them")
    return keep or not (remove or os.environ.get("CI", "").lower() == "true")


def _content_hash(folder: Path) -> str:
    """SHA-256, in hex, over the names and contents of all files below ``folder``."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{content}  {path.relative_to(folder).as_posix()}\n".encode())
    return digest.hexdigest()
