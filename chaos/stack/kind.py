"""The kind cluster: one control plane and two workers on a Docker network of the stack's own.

pytest-kind's `KindCluster` gives the names, the paths, kubectl and the deletion. Its `create` takes no wait, no evidence
and no own network, re-uses a cluster without looking at it, and downloads an old kind unverified; those parts are here.
"""

from __future__ import annotations

import contextlib
import shutil
import stat
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pytest_kind import KindCluster

from chaos.console import Console
from chaos.errors import BusyError, StackError
from chaos.locks import atomic_write
from chaos.paths import stack_dir
from chaos.process import run, run_logged
from chaos.stack.engine import STACK_LABEL, Engine, labels, may_raise_limits

# Where the ledger's host folder appears in every node, and from there in pods.
NODE_LEDGER = "/var/lib/kuberay-chaos/ledger"
_NODE_AUDIT = "/var/log/kuberay-chaos-audit"
_AUDIT_FILE = "audit.log"
_NODE_PATCHES = "/etc/kubernetes/kuberay-chaos-patches"
_NODE_POLICY = "/etc/kubernetes/kuberay-chaos-audit-policy.yaml"

# What kind says when the control plane is up and serves.
_JOINING = "Joining worker nodes"

CLUSTER_LABEL = "io.x-k8s.kind.cluster"


@dataclass(frozen=True)
class StackFolder:
    """The private files of one stack, under the state folder; readable by their owner alone."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def undo_log(self) -> Path:
        return self.root / "undo.jsonl"

    @property
    def kubectl(self) -> Path:
        """The kubectl that the stack was made with, for commands that don't choose an image source."""
        return self.root / "kubectl"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger"

    @property
    def audit(self) -> Path:
        return self.root / "audit"

    @property
    def audit_log(self) -> Path:
        return self.audit / _AUDIT_FILE

    def create(self) -> None:
        """Make the folders; safe to call again."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.audit.mkdir(exist_ok=True, mode=0o700)
        self.ledger.mkdir(exist_ok=True)
        # Pods of any user append to the ledger; the folder above it is closed to other users of this machine.
        self.ledger.chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO | stat.S_ISVTX)

    def link_kubectl(self, program: Path) -> None:
        """Remember where the stack's kubectl is; safe to call again."""
        self.kubectl.unlink(missing_ok=True)
        self.kubectl.symlink_to(program)


