"""A snapshot in a file that can be passed on: a gzipped tar with JSON for objects and the logs as they were.

::

    bundle/about.json                       when, of what, what is missing, notes
    bundle/objects/RESOURCE.json            a list of objects
    bundle/ray/NAMESPACE/CLUSTER.json       Ray's record
    bundle/logs/NAMESPACE/POD/CONTAINER[.previous].log

Reading takes the tar, or the folder that it was unpacked to; nothing is ever written where an archive says.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from chaos import __version__
from chaos.errors import UsageError
from chaos.estate.resource import Object
from chaos.snapshot.secrets import redacted
from chaos.snapshot.snapshot import LogOf, Snapshot

_ROOT = "bundle"
_PREVIOUS = ".previous"
_LARGEST = 256 * 1024 * 1024  # of one member: an archive that says more is no bundle of ours


def write(snapshot: Snapshot, file: Path) -> None:
    """Write it, without secrets. Raises UsageError when the file can't be written."""
    clean = redacted(snapshot)
    about = {
        "program": f"kuberay-chaos {__version__}",
        "source": clean.source,
        "taken": clean.taken,
        "missing": dict(clean.missing),
        "notes": list(clean.notes),
    }
    try:
        with tarfile.open(file, "w:gz") as archive:
            _add(archive, "about.json", _dump(about))
            for resource, objects in clean.objects.items():
                _add(archive, f"objects/{resource}.json", _dump(objects))
            for (namespace, name), said in clean.ray.items():
                _add(archive, f"ray/{namespace}/{name}.json", _dump(said))
            for of, data in clean.logs.items():
                suffix = _PREVIOUS if of.previous else ""
                _add(archive, f"logs/{of.namespace}/{of.pod}/{of.container}{suffix}.log", data)
    except OSError as error:
        raise UsageError(f"{file} can't be written: {error.strerror}", fix="give another file with -o") from error


def read(path: Path) -> Snapshot:
    """Read a bundle or the folder it was unpacked to. Raises UsageError when it is neither."""
    members = dict(_from_folder(path) if path.is_dir() else _from_tar(path))
    try:
        about = json.loads(members["about.json"])
        objects: dict[str, list[Object]] = {}
        ray: dict[tuple[str, str], Object] = {}
        logs: dict[LogOf, bytes] = {}
        for name, data in members.items():
            match name.split("/"):
                case ["objects", file]:
                    objects[file.removesuffix(".json")] = json.loads(data)
                case ["ray", namespace, file]:
                    ray[namespace, file.removesuffix(".json")] = json.loads(data)
                case ["logs", namespace, pod, file]:
                    container = file.removesuffix(".log")
                    previous = container.endswith(_PREVIOUS)
                    logs[LogOf(namespace, pod, container.removesuffix(_PREVIOUS), previous)] = data
        return Snapshot(str(path), about["taken"], objects, logs, ray, about["missing"], tuple(about["notes"]))
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(f"{path} is no bundle: {error}", fix="make one with `kuberay-chaos bundle -o FILE`") from error


def _dump(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(f"{_ROOT}/{name}")
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


def _from_tar(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                if member.isfile() and member.size <= _LARGEST and parts[:1] == (_ROOT,):
                    content = archive.extractfile(member)
                    assert content is not None
                    yield "/".join(parts[1:]), content.read()
    except (OSError, tarfile.TarError, EOFError) as error:
        raise UsageError(f"{path} is no bundle: {error}", fix="make one with `kuberay-chaos bundle -o FILE`") from error


def _from_folder(path: Path) -> Iterator[tuple[str, bytes]]:
    root = path if (path / "about.json").is_file() else path / _ROOT
    for file in sorted(root.rglob("*")):
        if file.is_file():
            yield file.relative_to(root).as_posix(), file.read_bytes()
