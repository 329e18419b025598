"""The `registry` and `archive` sources, for real.

A registry on this machine holds the stack's images under their official names. Programs are taken as built: where they are
published can't be stood in for, and how they are fetched and verified is a unit test.
"""

import dataclasses
import shutil
import socket
import subprocess

import pytest
import requests

from chaos.errors import ImageError, UsageError
from chaos.settings import Source
from chaos.stack import engine as docker_engine
from chaos.stack.images import archive, cache, catalogue, downloads
from chaos.stack.images.archive import ArchiveSource
from chaos.stack.images.lock import DigestLock
from chaos.stack.images.registry import RegistrySource
from chaos.waiting import until

pytestmark = pytest.mark.level("full")

CONFIG = """version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}, delete: {{enabled: true}}}}
http: {{addr: 127.0.0.1:{port}}}
"""


@pytest.fixture(scope="session")
def registry(tmp_path_factory):
    """The address of a registry on loopback, which Docker trusts without TLS."""
    if shutil.which("docker-registry") is None:
        docker_engine.install_packages("docker-registry")
    folder = tmp_path_factory.mktemp("registry")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "config.yml").write_text(CONFIG.format(folder=folder / "data", port=port))
    log = (folder / "log").open("wb")
    server = subprocess.Popen(["docker-registry", "serve", folder / "config.yml"], stdout=log, stderr=log)

    def answers():
        try:
            return requests.get(f"http://127.0.0.1:{port}/v2/", timeout=1).ok
        except requests.ConnectionError:
            return False

    until(answers, what="the registry", deadline=20)
    yield f"127.0.0.1:{port}/hub"
    server.terminate()
    server.wait(10)


@pytest.fixture(scope="session")
def official(chaos_run, registry):
    """Push what the stack runs on under its official names, and forget the engine's copies of those names."""
    provided, engine = chaos_run.stack.provided, chaos_run.stack.engine
    node = catalogue.node_image(chaos_run.settings.versions.kubernetes)
    for name, reference in {node: provided.node, **provided.images}.items():
        mirrored = f"{registry}/{name.partition('/')[2]}"
        engine.docker("tag", reference, mirrored)
        engine.docker("push", "--quiet", mirrored, timeout=600)
        engine.docker("rmi", mirrored)
    kubectl = f"kubectl-{chaos_run.settings.versions.kubernetes}-linux-{downloads.architecture()}"
    cache.cached("programs", kubectl, lambda result, progress: shutil.copy2(provided.kubectl, result))
    return registry


@pytest.fixture
def source(chaos_run, official, tmp_path):
    settings = dataclasses.replace(chaos_run.settings, source=Source.REGISTRY, registry_prefix=official)
    source = RegistrySource(settings, chaos_run.stack.engine)
    source.lock = DigestLock(tmp_path / "digests.json")
    return source


def test_images_are_pulled_by_their_official_names_through_a_mirror(chaos_run, source):
    provided = source.provide(chaos_run.console)
    engine = chaos_run.stack.engine
    for name, reference in chaos_run.stack.provided.images.items():
        assert engine.image_id(provided.images[name]) == engine.image_id(reference)
    assert engine.image_id(provided.node) == engine.image_id(chaos_run.stack.provided.node)
    assert {entry["how"] for entry in source.lock.entries().values()} == {"first use"}


def test_only_a_fetched_digest_is_locked_and_another_image_is_refused(chaos_run, source, official):
    engine, name = chaos_run.stack.engine, catalogue.LOCAL_PATH_IMAGE
    source.lock.bind(source.digests(chaos_run.console))
    assert {entry["how"] for entry in source.lock.entries().values()} == {"locked"}
    source.provide(chaos_run.console)
    mirrored = f"{official}/{name.partition('/')[2]}"
    honest = engine.image_id(mirrored)
    try:
        engine.docker(
            "tag",
            chaos_run.stack.provided.images[catalogue.operator_image(chaos_run.settings.versions.kuberay)],
            mirrored,
        )
        engine.docker("push", "--quiet", mirrored, timeout=120)
        engine.docker("rmi", mirrored)
        with pytest.raises(ImageError, match="not the image that the lock file names"):
            source.provide(chaos_run.console)
    finally:
        engine.docker("tag", honest, mirrored)
        engine.docker("push", "--quiet", mirrored, timeout=120)


def test_an_unknown_image_is_one_clear_error(chaos_run, source):
    versions = dataclasses.replace(source.settings.versions, ray="2.99.0")
    source.settings = dataclasses.replace(source.settings, versions=versions)
    with pytest.raises(ImageError, match=r"rayproject/ray:2\.99\.0 can't be pulled"):
        source.provide(chaos_run.console)


def test_an_archive_holds_everything_and_other_versions_are_refused(chaos_run, tmp_path):
    engine, target = chaos_run.stack.engine, tmp_path / "stack.tar"
    archive.save(chaos_run.stack.provided, chaos_run.settings, engine, target, chaos_run.console)
    settings = dataclasses.replace(chaos_run.settings, source=Source.ARCHIVE, archive=target)
    provided = ArchiveSource(settings, engine).provide(chaos_run.console)
    assert provided.images == chaos_run.stack.provided.images
    assert (provided.kuberay_config / "default" / "kustomization.yaml").is_file()
    assert subprocess.run([provided.kind, "version"], capture_output=True, check=True).stdout.startswith(b"kind v")
    other = dataclasses.replace(settings, versions=dataclasses.replace(settings.versions, kuberay="1.5.0"))
    with pytest.raises(UsageError, match="holds other versions"):
        ArchiveSource(other, engine).provide(chaos_run.console)
