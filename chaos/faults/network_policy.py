"""Deny a pod's traffic as Kubernetes offers it: by a NetworkPolicy, which the cluster's CNI enforces.

That is no partition. With kube-router, and with others that look at new connections only, a connection that was open before
goes on as if nothing were: it was seen to for half a minute without a stall, by an entry of the connection tracking that is
accepted first. New connections are refused. So the proof is one that is made anew, and what must cut open connections takes
`chaos.faults.partition`. What the CNI lets pass always, as the kubelet's own probes, passes.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_LABEL = "kuberay-chaos/injection"
# Policies are enforced some time after they were written: the CNI rewrites all of a node's rules, and is throttled itself.
_ENFORCED_SECONDS = 30
_CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3).close()
    print("connected")
except ConnectionRefusedError:
    print("refused")
except TimeoutError:
    print("timed out")
"""


class Denied(StrEnum):
    """Which connections of the selected pods, by who opens them."""

    INGRESS = "Ingress"
    EGRESS = "Egress"


@dataclass(frozen=True)
class NetworkPolicy(Fault):
    """All pods of the namespace that bear ``labels`` are denied what ``denied`` says.

    The probe is a connection from a pod with Python in it, ``client``, to ``address`` and ``port``: to a selected pod for
    ingress, from one for egress.
    """

    namespace: str
    labels: tuple[tuple[str, str], ...]
    denied: tuple[Denied, ...]
    client_namespace: str
    client: str
    address: str
    port: int
    policy: str = field(default_factory=lambda: f"kuberay-chaos-{secrets.token_hex(4)}")

    name: ClassVar[str] = "network-policy"
    scope: ClassVar[Scope] = Scope.NAMESPACE
    needs: ClassVar[tuple[str, ...]] = ("ipset",)

    @classmethod
    def ingress(cls, pod: dict[str, Any], port: int, *, probed_from: dict[str, Any]) -> NetworkPolicy:
        """Nobody may connect to pods with this pod's labels."""
        return cls._of(pod, Denied.INGRESS, client=probed_from, server=pod, port=port)

    @classmethod
    def egress(cls, pod: dict[str, Any], *, probed_to: dict[str, Any], port: int) -> NetworkPolicy:
        """Pods with this pod's labels may connect to nobody, their name server included."""
        return cls._of(pod, Denied.EGRESS, client=pod, server=probed_to, port=port)

    @classmethod
    def _of(
        cls, pod: dict[str, Any], denied: Denied, *, client: dict[str, Any], server: dict[str, Any], port: int
    ) -> NetworkPolicy:
        metadata = pod["metadata"]
        labels = tuple(sorted((metadata.get("labels") or {}).items()))
        if not labels:
            raise StackError(f"pod {metadata['name']} has no labels to select it by: a policy would select every pod")
        return cls(
            metadata["namespace"], labels, (denied,),
            client["metadata"]["namespace"], client["metadata"]["name"], server["status"]["podIP"], port,
        )  # fmt: skip

    @property
    def target(self) -> dict[str, str]:
        labels = ",".join(f"{key}={value}" for key, value in self.labels)
        return {"namespace": self.namespace, "labels": labels, "denied": " ".join(self.denied)}

    def undo(self, reach: Reach) -> list[Undo]:
        """Delete the policy. What can't connect even before the fault could prove nothing."""
        if (answer := self._connect(reach.cluster)) != "connected":
            raise NoEffect(
                f"{self.client} has no connection to {self.address}:{self.port} without the policy: {answer}"
            )
        return [Undo("network-policy", {"namespace": self.namespace, "name": self.policy})]

    def apply(self, reach: Reach) -> None:
        reach.cluster.create("networkpolicies", self.namespace, self.document)

    @property
    def document(self) -> dict[str, Any]:
        """A policy that allows nothing of the types that it names."""
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": self.policy, "labels": {_LABEL: self.policy}},
            "spec": {"podSelector": {"matchLabels": dict(self.labels)}, "policyTypes": [str(d) for d in self.denied]},
        }

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """A new connection must be refused or time out; that it fails in any other way proves nothing."""

        def denied() -> str | None:
            answer = self._connect(reach.cluster)
            return answer if answer in ("refused", "timed out") else None

        try:
            answer = until(denied, what="a denied connection", deadline=_ENFORCED_SECONDS)
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"connection": answer, "address": f"{self.address}:{self.port}"}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """A new connection must be made, unless one of its ends is gone."""

        def allowed() -> str | None:
            if not self._ends_are_there(reach.cluster):
                return "one end is gone"
            answer = self._connect(reach.cluster)
            return answer if answer == "connected" else None

        answer = until(allowed, what="a new connection", deadline=_ENFORCED_SECONDS, error=StackError)
        return {"connection": answer, "address": f"{self.address}:{self.port}"}

    def _connect(self, cluster: Cluster) -> str:
        """What became of one connection; raises StackError when it could not be tried."""
        argv = ["python3", "-c", _CONNECT, self.address, str(self.port)]
        tried = cluster.exec(self.client_namespace, self.client, argv, timeout=15)
        return tried.require(f"a connection from {self.client}").decode(errors="replace").strip()

    def _ends_are_there(self, cluster: Cluster) -> bool:
        if cluster.get("pods", self.client_namespace, self.client) is None:
            return False
        return any(pod.get("status", {}).get("podIP") == self.address for pod in cluster.list("pods"))


@undoer("network-policy", namespace=str, name=str)
def _delete(cluster: Cluster, what: dict[str, Any]) -> None:
    found = cluster.get("networkpolicies", what["namespace"], what["name"])
    if found is None:
        return
    metadata = found["metadata"]
    if (metadata.get("labels") or {}).get(_LABEL) != what["name"]:
        raise StackError(f"NetworkPolicy {what['namespace']}/{what['name']} is not ours: it lacks the label {_LABEL}")
    cluster.delete("networkpolicies", what["namespace"], what["name"], uid=metadata["uid"])
    until(
        lambda: cluster.get("networkpolicies", what["namespace"], what["name"]) is None,
        what=f"the end of NetworkPolicy {what['name']}", deadline=10, error=StackError,
    )  # fmt: skip
