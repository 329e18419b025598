"""What every cluster needs before pods can run: the CNI, a storage class, names; and the wait for all of it.

kind's own wait ends with success when its time is up and looks at the control plane only, so readiness is checked here.
"""

from __future__ import annotations

from chaos.errors import StackError
from chaos.paths import manifests
from chaos.stack.cluster import Cluster, Object
from chaos.stack.images import catalogue
from chaos.stack.manifest import render
from chaos.stack.network import answer_cluster_names_only
from chaos.waiting import until

_FIX = "see what is not ready: kubectl get nodes,pods -A with the stack's kubeconfig; `make down` removes the stack"


def apply_network_and_storage(cluster: Cluster, *, sealed: bool) -> None:
    """kube-router, the storage class and, in a sealed stack, names of the cluster only."""
    if sealed:
        answer_cluster_names_only(cluster)
    cluster.apply(render(manifests() / "kube-router.yaml", {"IMAGE": catalogue.KUBE_ROUTER_IMAGE}))
    storage = {"IMAGE": catalogue.LOCAL_PATH_IMAGE, "HELPER_IMAGE": catalogue.REDIS_IMAGE}
    cluster.apply(render(manifests() / "storage.yaml", storage))


def wait_for_nodes(cluster: Cluster, *, count: int, deadline: float) -> None:
    """All nodes Ready, CoreDNS rolled out, and the default ServiceAccount there: before that, pods are refused."""
    until(
        lambda: sum(map(_ready, cluster.list("nodes"))) == count,
        what=f"{count} nodes Ready", deadline=deadline, error=StackError, fix=_FIX,
    )  # fmt: skip
    cluster.wait_rolled_out("deployments", "kube-system", "coredns", deadline)
    until(
        lambda: cluster.get("serviceaccounts", "default", "default") is not None,
        what="the default ServiceAccount", deadline=deadline, error=StackError, fix=_FIX,
    )  # fmt: skip


def _ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
