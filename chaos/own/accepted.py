"""Whether KubeRay takes what the user gave, as it was given: asked of the API server before anything is made.

A dry run on the server, strict about fields that it doesn't know, which it would otherwise drop in silence. What the operator
itself thinks of the object isn't part of that.
"""

from __future__ import annotations

from chaos.errors import UsageError
from chaos.estate.resource import Object, at
from chaos.own.file import API_VERSION, Own
from chaos.own.fit import Fitted
from chaos.stack.cluster import FIELD_MANAGER, RESOURCES, ApiError, Cluster

_RESOURCES = {
    "RayCluster": "rayclusters",
    "RayJob": "rayjobs",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Service": "services",
}
# Nothing is made in it.
_NAMESPACE = "default"
# What the server says of an object that is not valid, and of one that it can't even read.
_WRONG = (400, 422)


def require_accepted(cluster: Cluster, own: Own, fitted: Fitted) -> None:
    """Raises UsageError for what the API server refuses: the object as it was given, and what goes with it."""
    given = {key: item for key, item in own.document.items() if key != "status"}
    metadata = {key: item for key in ("labels", "annotations") if (item := at(given, "metadata", key))}
    _ask(cluster, own, given | {"apiVersion": API_VERSION, "metadata": {"name": own.name, **metadata}})
    for each in fitted.beside:
        _ask(cluster, own, each)


def _ask(cluster: Cluster, own: Own, body: Object) -> None:
    resource = _RESOURCES[body["kind"]]
    try:
        cluster.request(
            "POST", RESOURCES[resource].path(resource, _NAMESPACE), body=body,
            query={"dryRun": "All", "fieldValidation": "Strict", "fieldManager": FIELD_MANAGER},
        )  # fmt: skip
    except ApiError as refused:
        if refused.status == 409:  # valid; one of that name is there, where none is to be made
            return
        if refused.status not in _WRONG:
            raise
        said = str(refused.args[0]).partition(f"{refused.reason}: ")[2] or str(refused.args[0])
        what = f"{body['kind']} {body['metadata']['name']} of {own.file}"
        raise UsageError(
            f"{what} is refused: {said}", fix="correct it, or choose the KubeRay it is for: --kuberay"
        ) from refused
