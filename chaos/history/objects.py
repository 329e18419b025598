"""Kubernetes objects as the plain dicts that the server sends: what is kept of them, and what is read from them.

Nothing here knows a typed model. A field that is missing means what the API says it means when it is missing, so every
reader below accepts an object in any stage of its life, from just created to half deleted.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

Object = dict[str, Any]
Json = Any  # any JSON value, as json.loads gives it

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_IDENTITY = ("name", "namespace", "uid", "resourceVersion")


def trim(resource: str, obj: Object) -> Object:
    """The object less what no check reads: managedFields, last-applied annotation; of a lease only identity and spec.

    ``obj`` itself is left alone. Raises ValueError for a Secret: those are never recorded.
    """
    if resource == "secrets" or obj.get("kind") == "Secret":
        raise ValueError("a Secret must not be recorded")
    metadata = obj.get("metadata") or {}
    if resource == "leases":  # renewed every few seconds: the bulk of a quiet hour's history
        return {"metadata": {key: metadata[key] for key in _IDENTITY if key in metadata}, "spec": obj.get("spec") or {}}
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    if _LAST_APPLIED in (kept.get("annotations") or {}):
        kept["annotations"] = {key: value for key, value in kept["annotations"].items() if key != _LAST_APPLIED}
    return {**obj, "metadata": kept}


def share(new: Json, old: Json) -> Json:
    """``new``, with every part that equals the same part of ``old`` replaced by ``old``'s.

    Two states of one object differ in a few fields; holding the rest once is what keeps a history in memory.
    """
    if new == old:
        return old
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: share(value, old[key]) if key in old else value for key, value in new.items()}
    if isinstance(new, list) and isinstance(old, list):
        return [share(value, old[i]) if i < len(old) else value for i, value in enumerate(new)]
    return new


def labels(obj: Object) -> dict[str, str]:
    """The object's labels; empty when it has none."""
    return (obj.get("metadata") or {}).get("labels") or {}


def owners(obj: Object) -> list[str]:
    """UIDs of the object's owner references."""
    return [reference["uid"] for reference in (obj.get("metadata") or {}).get("ownerReferences") or []]


def is_terminating(obj: Object) -> bool:
    """Whether deletion was asked for, whatever still runs."""
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def restart_count(pod: Object, container: str | None = None) -> int:
    """Restarts in place, of one container or summed over all of them, init containers aside."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return sum(s.get("restartCount", 0) for s in statuses if container in (None, s["name"]))


def condition(obj: Object, kind: str) -> Object | None:
    """The condition of that type, or None when the object doesn't carry it."""
    return next((c for c in (obj.get("status") or {}).get("conditions") or [] if c.get("type") == kind), None)


def is_ready(obj: Object) -> bool:
    """Whether condition Ready is True. Says nothing of whether the thing works."""
    ready = condition(obj, "Ready")
    return ready is not None and ready.get("status") == "True"


def condition_time(obj: Object, kind: str, status: str = "True") -> float | None:
    """When the condition took that status: epoch seconds, server's clock, whole seconds; None if it hasn't."""
    found = condition(obj, kind)
    if found is None or found.get("status") != status or not found.get("lastTransitionTime"):
        return None
    return epoch(found["lastTransitionTime"])


def epoch(stamp: str) -> float:
    """An RFC 3339 time as seconds since the epoch."""
    return datetime.fromisoformat(stamp).timestamp()
