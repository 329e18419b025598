"""The Debian root file system that the built images share.

One tree for all of them: making one costs a minute and a half, and layers that are shared are stored and imported once.
Debian 12, since the systemd of later releases refuses the first version of cgroups.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from chaos.errors import ImageError
from chaos.process import run_logged
from chaos.stack import engine as docker_engine
from chaos.stack.images import cache

SUITE = "bookworm"

PACKAGES = {
    "node": (
        "systemd systemd-sysv dbus containerd runc containernetworking-plugins iptables nftables ipset conntrack ethtool "
        "iproute2 util-linux mount kmod jq procps ca-certificates curl socat pigz libseccomp2"
    ),
    "ray": "python3 ca-certificates procps wget curl iproute2",
    "redis": "redis-server redis-sentinel redis-tools procps",
    "pause": "catatonit",
}


def packages() -> list[str]:
    """Every package of the shared tree, sorted."""
    return sorted({name for names in PACKAGES.values() for name in names.split()})


def rootfs(show: cache.Show = cache.silent) -> Path:
    """A tar file of the tree."""
    wanted = packages()

    def make(result: Path, progress: cache.Progress) -> None:
        if shutil.which("mmdebstrap") is None:
            if not docker_engine.startable():
                raise ImageError(
                    "building images needs mmdebstrap",
                    fix="install the package mmdebstrap, or use `--images registry` or `--images archive`",
                )
            docker_engine.install_packages("mmdebstrap")
        log = cache.logs() / "debian.log"
        run_logged(
            ["mmdebstrap", "--variant=minbase", f"--include={','.join(wanted)}",
             "--aptopt=Acquire::Languages \"none\"", "--dpkgopt=path-exclude=/usr/share/man/*",
             "--dpkgopt=path-exclude=/usr/share/doc/*", SUITE, f"{result}.tar"],
            log=log, timeout=1200, error=ImageError, fix=f"see {log}; Debian's package mirror must be reachable",
        )  # fmt: skip
        Path(f"{result}.tar").rename(result)

    return cache.cached("debian", f"{SUITE}-{cache.key(wanted)}.tar", make, show=show)
