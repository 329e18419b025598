"""Make an image cold on one node: what was unpacked of it goes, so that the next container from it is unpacked first.

A node has an image as packed layers, and unpacks them for its first container. The layers stay, so nothing is downloaded
again: what a registry would need comes on top. Layers that another image's containers use stay unpacked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.stack.cluster import Cluster, Object
from chaos.waiting import until

_SNAPSHOTS = ["ctr", "--namespace", "k8s.io", "snapshots"]
# A pod that is gone from the API server may not have ended yet.
_UNUSED_SECONDS = 60.0


@dataclass(frozen=True)
class ImageCold(Fault):
    """The image by its name, on the node. Nothing undoes it: the next container from the image does."""

    node: str
    image: str

    name: ClassVar[str] = "image-cold"
    scope: ClassVar[Scope] = Scope.NODE

    @classmethod
    def of(cls, node: Object, image: str) -> ImageCold:
        """On a node as the API server describes it."""
        return cls(node["metadata"]["name"], image)

    @property
    def target(self) -> dict[str, str]:
        return {"node": self.node, "image": self.image}

    def apply(self, reach: Reach) -> None:
        """Remove what is unpacked, from the last layer down to what another image uses too."""
        top = _top(reach.cluster, self.node, self.image)
        if (below := _below(reach.cluster, self.node, top)) is None:
            return  # as it comes with a node on which it was never used

        def unused() -> bool:
            _remove_ended(reach.cluster, self.node, top)
            return _removed(reach.cluster, self.node, top)

        until(
            unused, what=f"no container of {self.image} on {self.node}", deadline=_UNUSED_SECONDS, every=1, error=StackError,
            fix="delete the pods that use it there",
        )  # fmt: skip
        while below:  # the runtime does so too, when it next looks for what nobody refers to
            layers, below = below, _below(reach.cluster, self.node, below)
            if not _removed(reach.cluster, self.node, layers):
                break

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """The runtime must have the image, and not have it unpacked."""
        if _below(reach.cluster, self.node, _top(reach.cluster, self.node, self.image)) is not None:
            raise NoEffect(f"{self.image} is unpacked on {self.node}")
        return {"unpacked": False}


def _top(cluster: Cluster, node: str, image: str) -> str:
    """What the unpacked image is called: the identity of all its layers. Raises StackError when the node doesn't have it."""
    described = cluster.node_exec(node, ["crictl", "inspecti", image])
    if not described.ok:
        raise StackError(f"{node} has no image {image}: {described.error_text.strip()}")
    return str(json.loads(described.stdout)["info"]["chainID"])


def _remove_ended(cluster: Cluster, node: str, layers: str) -> None:
    """Remove containers that ended and whose pods are gone, as the kubelet does when it next cleans up, once a minute.

    Raises StackError with the pods that the others on these layers belong to.
    """
    listed = cluster.node_exec(node, [*_SNAPSHOTS, "list"]).require("listing what is unpacked").decode()
    rows = [line.split() for line in listed.splitlines()]
    there = {pod["metadata"]["uid"] for pod in cluster.list("pods")}
    using = []
    for container in (row[0] for row in rows if row[1:2] == [layers]):
        described = cluster.node_exec(node, ["crictl", "inspect", container])
        if not described.ok:
            continue  # removed meanwhile, or another image: the removal of the layers tells
        status = json.loads(described.stdout)["status"]
        labels = status["labels"]
        if status["state"] == "CONTAINER_EXITED" and labels["io.kubernetes.pod.uid"] not in there:
            cluster.node_exec(node, ["crictl", "rm", container])
        else:
            using.append(f"{labels['io.kubernetes.pod.namespace']}/{labels['io.kubernetes.pod.name']}")
    if using:
        raise StackError(f"used by {', '.join(using)}")


def _below(cluster: Cluster, node: str, layers: str) -> str | None:
    """The layers below these, empty for the first one; None when these aren't unpacked."""
    described = cluster.node_exec(node, [*_SNAPSHOTS, "info", layers])
    if not described.ok:
        if "not found" in described.error_text:
            return None
        raise StackError(f"the container runtime of {node} does not answer: {described.error_text.strip()}")
    return str(json.loads(described.stdout).get("Parent", ""))


def _removed(cluster: Cluster, node: str, layers: str) -> bool:
    """Remove these layers as they are unpacked; False when a container or another image stands on them."""
    done = cluster.node_exec(node, [*_SNAPSHOTS, "rm", layers])
    if done.ok or "not found" in done.error_text:
        return True
    if "snapshot with child" in done.error_text:
        return False
    raise StackError(f"{layers} could not be removed from {node}: {done.error_text.strip()}")
