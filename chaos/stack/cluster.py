"""A handle to one Kubernetes cluster: its API, its pods and its nodes.

The API is spoken as JSON over the one kubeconfig the handle was made with, never the ambient one. Objects are plain
dicts as the server sent them, so that nothing is lost to a client's model of them. Each call is one request with a
time-out: what may need several is waited for with `chaos.waiting.until`, whose deadline is the caller's.

Commands in pods go through ``kubectl exec``: its process can be killed at the deadline whatever state the connection,
the kubelet or the pod is in.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from kubernetes import client, config

from chaos.errors import StackError
from chaos.process import Executed, run
from chaos.signals import Deadline, checkpoint
from chaos.waiting import until

Object = dict[str, Any]
Command = list[str]  # for annotations inside `Cluster`, where `list` is the method
T = TypeVar("T")

FIELD_MANAGER = "kuberay-chaos"
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 30.0
_LOOK_EVERY = 0.2
_KUBECTL_EXIT_LINE = b"command terminated with exit code "


@dataclass(frozen=True)
class Resource:
    """Where the API server keeps one kind of object."""

    group_version: str
    namespaced: bool = True

    def path(self, plural: str, namespace: str | None, name: str | None = None) -> str:
        """The URL path of the collection, or of one object in it."""
        root = "/api/" if self.group_version == "v1" else "/apis/"
        parts = [root + self.group_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        return "/".join(parts)


_CLUSTER_WIDE = False
RESOURCES: Mapping[str, Resource] = {
    "pods": Resource("v1"),
    "services": Resource("v1"),
    "endpoints": Resource("v1"),
    "nodes": Resource("v1", _CLUSTER_WIDE),
    "namespaces": Resource("v1", _CLUSTER_WIDE),
    "secrets": Resource("v1"),
    "serviceaccounts": Resource("v1"),
    "configmaps": Resource("v1"),
    "persistentvolumeclaims": Resource("v1"),
    "events": Resource("v1"),
    "jobs": Resource("batch/v1"),
    "deployments": Resource("apps/v1"),
    "statefulsets": Resource("apps/v1"),
    "daemonsets": Resource("apps/v1"),
    "rayclusters": Resource("ray.io/v1"),
    "rayjobs": Resource("ray.io/v1"),
    "rayservices": Resource("ray.io/v1"),
    "roles": Resource("rbac.authorization.k8s.io/v1"),
    "clusterroles": Resource("rbac.authorization.k8s.io/v1", _CLUSTER_WIDE),
    "leases": Resource("coordination.k8s.io/v1"),
    "networkpolicies": Resource("networking.k8s.io/v1"),
    "customresourcedefinitions": Resource("apiextensions.k8s.io/v1", _CLUSTER_WIDE),
}


class RunOnNode(Protocol):
    """Runs a command on a node, with the node's own privileges."""

    def __call__(self, node: str, argv: list[str], stdin: bytes | None, timeout: float) -> Executed: ...


@dataclass(frozen=True)
class NodeState:
    """A node as the machine that carries it sees it; ``started`` is when it was last started, by that machine's clock."""

    running: bool
    started: datetime


class NodeControl(Protocol):
    """Power over nodes, from outside of them: it works while the API server and the node itself are away."""

    def state(self, node: str) -> NodeState | None:
        """How the node is; None when there is no such node any more."""

    def stop(self, node: str, *, at_once: bool) -> None:
        """Shut the node down in order or, with ``at_once``, as a power cut does. Returns when it has stopped."""

    def start(self, node: str) -> None:
        """Start a stopped node; one that runs is left as it is. Returns long before the node is Ready."""


