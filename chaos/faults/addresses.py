"""Which addresses a pod's packets bear, by what it talks to.

Cluster IPs are translated in the node, so the pod's own network namespace sees them as they are, both ways. The addresses
behind a Service belong to it too: a client may know them from elsewhere, and a headless Service has no others.
"""

from __future__ import annotations

from typing import Any

from chaos.errors import StackError
from chaos.stack.cluster import Cluster


def of_service(cluster: Cluster, namespace: str, name: str) -> tuple[str, ...]:
    """The Service's cluster IP and, ready or not, all that are behind it now. Raises StackError when there is no Service."""
    service = cluster.get("services", namespace, name)
    if service is None:
        raise StackError(f"there is no Service {namespace}/{name}")
    return addresses(service, cluster.get("endpoints", namespace, name))


def of_api_server(cluster: Cluster) -> tuple[str, ...]:
    """As pods reach it: its Service, and the control plane's own address."""
    return of_service(cluster, "default", "kubernetes")


def addresses(service: dict[str, Any], endpoints: dict[str, Any] | None) -> tuple[str, ...]:
    """Those of a Service and its Endpoints, as the API server describes them, each once."""
    own = [ip for ip in service["spec"].get("clusterIPs") or [] if ip != "None"]
    behind = [
        address["ip"]
        for subset in (endpoints or {}).get("subsets") or []
        for kind in ("addresses", "notReadyAddresses")
        for address in subset.get(kind) or []
    ]
    return tuple(dict.fromkeys([*own, *behind]))
