"""Taking secrets out of what a snapshot holds, so that a bundle can be passed on.

Kubernetes Secrets are never read. What is left are values that people write where they don't belong: environment
variables, parameters and options whose name says that they are secret, the URL of a Redis with its password, and the
same values wherever a log repeats them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from chaos.history.redaction import MARK, Redactor
from chaos.snapshot.snapshot import Snapshot

_SECRET_NAME = re.compile(r"passw|secret|token|api_?key|credential|private_?key|requirepass|masterauth", re.IGNORECASE)
# Names that speak of a secret without being one: a reference's, a file's.
_NO_SECRET = re.compile(
    r"secretKeyRef|secretName|serviceAccountToken|automount|_FILE$|name$|tokenExpiration", re.IGNORECASE
)
_IN_URL = re.compile(r"(?<=://)[^/@\s:]*:([^/@\s]+)@")
# What follows in the same line; of Redis' own command, a word for itself in capitals. A call is no password, but code.
_IN_TEXT = re.compile(
    r"(?:(?:requirepass|masterauth|sentinel auth-pass \S+|--redis-password|(?-i:\bAUTH))[ \t=]+"
    r"|passw(?:or)?d[\"']?[ \t]*[:=][ \t]*)"
    r"[\"']?([^\s\"'$,}(){]{4,}+)(?!\()",
    re.IGNORECASE,
)
_BEARER = re.compile(rb"(?i)(authorization:\s*bearer\s+|bearer\s+)[A-Za-z0-9._~+/=-]{16,}")
# What can't be taken out of texts without destroying them: it stays there, and is blanked under its own name alone.
SHORT = 6
_IN_URL_OF_LOG = re.compile(rb"(?<=://)([^/@\s:]*):[^/@\s]+@")


def redacted(snapshot: Snapshot) -> Snapshot:
    """The snapshot without them."""
    redactor = Redactor()
    everything = [snapshot.objects, {f"{n}/{c}": said for (n, c), said in snapshot.ray.items()}]
    for secret in set(found(everything)):
        if len(secret) >= SHORT:
            redactor.add(secret)
    return replace(
        snapshot,
        objects={r: [_cleaned(_blanked(o), redactor) for o in objects] for r, objects in snapshot.objects.items()},
        ray={key: _cleaned(_blanked(said), redactor) for key, said in snapshot.ray.items()},
        logs={of: _of_log(redactor.data(data)) for of, data in snapshot.logs.items()},
    )


def _cleaned(value: Any, redactor: Redactor) -> Any:
    """A value without the secrets. Keys stay: they are names of fields, and a weak password is like a part of one."""
    if isinstance(value, dict):
        return {key: _cleaned(item, redactor) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, redactor) for item in value]
    return redactor.value(value)


def _of_log(data: bytes) -> bytes:
    mark = MARK.encode()
    return _IN_URL_OF_LOG.sub(rb"\g<1>:" + mark + b"@", _BEARER.sub(rb"\g<1>" + mark, data))


def found(value: Any) -> Iterator[str]:
    """The secrets in a JSON value."""
    if isinstance(value, dict):
        name = value.get("name")
        if isinstance(name, str) and _names_secret(name) and isinstance(value.get("value"), str):
            yield value["value"]
        for key, item in value.items():
            if isinstance(item, str) and _names_secret(str(key)):
                yield item
            elif isinstance(item, dict) and _names_secret(str(key)) and isinstance(item.get("value"), str):
                yield item["value"]
            yield from found(item)
    elif isinstance(value, list):
        for item in value:
            yield from found(item)
    elif isinstance(value, str):
        yield from _IN_URL.findall(value)
        yield from _IN_TEXT.findall(value)
        if value.startswith("{"):
            try:  # the last applied configuration, a JSON text in an annotation
                yield from found(json.loads(value))
            except (ValueError, RecursionError):
                return


def _names_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _NO_SECRET.search(name)


def _blanked(value: Any) -> Any:
    """A value with the secrets that stand under their own name taken out, however short they are."""
    if isinstance(value, list):
        return [_blanked(item) for item in value]
    if not isinstance(value, dict):
        return value
    blanked = {key: _blanked(item) for key, item in value.items()}
    name = value.get("name")
    if isinstance(name, str) and _names_secret(name) and isinstance(value.get("value"), str):
        blanked["value"] = value["value"] if value["value"].startswith("$") else MARK
    for key, item in value.items():
        if not _names_secret(str(key)):
            continue
        if isinstance(item, str) and not item.startswith("$"):
            blanked[key] = MARK
        elif isinstance(item, dict) and isinstance(item.get("value"), str):
            blanked[key] = {**blanked[key], "value": MARK}
    return blanked
