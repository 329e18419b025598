"""The `registry` source: official images and published programs, optionally through a mirror.

Images are pinned by tag, and by digest where the lock file says one (`images lock` fetches digests and writes it). A digest
that nobody fetched before is recorded at first use, and the console says so.
"""

from __future__ import annotations

from pathlib import Path

from chaos.console import Console
from chaos.errors import ImageError
from chaos.settings import Settings
from chaos.stack.engine import Engine
from chaos.stack.images import catalogue, downloads, golang
from chaos.stack.images.build import KUBERAY_MODULE
from chaos.stack.images.lock import DigestLock
from chaos.stack.images.source import Provided

_PULL_SECONDS = 1800


class RegistrySource:
    """Pulls what the engine lacks."""

    name = "registry"

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self.settings = settings
        self.engine = engine
        self.lock = DigestLock.default()

    def provide(self, console: Console) -> Provided:
        """Pull and download what is missing."""
        node = self._pull(catalogue.node_image(self.settings.versions.kubernetes), console)
        own = self.settings.kuberay_image
        images = {
            name: name if name == own else self._pull(name, console)
            for name in catalogue.workload_images(self.settings)
        }
        with console.step("kind and kubectl", expect=10):
            kind = downloads.fetch(downloads.kind(catalogue.KIND))
            kubectl = downloads.fetch(downloads.kubectl(self.settings.versions.kubernetes))
        return Provided(
            node=node,
            images=images,
            kind=kind,
            kubectl=kubectl,
            kuberay_config=self.settings.kuberay_dir or self._config(self.settings.versions.kuberay),
            provenance={
                "images": "pulled by tag; digests: " + self.lock.describe(),
                "kind, kubectl": "sha256 from the publisher's checksum file",
                "KubeRay manifests": "its Go module, verified by Go against the public checksum database",
            },
        )

    def operator(self, version: str, console: Console) -> tuple[str, str, Path]:
        """Pull another operator version."""
        name = catalogue.operator_image(version)
        return name, self._pull(name, console), self._config(version)

    def ray(self, version: str, console: Console) -> tuple[str, str]:
        """Pull another Ray version."""
        name = catalogue.ray_image(version)
        return name, self._pull(name, console)

    def digests(self, console: Console) -> dict[str, str]:
        """Fetch the digest of every image of this stack, for the lock file."""
        names = [catalogue.node_image(self.settings.versions.kubernetes), *catalogue.workload_images(self.settings)]
        for name in names:
            self._pull(name, console, verify=False)
        return {name: self._digest(self._mirrored(name)) for name in names}

    @staticmethod
    def _config(version: str) -> Path:
        return golang.module_folder(KUBERAY_MODULE, version) / "config"

    def _mirrored(self, official: str) -> str:
        """The name under the mirror: its prefix in the place of the registry's host."""
        prefix = self.settings.registry_prefix
        return f"{prefix.rstrip('/')}/{official.partition('/')[2]}" if prefix else official

    def _pull(self, official: str, console: Console, *, verify: bool = True) -> str:
        reference = self._mirrored(official)
        if not self.engine.has_image(reference):
            with console.step(f"Pulling {reference}", expect=60):
                pulled = self.engine.docker("pull", "--quiet", reference, timeout=_PULL_SECONDS, check=False)
            if not pulled.ok:
                raise ImageError(
                    f"{reference} can't be pulled: {pulled.error_text.strip()[-300:]}",
                    fix="does that version exist? Behind a mirror use --registry-prefix; without internet --images build or "
                    "--images archive",
                )
        if verify and not self.lock.accept(official, self._digest(reference)):
            raise ImageError(
                f"{reference} is not the image that the lock file names for {official}",
                fix="if its publisher re-tagged it and you trust that, run `kuberay-chaos images lock` anew",
            )
        return reference

    def _digest(self, reference: str) -> str:
        """The digest that the registry gave (``sha256:…``)."""
        described = self.engine.inspect("image", reference)
        for listed in (described or {}).get("RepoDigests") or []:
            return str(listed.partition("@")[2])
        raise ImageError(
            f"{reference} carries no registry digest", fix=f"docker rmi {reference}, so that it is pulled anew"
        )
