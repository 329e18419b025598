"""What is told of a user's workload, in the terminal, in ``run.json`` and in the reports: without its secrets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from chaos.estate.resource import at
from chaos.history.redaction import Redactor
from chaos.own.file import Own
from chaos.own.fit import Fitted
from chaos.snapshot import secrets

Told = dict[str, Any]


def confidential(own: Own) -> list[str]:
    """What must not reach a file of ours: values that are named like secrets, and those of the file's Secrets."""
    found = [*secrets.found(own.document), *(value for each in own.others for value in _values(each.obj))]
    # Shorter ones can't be taken out of a text without destroying it; one that begins with a $ is a name.
    return sorted({value for value in found if len(value) >= secrets.SHORT and not value.startswith("$")})


def _values(obj: dict[str, Any]) -> Iterator[str]:
    """What a Secret holds, as it is and as Kubernetes encodes it."""
    if obj.get("kind") != "Secret":
        return
    for value in map(str, (at(obj, "stringData") or {}).values()):
        yield value
        yield base64.b64encode(value.encode()).decode()
    for encoded in map(str, (at(obj, "data") or {}).values()):
        yield encoded
        try:
            yield base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue  # a key in binary is in no text


def told(own: Own, fitted: Fitted) -> Told:
    """What was given and what became of it, as JSON."""
    described = {
        "kind": str(own.kind),
        "name": own.name,
        "file": str(own.file),
        "changes": [change.as_json() for change in fitted.changes],
        "beside": [f"{each['kind']} {each['metadata']['name']}" for each in fitted.beside],
        "left_out": fitted.left_out,
    }
    found: Told = Redactor(confidential(own)).value(described)
    return found


def lines(of: Told) -> list[str]:
    """The same for the terminal, by reason."""
    found = [
        f"{of['kind']} {of['name']} of {of['file']} is made in the place of ours, with {len(of['changes'])} changes:"
    ]
    for why in dict.fromkeys(change["why"] for change in of["changes"]):
        found.append(f"  {why}:")
        for change in of["changes"]:
            if change["why"] == why:
                before, after = change["from"] or "(not set)", change["to"] or "(removed)"
                found.append(f"    {change['path']}: {before} -> {after}")
    if of["beside"]:
        found.append(f"  with it, in each namespace: {', '.join(of['beside'])}")
    if of["left_out"]:
        found.append(f"  left out: {', '.join(of['left_out'])}")
    return found