class ApiError(StackError):
    """The API server refused a request; ``status`` is the HTTP code and ``reason`` the server's word for it."""

    def __init__(self, message: str, *, status: int, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Cluster:
    """One cluster, by the kubeconfig it was made with (and, in that file, one context: the current one by default)."""

    def __init__(
        self,
        name: str,
        kubeconfig: Path,
        kubectl: Path | str = "kubectl",
        run_on_node: RunOnNode | None = None,
        *,
        node_control: NodeControl | None = None,
        context: str | None = None,
    ) -> None:
        self.name = name
        self.kubeconfig = kubeconfig
        self.context = context
        self._kubectl = str(kubectl)
        self._run_on_node = run_on_node
        self._node_control = node_control
        self.api = _api_client(kubeconfig, context)

    def __repr__(self) -> str:
        return f"Cluster({self.name!r})"

    # --- objects -------------------------------------------------------------------------------------------------

    def get(self, resource: str, namespace: str | None, name: str) -> Object | None:
        """One object, or None when there is none of that name."""
        try:
            return self.request("GET", RESOURCES[resource].path(resource, namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, resource: str, namespace: str | None = None, labels: str | None = None) -> list[Object]:
        """All objects, of one namespace or of all, that match the label selector."""
        query = {"labelSelector": labels} if labels else {}
        listed = self.request("GET", RESOURCES[resource].path(resource, namespace), query=query)
        return cast("list[Object]", listed["items"])

    def create(self, resource: str, namespace: str | None, body: Object) -> Object:
        """Creates an object; `ApiError` with status 409 when it exists."""
        query = {"fieldManager": FIELD_MANAGER}
        return self.request("POST", RESOURCES[resource].path(resource, namespace), query=query, body=body)

    def patch(
        self, resource: str, namespace: str | None, name: str, body: Object | Sequence[Object], *, subresource: str = ""
    ) -> Object:
        """Patches an object: a dict is a JSON merge patch (RFC 7386), a list a JSON patch (RFC 6902)."""
        path = RESOURCES[resource].path(resource, namespace, name) + (f"/{subresource}" if subresource else "")
        kind = "merge-patch" if isinstance(body, dict) else "json-patch"
        return self.request("PATCH", path, body=body, content_type=f"application/{kind}+json")

    def delete(
        self,
        resource: str,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace: int | None = None,
        propagation: str = "Background",
    ) -> bool:
        """Asks for deletion and does not wait for it.

        With ``uid`` only that very object is deleted, never a namesake that took its place. ``grace`` is in seconds, 0
        for at once. False when there was nothing to delete: already gone, or of another UID.
        """
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            self.request("DELETE", RESOURCES[resource].path(resource, namespace, name), body=options)
        except ApiError as error:
            if error.status == 404 or (uid is not None and error.status == 409):
                return False
            raise
        return True

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: float = _READ_SECONDS,
    ) -> Object:
        """One request and its JSON answer. Raises `ApiError` when refused, `StackError` when there was no answer.

        Once a signal has asked for the end, that is waited for no longer than everything else is.
        """
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        for setting in self.api.configuration.auth_settings().values():
            headers[setting["key"]] = setting["value"]
        url = self.api.configuration.host + path + ("?" + urlencode(query) if query else "")
        try:
            # Straight to the client's connection pool: a retry hidden in here would be a second write to the cluster.
            answer = _unless_ended(
                partial(
                    self.api.rest_client.pool_manager.request,
                    method,
                    url,
                    body=None if body is None else json.dumps(body).encode(),
                    headers=headers,
                    timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=timeout),
                    retries=False,
                )
            )
        except TimeoutError:
            raise StackError(f"the API server of {self.name} did not answer {method} {path} before the end") from None
        except urllib3.exceptions.HTTPError as error:
            raise StackError(f"the API server of {self.name} did not answer {method} {path}: {error}") from error
        if answer.status >= 400:
            raise _refused(method, path, answer.status, answer.data)
        return cast(Object, json.loads(answer.data))

    # --- kubectl -------------------------------------------------------------------------------------------------

    def apply(self, documents: Iterable[Object] | Path) -> None:
        """Server-side apply of parsed documents, or of a manifest without placeholders."""
        if isinstance(documents, Path):
            manifest = documents.read_bytes()
        else:
            manifest = b"\n".join(b"---\n" + json.dumps(document).encode() for document in documents)
        self._apply(["-f", "-"], manifest)

    def _apply(self, source: Sequence[str], manifest: bytes | None) -> None:
        argv = ["apply", "--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}", *source]
        self.run_kubectl(argv, stdin=manifest, timeout=120).require("kubectl apply")

    def run_kubectl(self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float) -> Executed:
        """Runs kubectl against this cluster and nothing else."""
        return run(self.kubectl_command(argv), stdin=stdin, timeout=timeout, check=False)

    def kubectl_command(self, argv: Sequence[str]) -> Command:
        """The full command line of a kubectl call; its cache stays beside the kubeconfig, out of the user's home."""
        command = [self._kubectl, f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.kubeconfig.parent / 'cache'}"]
        if self.context is not None:
            command.append(f"--context={self.context}")
        return [*command, *argv]

    # --- commands ------------------------------------------------------------------------------------------------

    def exec(
        self,
        namespace: str,
        pod: str,
        argv: Sequence[str],
        *,
        container: str | None = None,
        stdin: bytes | None = None,
        timeout: float,
    ) -> Executed:
        """Runs a command in a pod and waits for its end, ``timeout`` seconds at most.

        At the time-out only our end is closed: a command that must not linger has to bound itself.
        """
        command = self.exec_command(namespace, pod, argv, container=container, stdin=stdin is not None)
        executed = run(command, stdin=stdin, timeout=timeout, check=False)
        if executed.code in (0, None):
            return executed
        # kubectl exits with 1 for its own troubles too. What the command itself returned it names in its last line.
        said, marker, code = executed.stderr.rpartition(_KUBECTL_EXIT_LINE)
        if marker and code.strip().isdigit():
            return Executed(int(code), executed.stdout, said)
        return Executed(None, executed.stdout, executed.stderr)

    def exec_command(
        self, namespace: str, pod: str, argv: Sequence[str], *, container: str | None = None, stdin: bool = False
    ) -> Command:
        """The command line of `exec`, for a caller that reads a long-running command's output as it comes."""
        options = ["--stdin"] if stdin else []
        if container is not None:
            options.append(f"--container={container}")
        return self.kubectl_command(["exec", f"--namespace={namespace}", pod, *options, "--", *argv])

    def node_exec(self, node: str, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 30) -> Executed:
        """Runs a command on a node. Raises `StackError` where nodes can't be entered."""
        if self._run_on_node is None:
            raise StackError(f"commands can't be run on the nodes of {self.name}: it is not a cluster of ours")
        return self._run_on_node(node, list(argv), stdin, timeout)

    @property
    def node_control(self) -> NodeControl:
        """Power over the nodes. Raises `StackError` where we have none."""
        if self._node_control is None:
            raise StackError(f"the nodes of {self.name} can't be stopped or started: it is not a cluster of ours")
        return self._node_control

    # --- waiting -------------------------------------------------------------------------------------------------

    def wait_rolled_out(self, resource: str, namespace: str, name: str, seconds: float) -> Object:
        """Waits until every replica of a Deployment, StatefulSet or DaemonSet is of its newest template and ready."""

        def rolled_out() -> Object:
            found = self.get(resource, namespace, name)
            if found is None:
                raise StackError("it does not exist")
            if missing := _not_rolled_out(resource, found):
                raise StackError(missing)
            return found

        what = f"{resource.removesuffix('s')} {namespace}/{name}"
        return until(rolled_out, what=what, deadline=seconds, error=StackError)


