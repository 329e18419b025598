"""The interface of an image source, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chaos.console import Console


@dataclass(frozen=True)
class Provided:
    """Everything a stack is made of, present in the Docker engine and on this disk.

    ``images`` maps an official name to the reference under which the engine holds it: our own builds never take an official
    name in the user's engine. ``control_plane`` is the part of it that must be imported because the node image lacks it.
    ``provenance`` says for each item where it came from and by what it was verified.
    """

    node: str
    images: dict[str, str]
    kind: Path
    kubectl: Path
    kuberay_config: Path
    control_plane: dict[str, str] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)


class ImageSource(Protocol):
    """One way to obtain images and programs."""

    name: str

    def provide(self, console: Console) -> Provided:
        """Obtain what is missing; raises ImageError."""
        ...

    def operator(self, version: str, console: Console) -> tuple[str, str, Path]:
        """Another operator version: official name, reference in the engine, folder of its ``config/``."""
        ...

    def ray(self, version: str, console: Console) -> tuple[str, str]:
        """Another Ray version: official name, reference in the engine."""
        ...
