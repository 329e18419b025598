"""What dead runs left on this machine: found by our labels and the state folder, told with its age, removed on request.

A stack that is up is not an orphan, whoever stood it up, and nothing is while a live process holds the stack's lock. Else:

- containers and networks with our label are, when the folder of their stack is gone: nobody knows of them any more;
- a stack is, when its cluster is gone (its folder is left), or when its stand-up was never completed;
- what is kept of a cluster of the user's never is: it may be needed to heal that;
- containers and networks beside a stack's own (a probe's, a proxy's) are, since they live no longer than a run;
- a lock is, when its holder died without releasing it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from chaos.errors import ChaosError
from chaos.locks import abandoned, held, hold
from chaos.paths import stack_dir, state_dir
from chaos.stack.engine import FOLDER_LABEL, STACK_LABEL, Engine
from chaos.stack.images.bake import BAKE_LABEL
from chaos.stack.kind import node_names
from chaos.stack.stack import is_given, lock_path, record_path

# Baking takes a minute or two; a container that does it after an hour has lost its run.
_BAKE_SECONDS = 3600.0


@dataclass(frozen=True)
class Orphan:
    """One thing that a dead run left. ``kind`` is node, container, network, folder or lock; ``age`` is in seconds."""

    kind: str
    name: str
    stack: str  # empty: of none
    age: float
    why: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}, {_duration(self.age)} old: {self.why}"


def find(engine: Engine) -> list[Orphan]:
    """All orphans that this user's engine and state folder show."""
    things = _labelled(engine)
    folders = {path for path in _entries(state_dir() / "stacks") if path.is_dir()}
    found: list[Orphan] = []
    for folder in sorted(folders | {thing.folder for thing in things}):
        found += _of_stack(engine, folder, [thing for thing in things if thing.folder == folder])
    return [*found, *_bakes(engine), *_locks()]


def remove(engine: Engine, orphans: list[Orphan]) -> tuple[list[Orphan], list[str]]:
    """Remove them, each stack's under its lock. What was removed, and what could not be, in words."""
    removed, failed = [], []
    for stack in dict.fromkeys(orphan.stack for orphan in orphans):
        mine = [orphan for orphan in orphans if orphan.stack == stack]
        try:
            if stack:
                with hold(lock_path(stack), who="down --orphans"):  # its orderly end takes a dead holder's name off
                    for orphan in sorted(mine, key=_order):
                        _remove(engine, orphan)
                        removed.append(orphan)
                    if not stack_dir(stack).exists():
                        lock_path(stack).unlink()
            else:
                for orphan in mine:
                    _remove(engine, orphan)
                    removed.append(orphan)
        except ChaosError as problem:  # of this stack; the others' go on
            failed.append(f"{stack or mine[0].name}: {problem.args[0]}")
    return removed, failed


def _order(orphan: Orphan) -> int:
    return ["node", "container", "network", "folder", "lock"].index(
        orphan.kind
    )  # no network goes before its containers


def _remove(engine: Engine, orphan: Orphan) -> None:
    match orphan.kind:
        case "node" | "container":
            engine.docker("rm", "--force", "--volumes", orphan.name, timeout=180)
        case "network":
            engine.docker("network", "rm", orphan.name)
        case "folder":
            shutil.rmtree(orphan.name, ignore_errors=True)


# --- finding --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Thing:
    """A container or network with our label."""

    kind: str
    name: str
    stack: str
    folder: Path
    age: float


def _labelled(engine: Engine) -> list[_Thing]:
    found = []
    for kind, listing in (("container", ["ps", "--all"]), ("network", ["network", "ls"])):
        names = engine.docker(*listing, "--filter", f"label={STACK_LABEL}", "--format", _name_of(kind)).text.split()
        for name in names:
            described = engine.inspect(kind, name)
            if described is None:  # it went between the two questions
                continue
            labels = (described["Config"] if kind == "container" else described).get("Labels") or {}
            stack = labels[STACK_LABEL]
            folder = Path(labels.get(FOLDER_LABEL) or stack_dir(stack))
            found.append(_Thing(kind, name, stack, folder, _since(described["Created"])))
    return found


def _name_of(kind: str) -> str:
    return "{{.Names}}" if kind == "container" else "{{.Name}}"


def _of_stack(engine: Engine, folder: Path, things: list[_Thing]) -> Iterator[Orphan]:
    stack = folder.name
    if held(_lock_beside(folder)) or is_given(folder):
        return
    network = f"{stack}-net"
    # A cluster of this name without our network is someone else's.
    nodes = node_names(engine, stack) if any(thing.name == network for thing in things) else []
    if not _exists(folder):
        why = "its stack's folder is gone"
    elif not nodes:
        why = "its stack's cluster is gone"
    elif not _exists(record_path(folder)):
        why = "its stack was never completed"
    else:
        why = ""
    for node in nodes if why else []:
        yield Orphan("node", node, stack, _since((engine.inspect("container", node) or {}).get("Created", "")), why)
    for thing in things:
        if why or thing.name not in (network, *nodes):
            yield Orphan(thing.kind, thing.name, stack, thing.age, why or "the run that made it has ended")
    if why and folder == stack_dir(stack) and folder.exists():
        yield Orphan("folder", str(folder), stack, time.time() - folder.stat().st_mtime, why)


def _bakes(engine: Engine) -> Iterator[Orphan]:
    listed = engine.docker("ps", "--all", "--filter", f"label={BAKE_LABEL}", "--format", "{{.Names}}")
    for name in listed.text.split():
        age = _since((engine.inspect("container", name) or {}).get("Created", ""))
        if age > _BAKE_SECONDS:
            yield Orphan("container", name, "", age, "the run that baked an image in it has ended")


def _locks() -> Iterator[Orphan]:
    for path in _entries(state_dir() / "locks"):
        if path.suffix == ".lock" and (holder := abandoned(path)):
            yield Orphan("lock", str(path), path.stem, _since(holder.started), f"its holder died: {holder}")


def _lock_beside(folder: Path) -> Path:
    """The lock of the stack with this folder, which may be below another state folder than ours."""
    return folder.parent.parent / "locks" / f"{folder.name}.lock"


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:  # another user's: it can't be told, so it isn't gone
        return True


def _since(stamp: str) -> float:
    """Seconds since a moment in ISO 8601; 0 when it isn't one."""
    with suppress(ValueError):
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds())
    return 0.0


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"
