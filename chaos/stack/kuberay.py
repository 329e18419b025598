"""The KubeRay operator, installed from its own ``config/`` folder: definitions first, then RBAC and the Deployment.

What is changed of KubeRay's own manifests: the image, the namespace (``kuberay-system``) and, on versions that lack it,
the Deployment's strategy: Recreate, as in KubeRay's Helm chart, so that two operators never run by our doing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import yaml

from chaos.errors import StackError
from chaos.stack.cluster import Cluster, Object
from chaos.stack.images import cache
from chaos.waiting import until

NAMESPACE = "kuberay-system"
DEPLOYMENT = "kuberay-operator"
LEASE = "ray-operator-leader"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:kuberay-operator"
CLUSTER_ROLE = "kuberay-operator"
# On the operator's pods, so that a history tells which version acted.
VERSION_LABEL = "kuberay-chaos/kuberay-version"

# KubeRay's definitions are megabytes: libyaml reads them in a second, where it is there.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_ESTABLISHED_SECONDS = 30.0
# The readiness probe begins after 10 s, and the operator is throttled to a tenth of a CPU while it starts.
_START_SECONDS = 120.0
# A dead operator's lease runs out after 15 s and is asked for every 2 s.
_LEASE_SECONDS = 60.0


@dataclass(frozen=True)
class Release:
    """One version of the operator: the image that runs, and the ``config/`` folder of its ``ray-operator`` module."""

    version: str
    image: str
    config: Path


def ensure(cluster: Cluster, release: Release) -> None:
    """Installs or replaces the operator and waits until it leads. Raises `StackError`."""
    install(cluster, release)
    wait_leads(cluster)


def install(cluster: Cluster, release: Release, *, with_definitions: bool = True) -> None:
    """Writes what a release consists of, its definitions first, unless they are to stay as they are, and waits for no pod."""
    documents = _rendered(cluster, release.config)
    definitions = [d for d in documents if d["kind"] == "CustomResourceDefinition"]
    # A version that has a namespace of its own, ray-system, is put into ours as well.
    rest = [d for d in documents if d["kind"] not in ("CustomResourceDefinition", "Namespace")]
    if not definitions:
        raise StackError(f"{release.config} holds no custom resource definitions")
    if with_definitions:
        ensure_definitions(cluster, definitions)
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    cluster.apply([namespace, *(_tuned(document, release) for document in rest)])


def wait_leads(cluster: Cluster) -> None:
    """Waits until the operator is rolled out and leads. Raises `StackError`."""
    cluster.wait_rolled_out("deployments", NAMESPACE, DEPLOYMENT, _START_SECONDS)
    until(
        lambda: leads(cluster),
        what="the operator's lease is held by its pod", deadline=_LEASE_SECONDS, error=StackError,
    )  # fmt: skip


def ensure_definitions(cluster: Cluster, definitions: list[Object]) -> None:
    """Applies custom resource definitions and waits until the API server serves them. Raises `StackError`."""
    cluster.apply(definitions)

    def established() -> bool:
        for definition in definitions:
            name = definition["metadata"]["name"]
            found = cluster.get("customresourcedefinitions", None, name)
            # Just created, its status has the key with no list under it.
            conditions = (found.get("status", {}).get("conditions") if found else None) or []
            if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                raise StackError(f"{name} is not established")
        return True

    until(established, what="KubeRay's definitions", deadline=_ESTABLISHED_SECONDS, error=StackError)


def definitions(cluster: Cluster, config_dir: Path) -> list[Object]:
    """The custom resource definitions of one KubeRay version."""
    return [d for d in _rendered(cluster, config_dir) if d["kind"] == "CustomResourceDefinition"]


def operator_pod(cluster: Cluster) -> Object:
    """The operator's one pod that isn't being deleted. Raises `StackError` when there is none, or several."""
    deployment = cluster.get("deployments", NAMESPACE, DEPLOYMENT)
    if deployment is None:
        raise StackError(f"there is no Deployment {NAMESPACE}/{DEPLOYMENT}", fix="stand the stack up first")
    selector = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())
    pods = cluster.list("pods", NAMESPACE, selector)
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    if len(staying) != 1:
        raise StackError(f"{len(staying)} operator pods, one expected")
    return staying[0]


def require_available(cluster: Cluster) -> None:
    """Raises `StackError` unless the operator is rolled out and leads."""
    cluster.wait_rolled_out("deployments", NAMESPACE, DEPLOYMENT, 5)
    leads(cluster)


def leader_pod(cluster: Cluster) -> Object:
    """The operator's pod that holds the lease. Raises `StackError` when none does."""
    holder = lease_holder(cluster) or "nobody"
    pod = cluster.get("pods", NAMESPACE, holder.rpartition("_")[0]) if "_" in holder else None
    if pod is None or "deletionTimestamp" in pod["metadata"]:
        raise StackError(f"the operators' lease is held by {holder}, which is no pod that is there")
    return pod


def lease_holder(cluster: Cluster) -> str | None:
    """Who holds the operators' lease: ``POD_RANDOM``; None when nobody ever did."""
    lease = cluster.get("leases", NAMESPACE, LEASE)
    holder = lease["spec"].get("holderIdentity") if lease else None
    return holder or None


def leads(cluster: Cluster) -> bool:
    holder = lease_holder(cluster) or "nobody"
    pod = operator_pod(cluster)["metadata"]["name"]
    if not holder.startswith(f"{pod}_"):
        raise StackError(f"held by {holder}, not by {pod}")
    return True


def _rendered(cluster: Cluster, config_dir: Path) -> list[Object]:
    """KubeRay's default kustomization as documents; rendered once, since it takes seconds of a processor."""

    def make(result: Path, progress: cache.Progress) -> None:
        rendered = cluster.run_kubectl(["kustomize", str(config_dir / "default")], timeout=60)
        text = rendered.require(f"kubectl kustomize of {config_dir}")
        documents = [document for document in yaml.load_all(text, Loader=_LOADER) if document is not None]
        result.write_text(json.dumps(documents))

    files = sorted(path for path in config_dir.rglob("*") if path.is_file())
    content = [(str(path.relative_to(config_dir)), cache.file_digest(path)) for path in files]
    documents: list[Object] = json.loads(
        cache.cached("manifests", f"kuberay-{cache.key(content)}.json", make).read_text()
    )
    return documents


def _tuned(document: Object, release: Release) -> Object:
    """A document of KubeRay's, in our namespace and with our image."""
    metadata = document["metadata"]
    for named in (metadata, *document.get("subjects", [])):
        if "namespace" in named:
            named["namespace"] = NAMESPACE
    if document["kind"] == "Deployment":
        template = document["spec"]["template"]
        for labelled in (metadata, template["metadata"]):
            labelled.setdefault("labels", {})[VERSION_LABEL] = release.version
        document["spec"]["strategy"] = {"type": "Recreate"}
        for container in template["spec"]["containers"]:
            container["image"] = release.image
            container["imagePullPolicy"] = "IfNotPresent"
    return document
