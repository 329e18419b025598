"""OCI runtime that asks runc for everything but CAP_SYS_RESOURCE.

Used only where the machine's own bounding set lacks that capability: there runc cannot grant it, and every privileged
container, which a kind node is, would fail to start. Installed as a program of its own; imports nothing of the package.
"""

import json
import os
import shutil
import sys
from typing import Any


def _option(arguments: list[str], *names: str) -> str | None:
    for position, argument in enumerate(arguments):
        for name in names:
            if argument == name:
                return arguments[position + 1]
            if argument.startswith(f"{name}="):
                return argument.partition("=")[2]
    return None


def _without_sys_resource(process: dict[str, Any]) -> None:
    for granted in (process.get("capabilities") or {}).values():
        if isinstance(granted, list) and "CAP_SYS_RESOURCE" in granted:
            granted.remove("CAP_SYS_RESOURCE")


def _rewrite(path: str, key: str | None) -> None:
    with open(path) as file:
        document = json.load(file)
    _without_sys_resource(document.get(key, {}) if key else document)
    with open(path, "w") as file:
        json.dump(document, file)


def main() -> None:
    """Rewrite the bundle or the process that is about to start, then become runc."""
    arguments = sys.argv[1:]
    if "create" in arguments or "run" in arguments:
        bundle = _option(arguments, "--bundle", "-b") or "."
        _rewrite(os.path.join(bundle, "config.json"), "process")
    elif "exec" in arguments and (process := _option(arguments, "--process", "-p")):
        _rewrite(process, None)
    runc = shutil.which("runc")
    if runc is None:
        sys.exit("runc: not found")
    os.execv(runc, [runc, *arguments])  # noqa: S606


if __name__ == "__main__":
    main()
