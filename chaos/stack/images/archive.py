"""The `archive` source: one file with every image and program, for sites without internet.

A tar file of ``inventory.json`` (what is inside, with the sha256 of every part), ``images.tar`` (as `docker save` writes
it), ``bin/`` (kind, kubectl) and ``kuberay/`` (KubeRay's manifests).
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.console import Console
from chaos.errors import ImageError, UsageError
from chaos.settings import Settings
from chaos.stack.engine import Engine
from chaos.stack.images import cache
from chaos.stack.images.source import Provided

_FORMAT = 1
_PARTS = ("images.tar", "bin/kind", "bin/kubectl", "kuberay.tar")


@dataclass(frozen=True)
class Inventory:
    """What an archive says of itself."""

    format: int
    versions: dict[str, str]
    node: str
    images: dict[str, str]
    control_plane: dict[str, str]
    operator: str
    digests: dict[str, str]


def require_writable(target: Path) -> None:
    """Raises UsageError when no archive can be written there: asked before hours of work, not after them."""
    with _scratch_beside(target):
        pass


@contextmanager
def _scratch_beside(target: Path) -> Iterator[Path]:
    """A folder on the file system of ``target``, removed afterwards."""
    try:
        scratch = Path(tempfile.mkdtemp(prefix=".archive.", dir=target.absolute().parent))
    except OSError as problem:
        raise UsageError(
            f"{target} can't be written: {problem}", fix="choose a folder with room that you may write to"
        ) from problem
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def save(provided: Provided, settings: Settings, engine: Engine, target: Path, console: Console) -> None:
    """Write an archive of everything that ``provided`` holds; appears whole or not at all."""
    references = sorted({provided.node, *provided.images.values(), *provided.control_plane.values()})
    with _scratch_beside(target) as scratch:
        with console.step(f"Saving {len(references)} images", expect=60):
            engine.docker("save", "--output", scratch / "images.tar", *references, timeout=1800)
        (scratch / "bin").mkdir()
        shutil.copy2(provided.kind, scratch / "bin" / "kind")
        shutil.copy2(provided.kubectl, scratch / "bin" / "kubectl")
        with tarfile.open(scratch / "kuberay.tar", "w") as tar:
            tar.add(provided.kuberay_config, arcname="config")
        inventory = {
            "format": _FORMAT,
            "versions": settings.versions.as_json(),
            "node": provided.node,
            "images": provided.images,
            "control_plane": provided.control_plane,
            "operator": settings.kuberay_image or "",
            "digests": {part: cache.file_digest(scratch / part) for part in _PARTS},
        }
        (scratch / "inventory.json").write_text(json.dumps(inventory, indent=2))
        with console.step(f"Writing {target}", expect=30):
            whole = scratch / "whole.tar"
            with tarfile.open(whole, "w") as tar:
                for part in ["inventory.json", *_PARTS]:
                    tar.add(scratch / part, arcname=part)
            whole.rename(target)


class ArchiveSource:
    """Reads one archive."""

    name = "archive"

    def __init__(self, settings: Settings, engine: Engine) -> None:
        if settings.archive is None:
            raise UsageError("`--images archive` needs a file", fix="--archive FILE, as `images save FILE` made it")
        self.path = settings.archive
        self.settings = settings
        self.engine = engine

    def provide(self, console: Console) -> Provided:
        """Unpack once, verify every part, and load the images into the engine."""
        folder = cache.cached("archives", cache.file_digest(self.path)[:16], self._unpack)
        inventory = _inventory(folder)
        if inventory.versions != self.settings.versions.as_json():
            inside = ", ".join(f"{k} {v}" for k, v in inventory.versions.items())
            raise UsageError(
                f"{self.path} holds other versions: {inside}",
                fix="ask for those versions, or make an archive of the ones you want with `kuberay-chaos images save`",
            )
        wanted = {inventory.node, *inventory.images.values(), *inventory.control_plane.values()}
        if not all(self.engine.has_image(reference) for reference in wanted):
            with console.step("Loading images from the archive", expect=60):
                self.engine.docker("load", "--input", folder / "images.tar", timeout=1800)
        return Provided(
            node=inventory.node,
            images=inventory.images,
            kind=folder / "bin" / "kind",
            kubectl=folder / "bin" / "kubectl",
            kuberay_config=folder / "config",
            control_plane=inventory.control_plane,
            provenance={"everything": f"{self.path.name}, each part verified by the sha256 in its inventory"},
        )

    def operator(self, version: str, console: Console) -> tuple[str, str, Path]:
        """An archive holds one operator version only."""
        raise ImageError(
            f"the archive holds KubeRay {self.settings.versions.kuberay} only, not {version}",
            fix=f"make another archive with --kuberay {version}",
        )

    def ray(self, version: str, console: Console) -> tuple[str, str]:
        """An archive holds one Ray version only."""
        raise ImageError(
            f"the archive holds Ray {self.settings.versions.ray} only, not {version}",
            fix=f"make another archive with --ray {version}",
        )

    def _unpack(self, result: Path, progress: cache.Progress) -> None:
        try:
            with tarfile.open(self.path) as tar:
                tar.extractall(result, filter="data")
            inventory = _inventory(result)
            for part in _PARTS:
                if cache.file_digest(result / part) != inventory.digests.get(part):
                    raise ImageError(
                        f"{part} in {self.path} is damaged: its sha256 isn't the inventory's", fix="copy the file again"
                    )
            with tarfile.open(result / "kuberay.tar") as tar:
                tar.extractall(result, filter="data")
        except (tarfile.TarError, KeyError, EOFError) as problem:
            raise UsageError(f"{self.path} is not an archive of `images save`: {problem}") from problem


def _inventory(folder: Path) -> Inventory:
    try:
        document = json.loads((folder / "inventory.json").read_text())
        inventory = Inventory(**document)
    except (OSError, ValueError, TypeError) as problem:
        raise UsageError(f"this is not an archive of `images save`: {problem}") from problem
    if inventory.format != _FORMAT:
        raise UsageError(f"the archive's format is {inventory.format}, this version reads {_FORMAT}")
    return inventory
