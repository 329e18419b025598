"""The Debian root file systems that built images stand on: that of nodes, that of the stack's own pods, and that of Ray's.

Each node unpacks a tree before the first pod that needs it can start. So the stack's own pods have a small one, and what only
Ray needs is in another, which waits for the first Ray pod. Debian 12, since the systemd of later releases refuses the first
version of cgroups.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from chaos.errors import ImageError
from chaos.process import run_logged
from chaos.stack import engine as docker_engine
from chaos.stack.images import cache

SUITE = "bookworm"
# Nobody reads them there, and they would be a third of the tree's files, each of which is unpacked on every node.
_UNREAD = ("man", "doc", "locale", "info", "zoneinfo", "bash-completion", "lintian")
# The tree is merged from its start; otherwise a package that merges it brings all of Perl along.
_MERGED = ["--include=usr-is-merged", "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"]

# What built the tree and nobody runs in a pod, half of the files of a small one: Perl, the package database, other encodings.
_BUILT_IT = ("usr/lib/*/perl-base", "usr/share/perl5", "var/lib/dpkg/info", "var/cache/apt", "usr/lib/*/gconv")

NODES = {
    "kind": (
        "systemd systemd-sysv dbus containerd runc containernetworking-plugins iptables nftables ipset conntrack ethtool "
        "iproute2 util-linux mount kmod jq procps ca-certificates curl socat pigz libseccomp2"
    ),
    "delay": "python3",  # of packets, where the kernel has no netem
}
PODS = {
    "network": "iptables ipset conntrack iproute2 kmod procps",
    "redis": "redis-server redis-sentinel redis-tools procps",
    "pause": "catatonit",
}
RAY = {"ray": "python3 ca-certificates procps wget curl iproute2"}


def nodes(show: cache.Show = cache.silent) -> Path:
    """A tar file of the tree of nodes."""
    return _tree("nodes", NODES, show)


def pods(show: cache.Show = cache.silent) -> Path:
    """A tar file of the tree that images of the stack's own pods share."""
    return _tree("pods", PODS, show, without=_BUILT_IT)


def ray(show: cache.Show = cache.silent) -> Path:
    """A tar file of the tree below Ray's wheels."""
    return _tree("ray", RAY, show)


def _tree(of: str, packages: dict[str, str], show: cache.Show, *, without: tuple[str, ...] = ()) -> Path:
    wanted = sorted({name for names in packages.values() for name in names.split()})

    def make(result: Path, progress: cache.Progress) -> None:
        if shutil.which("mmdebstrap") is None:
            if not docker_engine.startable():
                raise ImageError(
                    "building images needs mmdebstrap",
                    fix="install the package mmdebstrap, or use `--images registry` or `--images archive`",
                )
            docker_engine.install_packages("mmdebstrap")
        log = cache.logs() / f"debian-{of}.log"
        run_logged(
            ["mmdebstrap", "--variant=minbase", f"--include={','.join(wanted)}", *_MERGED,
             "--aptopt=Acquire::Languages \"none\"", *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _UNREAD),
             *(f'--customize-hook=rm -rf "$1"/{path}' for path in without), SUITE, f"{result}.tar"],
            log=log, timeout=1200, error=ImageError, fix=f"see {log}; Debian's package mirror must be reachable",
        )  # fmt: skip
        Path(f"{result}.tar").rename(result)

    return cache.cached("debian", f"{SUITE}-{of}-{cache.key(wanted, _UNREAD, _MERGED, without)}.tar", make, show=show)
