"""The `build` source: everything from Debian packages, PyPI wheels and Go modules; no image registry is asked.

Two lanes share the machine: Go programs, which keep the cores busy, and downloads, which keep the network busy. Each item
is cached by content (`chaos.stack.images.cache`); images in the engine carry their content key as their tag.
"""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaos.console import Console
from chaos.errors import ImageError
from chaos.paths import cache_dir, manifests
from chaos.process import run_logged
from chaos.settings import Settings
from chaos.stack.engine import Engine
from chaos.stack.images import cache, catalogue, debian, golang
from chaos.stack.images.source import Provided

KUBERAY_MODULE = "github.com/ray-project/kuberay/ray-operator"
_PYTHON_OF_TREE = "3.11"  # bookworm's

# name, package, version, seconds on two cores from nothing, main package of our own
_PROGRAMS = (
    ("crictl", "sigs.k8s.io/cri-tools/cmd/crictl", "1.34.0", 60, None),
    ("kind", "sigs.k8s.io/kind", catalogue.KIND, 10, None),
    ("kube-router", "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router", catalogue.KUBE_ROUTER, 130, None),
    ("local-path-provisioner", "github.com/rancher/local-path-provisioner", catalogue.LOCAL_PATH_PROVISIONER, 90, None),
)


@dataclass(frozen=True)
class _Trees:
    """Tar files of root file systems."""

    nodes: Path
    pods: Path
    ray: Path