def _unless_ended(ask: Callable[[], T]) -> T:
    """What it answers. Raises TimeoutError when the run ends before that.

    A read that blocks can't be cut short, so it is done in a thread that can be left to itself.
    """
    answered: Future[T] = Future()

    def work() -> None:
        try:
            answered.set_result(ask())
        except BaseException as problem:  # whatever it is, it is the caller's
            answered.set_exception(problem)

    ends = Deadline(math.inf)
    Thread(target=work, name="request", daemon=True).start()
    while wait([answered], timeout=min(ends.left, _LOOK_EVERY)).not_done:
        checkpoint()
        if not ends.left:
            raise TimeoutError
    return answered.result()


def _api_client(kubeconfig: Path, context: str | None) -> client.ApiClient:
    """A client of the kubeconfig's cluster. Raises `StackError` when it is unreadable or turns verification off."""
    settings = client.Configuration()
    try:
        config.load_kube_config(str(kubeconfig), context, client_configuration=settings, persist_config=False)
    except (config.ConfigException, OSError) as error:
        raise StackError(f"{kubeconfig} can't be used: {error}") from error
    address = urlsplit(settings.host)
    if address.scheme != "https" or not settings.verify_ssl:
        raise StackError(
            f"{kubeconfig} would talk to {settings.host} without verifying the server",
            fix="remove insecure-skip-tls-verify and give certificate-authority-data",
        )
    if address.hostname in ("127.0.0.1", "::1", "localhost"):
        settings.proxy = None
    return client.ApiClient(settings)


def _refused(method: str, path: str, status: int, data: bytes) -> ApiError:
    """What the server said, as an error: usually a Status object, else the text of its answer."""
    message, reason = data.decode(errors="replace")[:500], ""
    with contextlib.suppress(ValueError, AttributeError):
        said = json.loads(data)
        message, reason = said.get("message", message), said.get("reason", "")
    return ApiError(f"{method} {path}: {status} {reason}: {message}", status=status, reason=reason)


def _not_rolled_out(resource: str, found: Object) -> str:
    """What a workload still lacks, in words; empty when nothing."""
    status = found.get("status", {})
    if status.get("observedGeneration", 0) < found["metadata"]["generation"]:
        return "its controller has not seen the newest version"
    if resource == "daemonsets":
        wanted = status.get("desiredNumberScheduled", 0)
        updated, ready = status.get("updatedNumberScheduled", 0), status.get("numberReady", 0)
        if wanted == 0:
            return "no node for it yet"
    else:
        wanted = found["spec"].get("replicas", 1)
        updated, ready = status.get("updatedReplicas", 0), status.get("readyReplicas", 0)
        if status.get("replicas", 0) != wanted:
            return f"{status.get('replicas', 0)} replicas, {wanted} wanted"
    if updated < wanted or ready < wanted:
        return f"{updated} of {wanted} updated, {ready} ready"
    return ""
