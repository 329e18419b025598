"""Which images and programs a stack of given versions consists of, by their official names.

Manifests use these names whatever the source, so that one applies what one would apply by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.errors import UsageError
from chaos.settings import Settings

KIND = "0.30.0"
KUBE_ROUTER = "2.1.0"
LOCAL_PATH_PROVISIONER = "0.0.30"
# Debian bookworm's, so that `build` and `registry` serve the same.
REDIS = "7.0.15"

KUBE_ROUTER_IMAGE = f"docker.io/cloudnativelabs/kube-router:v{KUBE_ROUTER}"
LOCAL_PATH_IMAGE = f"docker.io/rancher/local-path-provisioner:v{LOCAL_PATH_PROVISIONER}"
REDIS_IMAGE = f"docker.io/library/redis:{REDIS}"


@dataclass(frozen=True)
class ControlPlane:
    """What `kubeadm config images list` names beside the four Kubernetes images, for one minor version."""

    etcd: str  # version of the program
    etcd_tag: str
    coredns: str
    pause: tuple[str, ...]  # kubeadm's, and the one that kind's containerd configuration names


CONTROL_PLANES = {
    "1.34": ControlPlane(etcd="3.6.5", etcd_tag="3.6.5-0", coredns="1.12.1", pause=("3.10.1", "3.10")),
}


def control_plane(kubernetes: str) -> ControlPlane:
    """The companions of a Kubernetes version; raises UsageError for a minor version that no row describes."""
    minor = kubernetes.rpartition(".")[0]
    try:
        return CONTROL_PLANES[minor]
    except KeyError:
        known = ", ".join(f"{m}.x" for m in CONTROL_PLANES)
        raise UsageError(
            f"Kubernetes {kubernetes} can't be built: its companions (etcd, CoreDNS, pause) are not in the catalogue",
            fix=f"choose {known}, or `--images registry`, where the node image brings them",
        ) from None


def node_image(kubernetes: str) -> str:
    return f"docker.io/kindest/node:v{kubernetes}"


def operator_image(kuberay: str) -> str:
    # The repository moved to quay.io with 1.1.
    return (
        f"docker.io/kuberay/operator:v{kuberay}"
        if kuberay.startswith("1.0.")
        else f"quay.io/kuberay/operator:v{kuberay}"
    )


def ray_image(ray: str) -> str:
    return f"docker.io/rayproject/ray:{ray}"


def stack_operator_image(settings: Settings) -> str:
    """The operator's image of this stack: the official one, or the user's own build."""
    return settings.kuberay_image or operator_image(settings.versions.kuberay)


def workload_images(settings: Settings) -> list[str]:
    """Every image that pods of the stack run, the control plane's apart."""
    return [
        KUBE_ROUTER_IMAGE,
        LOCAL_PATH_IMAGE,
        REDIS_IMAGE,
        stack_operator_image(settings),
        ray_image(settings.versions.ray),
    ]
