"""Fault tolerance was asked for, or is missed, and the cluster runs without it.

Asked for: what was applied has the options and the object doesn't (pruned by an old CRD); KubeRay refuses the spec; or
the head that runs was made before the options were set. Missed: nobody asked for it, and workers died because a new GCS
knew nothing of them, or none came in time.
"""

from __future__ import annotations

import re

from chaos.diagnose.case import Case, Cause
from chaos.estate.raycluster import OPTIONS, Form
from chaos.estate.resource import Place

_ID = "ft-not-applied"
_TITLE = "GCS fault tolerance is not applied"
# Ray's raylet, when a GCS without its data came up: before and since 2.4x.
_STRANGER = re.compile(
    r"GCS returned an authentication error|WrongClusterID|cluster ID mismatch|Failed to connect to GCS within",
    re.IGNORECASE,
)
_ABOUT_FT = re.compile(
    r"GcsFaultTolerance|RAY_REDIS_ADDRESS|ft-enabled|REDIS_PASSWORD|redis-password|redis username", re.I
)


def ft_not_applied(case: Case) -> Cause | None:
    """The cause, or None."""
    cluster = case.cluster
    if cluster.pruned:
        return _pruned(case, cluster.pruned)
    refused = [place for event, place in case.events("InvalidRayClusterSpec") if _ABOUT_FT.search(place.shows)]
    if refused and not case.head_ready:
        return _cause("KubeRay refuses how fault tolerance is asked for", refused[-1:], fix="do what the event says")
    if cluster.form in (Form.OPTIONS, Form.ANNOTATION):
        if case.heads and not case.ft_effective:
            head = case.heads[0]
            shows = f"ray.io/ft-enabled is {head.annotations.get('ray.io/ft-enabled', 'not set')}"
            return _cause(
                "the head that runs was made without it",
                [cluster.form_place, head.place("metadata", "annotations", "ray.io/ft-enabled", shows=shows)],
                fix="delete the head's pod, so that it is made anew, or the whole cluster, since workers need it too",
            )
        return None
    return _missed(case)


def _pruned(case: Case, place: Place) -> Cause:
    evidence = [place]
    if crd := case.estate.crd_prunes_options:
        evidence.append(crd)
    if known := case.estate.operator_version:
        evidence.append(known.place)
    return _cause(
        f"{OPTIONS} was applied and pruned in silence",
        evidence,
        fix="upgrade the CRDs and then the operator to KubeRay 1.3 or newer (Helm doesn't upgrade CRDs), then apply "
        "the manifest again; on older ones use the annotation ray.io/ft-enabled with RAY_REDIS_ADDRESS",
    )


def _missed(case: Case) -> Cause | None:
    strangers = case.lines(case.workers, _STRANGER, most=1)
    if not strangers:
        return None
    return _cause(
        "nobody asked for it, so the workers were lost with the head",
        [case.cluster.form_place, *(line.place for line in strangers[:3])],
        fix=f"set {OPTIONS} with redisAddress and redisPassword",
    )


def _cause(reason: str, evidence: list[Place], *, fix: str) -> Cause:
    return Cause(_ID, _TITLE, reason, tuple(evidence), fix)
