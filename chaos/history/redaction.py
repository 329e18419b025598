"""Secrets that must not reach a file, and their removal from what is about to be written.

A secret is registered once, when it is made; from then on every occurrence is replaced by ``[redacted]``. A secret of
several lines counts line by line, since a log may stamp each line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from chaos.history.objects import Json

MARK = "[redacted]"
_TELLING = 4  # bytes of a secret: fewer are as likely to be anything else


class Redactor:
    """A set of secrets that can be removed from JSON values and from bytes. Safe to share between threads."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: tuple[str, ...] = ()
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Register a secret; blank lines in it are ignored."""
        found = {*self._secrets, *(line for line in secret.splitlines() if line.strip())}
        # Longest first, so that a secret inside a longer one doesn't leave the rest of the longer one behind.
        # A new tuple and not a change in place: readers in other threads see the old set or the new one.
        self._secrets = tuple(sorted(found, key=len, reverse=True))

    def found_in(self, line: str) -> bool:
        """Whether a line of ASCII-only JSON holds a secret."""
        return any(json.dumps(secret)[1:-1] in line for secret in self._secrets)

    def value(self, value: Json) -> Json:
        """A JSON value with the secrets removed from every string in it, keys too; its shape stays."""
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, MARK)
            return value
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        return value

    def data(self, data: bytes, *, torn: bool = False) -> bytes:
        """Bytes with the secrets' UTF-8 forms removed; all other bytes as they are.

        ``torn`` data ends where something was cut off, so that its end may be the beginning of a secret.
        """
        secrets = [secret.encode() for secret in self._secrets]
        for secret in secrets:
            data = data.replace(secret, MARK.encode())
        if torn and (length := max((_begun(secret, data) for secret in secrets), default=0)):
            data = data[:-length] + MARK.encode()
        return data


def _begun(secret: bytes, data: bytes) -> int:
    """How many bytes at the end of ``data`` begin the secret; too few to tell anything count as none."""
    lengths = range(min(len(secret) - 1, len(data)), _TELLING - 1, -1)
    return next((length for length in lengths if data.endswith(secret[:length])), 0)
