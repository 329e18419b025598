"""`auto`: which source serves this machine, and why."""

from __future__ import annotations

from chaos.console import Console
from chaos.process import run
from chaos.settings import Settings, Source
from chaos.stack.engine import Engine, startable
from chaos.stack.images import catalogue
from chaos.stack.images.archive import ArchiveSource
from chaos.stack.images.build import BuildSource
from chaos.stack.images.registry import RegistrySource
from chaos.stack.images.source import ImageSource

_ASK_SECONDS = 15


def choose(settings: Settings, engine: Engine, console: Console) -> ImageSource:
    """The source that the settings name; for `auto`, the registry when it answers, otherwise `build` where that can work."""
    source = settings.source
    if source is Source.AUTO:
        source, why = _automatic(settings)
        console.info(f"images: {source} ({why})")
    if source is Source.REGISTRY:
        return RegistrySource(settings, engine)
    if source is Source.ARCHIVE:
        return ArchiveSource(settings, engine)
    return BuildSource(settings, engine)


def _automatic(settings: Settings) -> tuple[Source, str]:
    image = catalogue.ray_image(settings.versions.ray)
    asked = run(["docker", "manifest", "inspect", image], timeout=_ASK_SECONDS, check=False)
    if asked.ok:
        return Source.REGISTRY, "the image registries answer"
    if startable():
        return Source.BUILD, "no image registry answers; images are built from packages"
    return Source.REGISTRY, "no image registry answers, and this machine can't build images either"
