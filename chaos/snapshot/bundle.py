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
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from chaos import __version__
from chaos.errors import UsageError
from chaos.estate.resource import Object
from chaos.snapshot.secrets import redacted
from chaos.snapshot.snapshot import LogOf, Snapshot

_ROOT = "bundle"
_PREVIOUS = ".previous"
# In all, unpacked: an archive that says more is no bundle of ours.
_LARGEST = 512 * 1024 * 1024
_FIX = "make one with `kuberay-chaos bundle -o FILE`"


def write(snapshot: Snapshot, file: Path) -> None:
    """Write it, without secrets. Raises UsageError when the file can't be written."""
    clean = redacted(snapshot)
    members = 1 + len(clean.objects) + len(clean.ray) + len(clean.logs)
    about = {
        "program": f"kuberay-chaos {__version__}",
        "source": clean.source,
        "taken": clean.taken,
        "missing": dict(clean.missing),
        "notes": list(clean.notes),
        "members": members,  # of which a damaged archive loses some without a word
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
    """Read a bundle or the folder it was unpacked to. Raises UsageError when it is neither, or damaged."""
    members = dict(_from_folder(path) if path.is_dir() else _from_tar(path))
    try:
        about = json.loads(members["about.json"])
        if not all(isinstance(text, str) for text in (*about["missing"].values(), *about["notes"])):
            raise ValueError("about.json has another form")
        objects: dict[str, list[Object]] = {}
        ray: dict[tuple[str, str], Object] = {}
        logs: dict[LogOf, bytes] = {}
        for name, data in members.items():
            match name.split("/"):
                case ["objects", file]:
                    objects[file.removesuffix(".json")] = _objects(name, json.loads(data))
                case ["ray", namespace, file]:
                    ray[namespace, file.removesuffix(".json")] = _mapping(name, json.loads(data))
                case ["logs", namespace, pod, file]:
                    container = file.removesuffix(".log")
                    previous = container.endswith(_PREVIOUS)
                    logs[LogOf(namespace, pod, container.removesuffix(_PREVIOUS), previous)] = data
        found, meant = 1 + len(objects) + len(ray) + len(logs), about.get("members")
        if meant is not None and found != meant:
            raise ValueError(f"it is damaged: {found} of its {meant} parts are there")
        return Snapshot(str(path), str(about["taken"]), objects, logs, ray, about["missing"], tuple(about["notes"]))
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path} is no bundle: {what}", fix=_FIX) from error


def _objects(name: str, found: object) -> list[Object]:
    """A resource's objects, as far in as every reader goes without asking. Raises ValueError."""
    if not isinstance(found, list):
        raise ValueError(f"{name} is no list")
    for each in found:
        _mapping(name, each)
        for field in ("metadata", "spec", "status"):
            _mapping(f"{field} in {name}", each.get(field, {}))
    return found


def _mapping(name: str, found: object) -> Object:
    """Raises ValueError unless it is one."""
    if not isinstance(found, dict):
        raise ValueError(f"{name} has another form")
    return found


def _dump(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(f"{_ROOT}/{name}")
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


def _from_tar(path: Path) -> Iterator[tuple[str, bytes]]:
    left = _LARGEST
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                if not member.isfile() or parts[:1] != (_ROOT,):
                    continue
                left -= member.size
                if left < 0:
                    raise UsageError(f"{path} is no bundle: it holds more than {_LARGEST >> 20} MiB", fix=_FIX)
                content = archive.extractfile(member)
                assert content is not None
                yield "/".join(parts[1:]), content.read()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror or error}", fix="check the path") from error
    except (tarfile.TarError, EOFError, zlib.error) as error:
        what = "no tar file" if "could not be opened" in str(error) else f"it is damaged: {error}"
        raise UsageError(f"{path} is no bundle: {what}", fix=_FIX) from error


def _from_folder(path: Path) -> Iterator[tuple[str, bytes]]:
    root = path if (path / "about.json").is_file() else path / _ROOT
    for file in sorted(root.rglob("*")):
        if file.is_file():
            yield file.relative_to(root).as_posix(), file.read_bytes()