class Kind:
    """The cluster of one stack."""

    def __init__(self, name: str, engine: Engine, kind: Path, kubectl: Path) -> None:
        self.name = name
        self.engine = engine
        self.folder = StackFolder(stack_dir(name))
        self.folder.create()
        # KindCluster makes a folder of its own where the process stands; it belongs into the stack's.
        with contextlib.chdir(self.folder.root):
            self.cluster = KindCluster(name, kubeconfig=self.folder.kubeconfig, kind_path=kind, kubectl_path=kubectl)

    @property
    def network(self) -> str:
        return f"{self.name}-net"

    @property
    def control_plane(self) -> str:
        return f"{self.name}-control-plane"

    def nodes(self) -> list[str]:
        """Names of the node containers, running or not, control plane first."""
        return sorted(node_names(self.engine, self.name), key=lambda node: (node != self.control_plane, node))

    def running_nodes(self) -> list[str]:
        listed = self.engine.docker(
            "ps", "--filter", f"label={CLUSTER_LABEL}={self.name}", "--format", "{{.Names}}"
        ).text.split()
        return sorted(listed)

    def owned(self) -> bool:
        """Whether the cluster of this name is ours: its nodes are on our network."""
        network = self.engine.inspect("network", self.network)
        return network is not None and (network.get("Labels") or {}).get(STACK_LABEL) == self.name

    def create(self, node_image: str, console: Console, *, meanwhile: Callable[[], None]) -> None:
        """Create the cluster; returns when kind says that it is made, which is before anything in it is ready.

        ``meanwhile`` runs as soon as the API server answers, while the other nodes are joining, and has ended on return.
        """
        if self.nodes() and not self.owned():
            raise BusyError(
                f"a kind cluster named {self.name} exists and isn't ours",
                fix=f"choose another name with --name, or delete it: kind delete cluster --name {self.name}",
            )
        self._ensure_network()
        config = self.folder.root / "kind.yaml"
        self._write_mounted()
        atomic_write(config, yaml.safe_dump(self._config(), sort_keys=False))
        log = self.folder.root / "kind.log"
        fix = f"see {log}; `make down` removes what is left of it"
        with console.step("kind cluster, three nodes", expect=35) as step, ThreadPoolExecutor(max_workers=1) as beside:
            begun: list[Future[None]] = []

            def begin() -> None:
                if not begun:
                    self._write_kubeconfig(fix)
                    begun.append(beside.submit(meanwhile))

            def told(line: str) -> None:
                step.say(line)
                if _JOINING in line:
                    begin()

            run_logged(
                [self.cluster.kind_path, "create", "cluster", "--name", self.name, "--image", node_image,
                 "--config", config, "--kubeconfig", self._kinds_kubeconfig, "--retain"],
                log=log, on_line=told, timeout=600, env=self._environment(), fix=fix,
            )  # fmt: skip
            self._kinds_kubeconfig.unlink(missing_ok=True)
            begin()
            begun[0].result()

    @property
    def _kinds_kubeconfig(self) -> Path:
        """Where kind writes its own, at its end and while ours is read: it can't be told not to."""
        return self.folder.root / "kind-kubeconfig"

    def _write_kubeconfig(self, fix: str) -> None:
        told = run(
            [self.cluster.kind_path, "get", "kubeconfig", "--name", self.name],
            env=self._environment(), timeout=60, check=False,
        )  # fmt: skip
        if not told.ok:
            raise StackError(f"kind has no kubeconfig of {self.name}: {told.error_text.strip()[-300:]}", fix=fix)
        atomic_write(self.folder.kubeconfig, told.text, mode=0o600)

    def _environment(self) -> dict[str, str]:
        return {"KIND_EXPERIMENTAL_DOCKER_NETWORK": self.network, "KIND_EXPERIMENTAL_PROVIDER": "docker"}

    def delete(self) -> None:
        """Remove the nodes with their volumes, and the network. Nothing happens when there is nothing."""
        if self.nodes() and not self.owned():
            raise StackError(f"the kind cluster {self.name} isn't ours; it is left alone")
        if nodes := self.nodes():
            self.engine.docker("rm", "--force", "--volumes", *nodes, timeout=180)
        if self.engine.inspect("network", self.network) is not None:
            self.engine.docker("network", "rm", self.network)
        shutil.rmtree(self.folder.root, ignore_errors=True)

    # --- configuration ----------------------------------------------------------------------------------------------

    def _ensure_network(self) -> None:
        if self.engine.inspect("network", self.network) is None:
            self.engine.docker(
                "network", "create", "--driver=bridge", *labels(self.name, self.folder.root), self.network
            )

    def _config(self) -> dict[str, Any]:
        ledger = {"hostPath": str(self.folder.ledger), "containerPath": NODE_LEDGER}
        audit = [
            {"hostPath": str(self.folder.audit), "containerPath": _NODE_AUDIT},
            {"hostPath": str(self._policy_file()), "containerPath": _NODE_POLICY, "readOnly": True},
        ]
        patches = {"hostPath": str(self._patches_folder()), "containerPath": _NODE_PATCHES, "readOnly": True}
        document: dict[str, Any] = {
            "kind": "Cluster",
            "apiVersion": "kind.x-k8s.io/v1alpha4",
            "networking": {"disableDefaultCNI": True, "ipFamily": "ipv4", "apiServerAddress": "127.0.0.1"},
            "kubeadmConfigPatches": [
                yaml.safe_dump(_audit_patch()),
                yaml.safe_dump({"kind": "InitConfiguration", "patches": {"directory": _NODE_PATCHES}}),
            ],
            "nodes": [
                # Three nodes, one for each member of the highly available Redis.
                {"role": "control-plane", "extraMounts": [ledger, *audit, patches]},
                {"role": "worker", "extraMounts": [ledger]},
                {"role": "worker", "extraMounts": [ledger]},
            ],
        }
        if not may_raise_limits():
            # The kubelet then may not lower oom scores; this gate makes it go on without.
            document["featureGates"] = {"KubeletInUserNamespace": True}
        return document

    def _policy_file(self) -> Path:
        return self.folder.root / "audit-policy.yaml"

    def _patches_folder(self) -> Path:
        return self.folder.root / "patches"

    def _write_mounted(self) -> None:
        """The files that the control plane's node reads while kubeadm makes it."""
        atomic_write(self._policy_file(), yaml.safe_dump(_AUDIT_POLICY, sort_keys=False), mode=0o644)
        self._patches_folder().mkdir(exist_ok=True)
        atomic_write(self._patches_folder() / "kube-apiserver+strategic.yaml", yaml.safe_dump(_API_SERVER), mode=0o644)


def node_names(engine: Engine, cluster: str) -> list[str]:
    """The node containers of a kind cluster, running or not."""
    return engine.docker(
        "ps", "--all", "--filter", f"label={CLUSTER_LABEL}={cluster}", "--format", "{{.Names}}"
    ).text.split()


# A quarter of what the API server computes while KubeRay's definitions are installed is the collection of its garbage; so it
# lets twice as much come together first, which takes about half a GB more.
_API_SERVER = {"spec": {"containers": [{"name": "kube-apiserver", "env": [{"name": "GOGC", "value": "200"}]}]}}

# Who asked for what, and the answer; never bodies, which hold secrets. Reads and leases would be nine tenths of the volume.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {
            "level": "None",
            "resources": [
                {"group": "coordination.k8s.io"},
                {"group": "events.k8s.io"},
                {"group": "", "resources": ["events"]},
            ],
        },
        {"level": "None", "resources": [{"group": "authentication.k8s.io"}, {"group": "authorization.k8s.io"}]},
        {"level": "Metadata"},
    ],
}


def _audit_patch() -> dict[str, Any]:
    """kubeadm's ClusterConfiguration with the audit log switched on."""
    mounts = [
        {
            "name": "audit-policy",
            "hostPath": _NODE_POLICY,
            "mountPath": _NODE_POLICY,
            "readOnly": True,
            "pathType": "File",
        },
        {"name": "audit", "hostPath": _NODE_AUDIT, "mountPath": _NODE_AUDIT, "pathType": "DirectoryOrCreate"},
    ]
    return {
        "kind": "ClusterConfiguration",
        "apiServer": {
            "extraArgs": {
                "audit-policy-file": _NODE_POLICY,
                "audit-log-path": f"{_NODE_AUDIT}/{_AUDIT_FILE}",
                # One file of 100 MB and one before it bound the disk that a stack left running takes.
                "audit-log-maxsize": "100",
                "audit-log-maxbackup": "1",
            },
            "extraVolumes": mounts,
        },
    }
