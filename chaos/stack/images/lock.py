"""The digest lock: which content an official image name stands for.

Only `images lock`, which has just fetched the digests, writes entries that bind. A name without such an entry is recorded
when it is first used, marked so, and must stay the same on this machine from then on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import ImageError
from chaos.locks import atomic_write
from chaos.paths import state_dir


@dataclass(frozen=True)
class DigestLock:
    """A JSON file: official name → {"digest": "sha256:…", "how": "locked" or "first use"}."""

    path: Path

    @classmethod
    def default(cls) -> DigestLock:
        return cls(state_dir() / "image-digests.json")

    def entries(self) -> dict[str, dict[str, str]]:
        """Empty when there is no file; raises ImageError when it can't be read, since then nothing would bind any more."""
        try:
            document = json.loads(self.path.read_text())
            return {name: {"digest": entry["digest"], "how": entry["how"]} for name, entry in document.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
            raise ImageError(
                f"the digest lock {self.path} can't be read: {problem}",
                fix="if you trust what the registries serve today, remove it and run `kuberay-chaos images lock`",
            ) from problem

    def accept(self, name: str, digest: str) -> bool:
        """Whether ``digest`` is what the lock says; a name that it doesn't know is recorded and accepted."""
        known = self.entries()
        if name in known:
            return known[name]["digest"] == digest
        self._write({**known, name: {"digest": digest, "how": "first use"}})
        return True

    def bind(self, digests: dict[str, str]) -> None:
        """Replace the entries of these names by digests that were fetched just now."""
        self._write({**self.entries(), **{name: {"digest": d, "how": "locked"} for name, d in digests.items()}})

    def describe(self) -> str:
        """How many are locked and how many only recorded, in words."""
        hows = [entry["how"] for entry in self.entries().values()]
        return f"{hows.count('locked')} locked, {hows.count('first use')} recorded at first use"

    def _write(self, entries: dict[str, dict[str, str]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self.path, json.dumps(entries, indent=2, sort_keys=True) + "\n", mode=0o644)
