"""What a running stack was made of, kept beside it: the basis for using it again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from chaos.locks import atomic_write

# In the place of an image source, where the cluster is one of the user's.
GIVEN = "given"


@dataclass(frozen=True)
class StackRecord:
    """Written when a stack is complete. ``images`` maps official names to content addresses (``sha256:…``)."""

    fingerprint: str
    node_image: str
    source: str
    versions: dict[str, str]
    sealed: bool
    manifests: str  # a digest of what was applied
    images: dict[str, str] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        atomic_write(path, json.dumps(asdict(self), indent=2) + "\n")

    def differs_from(self, other: StackRecord) -> list[str]:
        """Which inputs differ, by name; where an image was taken from makes no other stack."""
        mine, others = asdict(self), asdict(other)
        differ = [name for name in mine if name != "provenance" and mine[name] != others[name]]
        return ["options" if name == "fingerprint" else name.replace("_", " ") for name in differ]

    @classmethod
    def load(cls, path: Path) -> StackRecord | None:
        """None when there is none or it can't be read: the stack is then not trusted."""
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return None
