"""What Ray keeps in Redis: one hash a table, ``RAY<external storage namespace>@<TABLE>``."""

from __future__ import annotations

import shlex

from chaos.errors import StackError
from chaos.stack import redis
from chaos.stack.cluster import Cluster, Object

_SCAN_SECONDS = 15.0


def storage_namespace(raycluster: Object) -> str:
    """A RayCluster's external storage namespace: what it was given, or its UID."""
    options = raycluster["spec"].get("gcsFaultToleranceOptions") or {}
    annotations = raycluster["metadata"].get("annotations") or {}
    given = options.get("externalStorageNamespace") or annotations.get("ray.io/external-storage-namespace")
    return str(given or raycluster["metadata"]["uid"])


def pattern(storage: str) -> str:
    """What its keys match in Redis. Characters with a meaning in patterns are taken as they are."""
    escaped = "".join(f"\\{c}" if c in "*?[]\\^" else c for c in storage)
    return f"RAY{escaped}@*"


def names(cluster: Cluster, primary: str, storage: str) -> list[str]:
    """The names of its keys, sorted, asked of the pod that is Redis' primary. Raises `StackError`."""
    argv = ["timeout", "10", "redis-cli", "--scan", "--pattern", pattern(storage)]
    scanned = cluster.exec(redis.NAMESPACE, primary, argv, container=redis.CONTAINER, timeout=_SCAN_SECONDS)
    # redis-cli tells of errors, a refused login among them, on its standard output and exits with 0.
    lines = scanned.text.splitlines()
    if not scanned.ok or any(not line.startswith(f"RAY{storage}@") for line in lines if line):
        raise StackError(f"Redis' keys could not be listed: {scanned.error_text.strip() or lines[:1]}")
    return sorted(line for line in lines if line)


def removal(primary: str, storage: str) -> str:
    """The command that removes its keys by hand, for a person to paste; the password is in the container."""
    command = ["kubectl", f"--namespace={redis.NAMESPACE}", "exec", primary, f"--container={redis.CONTAINER}", "--"]
    return shlex.join([*command, *_unlink(storage)])


def remove(cluster: Cluster, primary: str, storage: str) -> None:
    """Does the same. Raises `StackError` when any key stays."""
    done = cluster.exec(redis.NAMESPACE, primary, _unlink(storage), container=redis.CONTAINER, timeout=_SCAN_SECONDS)
    done.require(f"the removal of the keys of {storage}")
    if left := names(cluster, primary, storage):
        raise StackError(f"{len(left)} keys of {storage} stay in Redis", fix=removal(primary, storage))


def _unlink(storage: str) -> list[str]:
    return ["sh", "-c", 'redis-cli --scan --pattern "$0" | xargs -r redis-cli unlink', pattern(storage)]