class BuildSource:
    """Builds what the cache lacks."""

    name = "build"

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self.settings = settings
        self.engine = engine

    def provide(self, console: Console) -> Provided:
        """Build what is missing, on both cores."""
        companions = catalogue.control_plane(self.settings.versions.kubernetes)
        with ThreadPoolExecutor(max_workers=2, thread_name_prefix="build") as lanes:
            downloads = lanes.submit(self._downloads, console)
            compiled = lanes.submit(self._programs, console, companions)
            programs = compiled.result()
            trees, ray = downloads.result()
        with console.step("Images from programs and packages", expect=60) as step:
            base = self._import_tree(trees.pods)
            official = self._control_plane(programs, companions, base, trees.pods)
            step.say("node")
            node = self._node(self._import_tree(trees.nodes), programs)
            step.say("ray, redis, network, storage, operator")
            images = {
                catalogue.KUBE_ROUTER_IMAGE: self._network("kube-router", programs["kube-router"], base),
                catalogue.LOCAL_PATH_IMAGE: self._single("local-path-provisioner", programs["local-path-provisioner"]),
                catalogue.REDIS_IMAGE: self._derived("redis", base),
                catalogue.ray_image(self.settings.versions.ray): self._ray(trees.ray, ray),
            }
        name, reference, config = self._own_operator() or self.operator(self.settings.versions.kuberay, console)
        images[name] = reference
        return Provided(
            node=node,
            images=images,
            kind=programs["kind"],
            kubectl=programs["kubectl"],
            kuberay_config=config,
            control_plane=official,
            provenance={
                "Go modules": "verified by Go against the public checksum database",
                "Python wheels": "verified by pip against the index's digests",
                "Debian packages": "verified by apt against the archive's signed indices",
            },
        )

    def operator(self, version: str, console: Console) -> tuple[str, str, Path]:
        """Build one version of the KubeRay operator; its module also holds its manifests."""
        name = f"kuberay-operator-{version}"
        show = partial(console.step, f"KubeRay operator {version}", expect=90)
        program = golang.program("kuberay-operator", KUBERAY_MODULE, version, show=show)
        config = golang.module_folder(KUBERAY_MODULE, version) / "config"
        reference = self._single(name, program, as_path="/manager", user="65532:65532")
        return catalogue.operator_image(version), reference, config

    def ray(self, version: str, console: Console) -> tuple[str, str]:
        """Build another version of Ray's image."""
        return catalogue.ray_image(version), self._ray(self._ray_tree(console), self._wheels(version, console))

    # --- the two lanes ----------------------------------------------------------------------------------------------

    def _downloads(self, console: Console) -> tuple[_Trees, Path]:
        trees = _Trees(
            nodes=debian.nodes(show=partial(console.step, "Debian packages of nodes", expect=90)),
            pods=debian.pods(show=partial(console.step, "Debian packages of pods", expect=60)),
            ray=self._ray_tree(console),
        )
        return trees, self._wheels(self.settings.versions.ray, console)

    @staticmethod
    def _ray_tree(console: Console) -> Path:
        return debian.ray(show=partial(console.step, "Debian packages of Ray", expect=60))

    def _programs(self, console: Console, companions: catalogue.ControlPlane) -> dict[str, Path]:
        version = self.settings.versions.kubernetes
        folder = golang.kubernetes(version, show=partial(console.step, f"Kubernetes {version} programs", expect=500))
        built = {name: folder / name for name in golang.KUBERNETES_PROGRAMS}
        coredns = manifests() / "images" / "coredns" / "main.go"
        for name, package, of, expect, main in (
            *_PROGRAMS,
            ("etcd", "go.etcd.io/etcd/server/v3", companions.etcd, 50, None),
            ("coredns", "github.com/coredns/coredns", companions.coredns, 90, coredns),
        ):
            show = partial(console.step, f"{name} {of}", expect=expect)
            built[name] = golang.program(name, package, of, main=main, show=show)
        return built

    @staticmethod
    def _wheels(version: str, console: Console) -> Path:
        def make(result: Path, progress: cache.Progress) -> None:
            log = cache.logs() / f"ray-{version}.log"
            platforms = [
                "manylinux2014_x86_64",
                "manylinux_2_17_x86_64",
                "manylinux_2_28_x86_64",
                "manylinux_2_34_x86_64",
            ]
            run_logged(
                [sys.executable, "-m", "pip", "install", "--target", result, "--only-binary=:all:",
                 "--implementation", "cp", "--python-version", _PYTHON_OF_TREE,
                 *(f"--platform={platform}" for platform in platforms), f"ray[default]=={version}"],
                log=log, timeout=1200, error=ImageError, fix=f"see {log}; is there a Ray {version}, does the index answer?",
            )  # fmt: skip

        show = partial(console.step, f"Ray {version} wheels", expect=70)
        return cache.cached("wheels", f"ray-{version}-py{_PYTHON_OF_TREE}", make, show=show)

    # --- images -----------------------------------------------------------------------------------------------------

    def _import_tree(self, tree: Path) -> str:
        reference = f"kuberay-chaos/debian:{tree.stem.rpartition('-')[2]}"
        if not self.engine.has_image(reference):
            self.engine.docker("import", tree, reference, timeout=600)
        return reference

    def _control_plane(
        self, programs: dict[str, Path], companions: catalogue.ControlPlane, base: str, tree: Path
    ) -> dict[str, str]:
        version = self.settings.versions.kubernetes
        official = {
            f"registry.k8s.io/{name}:v{version}": self._single(name, programs[name])
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        }
        official[f"registry.k8s.io/kube-proxy:v{version}"] = self._network("kube-proxy", programs["kube-proxy"], base)
        official[f"registry.k8s.io/etcd:{companions.etcd_tag}"] = self._single("etcd", programs["etcd"])
        official[f"registry.k8s.io/coredns/coredns:v{companions.coredns}"] = self._single(
            "coredns", programs["coredns"]
        )
        pause = self._pause(tree)
        return official | {f"registry.k8s.io/pause:{tag}": pause for tag in companions.pause}

    def _pause(self, tree: Path) -> str:
        """Debian's static `catatonit -P` does what Kubernetes' pause does: hold the namespaces and reap children."""

        def extract(result: Path, progress: cache.Progress) -> None:
            with tarfile.open(tree) as archive, archive.extractfile("./usr/bin/catatonit") or io.BytesIO() as program:
                result.write_bytes(program.read())
            result.chmod(0o755)

        program = cache.cached("programs", f"catatonit-{tree.stem}", extract)
        return self._single("pause", program, arguments=("-P",))

    def _single(
        self, name: str, program: Path, *, as_path: str = "", arguments: tuple[str, ...] = (), user: str = ""
    ) -> str:
        """An image of nothing but one static program."""
        path = as_path or f"/usr/local/bin/{name}"
        changes = [f"ENTRYPOINT {_json([path, *arguments])}", f"ENV PATH={Path(path).parent}"]
        if user:
            changes.append(f"USER {user}")
        reference = f"kuberay-chaos/{name}:{cache.key(cache.file_digest(program), changes)}"
        if not self.engine.has_image(reference):
            with _archive_of(program, path) as archive:
                flags = [word for change in changes for word in ("--change", change)]
                self.engine.docker("import", *flags, archive, reference, timeout=300)
        return reference

    def _ray(self, tree: Path, wheels: Path) -> str:
        return self._derived("ray", self._import_tree(tree), {"site-packages": wheels})

    def _network(self, name: str, program: Path, base: str) -> str:
        return self._derived("network", base, {"program": program}, name=name, arguments={"PROGRAM": name})

    def _node(self, base: str, programs: dict[str, Path]) -> str:
        files = golang.module_folder("sigs.k8s.io/kind", catalogue.KIND) / "images" / "base" / "files"
        content: dict[str, Path] = {"files": files}
        content |= {f"bin/{name}": programs[name] for name in ("kubelet", "kubeadm", "kubectl", "crictl")}
        return self._derived("node", base, content, arguments={"KUBERNETES": self.settings.versions.kubernetes})

    def _derived(
        self,
        recipe: str,
        base: str,
        content: dict[str, Path] | None = None,
        *,
        name: str = "",
        arguments: dict[str, str] | None = None,
    ) -> str:
        """Build ``manifests/images/<recipe>.Dockerfile`` with ``content`` (place → file or folder) as its context."""
        text = manifests() / "images" / f"{recipe}.Dockerfile"
        content, arguments = content or {}, {"BASE": base, **(arguments or {})}
        # Folders of the caches are named by their content's version, files are small enough to digest.
        parts = {
            place: cache.file_digest(p) if p.is_file() else str(p.name if p.parent.name != "base" else p)
            for place, p in content.items()
        }
        reference = f"kuberay-chaos/{name or recipe}:{cache.key(text.read_text(), arguments, parts)}"
        if self.engine.has_image(reference):
            return reference
        with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
            for place, source in content.items():
                target = Path(folder) / place
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    shutil.copytree(source, target, copy_function=_link, symlinks=True)
                else:
                    _link(str(source), str(target))
            flags = [word for k, v in arguments.items() for word in ("--build-arg", f"{k}={v}")]
            self.engine.docker(
                "build", "--network=none", "-q", "-f", text, *flags, "-t", reference, folder, timeout=900
            )
        return reference

    def _own_operator(self) -> tuple[str, str, Path] | None:
        """The user's own KubeRay: their image, already in the engine, and their checkout's ``config/``."""
        image, folder = self.settings.kuberay_image, self.settings.kuberay_dir
        if image is None or folder is None:
            return None
        if not self.engine.has_image(image):
            raise ImageError(f"the Docker engine has no image {image}", fix="build or pull it first")
        return image, image, folder


def _scratch() -> Path:
    folder = cache_dir() / "contexts"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _link(source: str, target: str) -> None:
    """Hard-link where the file system can: contexts hold hundreds of megabytes that are only read."""
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


def _json(words: list[str]) -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


@contextmanager
def _archive_of(program: Path, path: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
        archive = Path(folder) / "image.tar"
        with tarfile.open(archive, "w") as tar:
            entry = tar.gettarinfo(str(program), arcname=path.lstrip("/"))
            entry.mode, entry.uid, entry.gid, entry.mtime = 0o755, 0, 0, 0
            with program.open("rb") as content:
                tar.addfile(entry, content)
            for folder_name in ("tmp",):
                directory = tarfile.TarInfo(folder_name)
                directory.type, directory.mode = tarfile.DIRTYPE, 0o1777
                tar.addfile(directory)
        yield archive
