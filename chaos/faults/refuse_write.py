"""Make the API server refuse one kind of write to one account, by RBAC.

The write is refused every time for as long as the fault is in force: what would be a window of a millisecond becomes one
that stays open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chaos.errors import NoEffect, NotReached, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_WRITES = ("create", "update", "patch")


@dataclass(frozen=True)
class RefuseWrite(Fault):
    """Take writes on ``resource`` (``group``, with a /subresource) out of a ClusterRole that ``account`` is bound to.

    ``account`` is the full user name, ``system:serviceaccount:<namespace>:<name>``.
    """

    cluster_role: str
    account: str
    group: str
    resource: str

    name: ClassVar[str] = "refuse-write"
    scope: ClassVar[Scope] = Scope.CLUSTER

    @property
    def target(self) -> dict[str, str]:
        return {"account": self.account, "resource": f"{self.resource}.{self.group}"}

    def undo(self, reach: Reach) -> list[Undo]:
        """Put the role's rules back as they are now."""
        role = reach.cluster.get("clusterroles", None, self.cluster_role)
        if role is None:
            raise NoEffect(f"there is no ClusterRole {self.cluster_role}")
        return [Undo("cluster-role-rules", {"name": self.cluster_role, "rules": role["rules"]})]

    def apply(self, reach: Reach) -> None:
        """Replace the rules by the same without the write."""
        role = reach.cluster.get("clusterroles", None, self.cluster_role)
        assert role is not None
        _set_rules(reach.cluster, self.cluster_role, self._without(role["rules"]))

    def _without(self, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept: list[dict[str, Any]] = []
        for rule in rules:
            if self.group not in rule.get("apiGroups", []) or self.resource not in rule.get("resources", []):
                kept.append(rule)
                continue
            others = [name for name in rule["resources"] if name != self.resource]
            reads = [verb for verb in rule["verbs"] if verb not in _WRITES]
            kept += [{**rule, "resources": others}] if others else []
            kept += [{**rule, "resources": [self.resource], "verbs": reads}] if reads else []
        return kept

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """Ask the API server whether the account may; its authoriser sees the change a moment later."""
        try:
            until(lambda: not self._allowed(reach.cluster), what=f"refusal of {self.resource}", deadline=10, every=0.1)
        except NotReached as late:
            raise NoEffect(str(late)) from late
        return {"refused": f"update {self.resource}.{self.group} by {self.account}"}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """The API server must say that the account may again."""
        until(
            lambda: self._allowed(reach.cluster), what=f"permission of {self.resource}", deadline=10, every=0.1,
            error=StackError,
        )  # fmt: skip
        return {"allowed": f"update {self.resource}.{self.group} by {self.account}"}

    def _allowed(self, cluster: Cluster) -> bool:
        resource, _, subresource = self.resource.partition("/")
        attributes = {"group": self.group, "resource": resource, "subresource": subresource, "verb": "update"}
        review = cluster.request(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            body={
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"user": self.account, "groups": ["system:authenticated"], "resourceAttributes": attributes},
            },
        )
        return bool(review["status"]["allowed"])


@undoer("cluster-role-rules", name=str, rules=list)
def _restore(cluster: Cluster, what: dict[str, Any]) -> None:
    if cluster.get("clusterroles", None, what["name"]) is not None:
        _set_rules(cluster, what["name"], what["rules"])


def _set_rules(cluster: Cluster, name: str, rules: list[dict[str, Any]]) -> None:
    cluster.patch("clusterroles", None, name, {"rules": rules})
