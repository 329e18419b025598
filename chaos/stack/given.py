"""A cluster of the user's in the place of a stack of ours: nothing is stood up, and only our own namespaces are touched.

The user's kubeconfig is read once. What the chosen context needs is copied into a private file, which is all that is used
from then on: the user's file is never handed to a program that could write to it, and no other context can be reached.

What a given cluster hasn't got is missed where it is needed, and what needs it is not judged:

======================= ============================================================================================
an audit log            what only it tells isn't seen
the ledger on the nodes RayJobs, whose executions are counted in it, are refused; Ray clusters go without
commands on nodes       `Cluster.node_exec` refuses them, and so the faults that act there
our Redis               fault tolerance with the single Redis of a namespace only
faults beyond ours      refused by the Injector unless allowed by name
======================= ============================================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from chaos.console import Console
from chaos.errors import StackError
from chaos.faults.undo import UndoLog
from chaos.locks import atomic_write
from chaos.paths import stack_dir
from chaos.settings import GivenCluster, Settings
from chaos.stack.cluster import Cluster
from chaos.stack.kind import StackFolder
from chaos.stack.record import GIVEN, StackRecord
from chaos.stack.stack import heal_leftovers, record_path

# Fields of a kubeconfig that name files, which may be relative to it.
_FILES = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}
_TAG = re.compile(r":v?(\d+\.\d+\.\d+)(?:$|[-@+])")


@dataclass(frozen=True)
class Given:
    """A user's cluster, as a run uses it."""

    settings: Settings
    cluster: Cluster
    folder: StackFolder
    record: StackRecord

    @property
    def undo_log(self) -> UndoLog:
        return UndoLog(self.folder.undo_log)

    @property
    def operator(self) -> NoReturn:
        raise StackError(f"the operator of {self.cluster.name} is not ours to replace")

    def other_operator(self, version: str, console: Console) -> NoReturn:
        raise StackError(f"the operator of {self.cluster.name} is not ours to replace")

    def use_ray(self, version: str, console: Console) -> None:
        """Nothing: the nodes pull the official images that pods name."""


def attach(settings: Settings, given: GivenCluster, console: Console, *, healed: bool = True) -> Given:
    """The user's cluster, healed of what a dead run of ours left in it, unless another process of this run has done that.

    Raises StackError when it hasn't got KubeRay.
    """
    folder = StackFolder(stack_dir(settings.name))
    folder.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    atomic_write(folder.kubeconfig, yaml.safe_dump(private_copy(given)))
    cluster = Cluster(settings.name, folder.kubeconfig)
    console.info(f"the cluster of context {given.context}; what is kept of it here is under the name {settings.name}")
    with console.step(f"Looking at the cluster of context {given.context}", expect=2):
        versions = _versions(cluster, settings, console)
    # No source of images is ours, so nothing is known of them but their names.
    record = StackRecord(settings.fingerprint(), "", GIVEN, versions, sealed=False, manifests="")
    record.save(record_path(folder.root))
    attached = Given(settings, cluster, folder, record)
    if healed:
        _, failed = heal_leftovers(cluster, attached.undo_log, console)
        if failed:
            raise StackError("; ".join(failed), fix="mend what is named, and run again")
    return attached


def private_copy(given: GivenCluster) -> dict[str, Any]:
    """A kubeconfig of the one context, with the paths in it made absolute."""
    document = yaml.safe_load(given.kubeconfig.read_text())
    context = _named(document["contexts"], given.context)
    parts = {kind: _named(document.get(f"{kind}s") or [], context["context"].get(kind, "")) for kind in _FILES}
    for kind, fields in _FILES.items():
        for field in fields:
            if path := parts[kind].get(kind, {}).get(field):
                parts[kind][kind][field] = str(given.kubeconfig.parent / path)
    # As kubectl has it: a plugin's path is relative to the file only when it has a separator in it.
    plugin = parts["user"].get("user", {}).get("exec") or {}
    if "/" in str(plugin.get("command", "")):
        plugin["command"] = str(given.kubeconfig.parent / plugin["command"])
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": given.context,
        "contexts": [context],
        **{f"{kind}s": [part] for kind, part in parts.items()},
    }


def _named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next((item for item in items if item.get("name") == name), {"name": name})


def _versions(cluster: Cluster, settings: Settings, console: Console) -> dict[str, str]:
    """What verdicts are judged by: the cluster's own versions, and the Ray that we put into it."""
    if cluster.get("customresourcedefinitions", None, "rayclusters.ray.io") is None:
        raise StackError("KubeRay is not installed in this cluster", fix="install it, or leave --kubeconfig out")
    kubernetes = str(cluster.request("GET", "/version")["gitVersion"]).removeprefix("v").partition("+")[0]
    return {
        "kuberay": _operator_version(cluster, settings, console),
        "ray": settings.versions.ray,
        "kubernetes": kubernetes.partition("-")[0],
    }


def _operator_version(cluster: Cluster, settings: Settings, console: Console) -> str:
    """By the image that the operator's Deployment names; what its tag doesn't tell is taken from the settings, saying so."""
    operators = cluster.list("deployments", None, "app.kubernetes.io/name=kuberay-operator") or [
        found for found in cluster.list("deployments") if found["metadata"]["name"] == "kuberay-operator"
    ]
    images = [c["image"] for each in operators for c in each["spec"]["template"]["spec"]["containers"]]
    for image in images:
        if tag := _TAG.search(image):
            return tag[1]
    said = f"{', '.join(images)} does not tell KubeRay's version" if images else "no operator's Deployment is found"
    console.info(f"{said}; judged as {settings.versions.kuberay} (--kuberay)")
    return settings.versions.kuberay
