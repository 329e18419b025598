"""An archive gives back what was put into it, and a damaged one gives nothing."""

import tarfile
from dataclasses import replace

import pytest

from chaos.errors import ImageError, UsageError
from chaos.paths import cache_dir
from chaos.settings import Settings, Source, Versions
from chaos.stack.images import archive
from chaos.stack.images.archive import ArchiveSource
from chaos.stack.images.source import Provided


class FakeEngine:
    """Keeps images as names; `save` and `load` go through a file of them."""

    def __init__(self, *images):
        self.images = set(images)
        self.commands = []

    def docker(self, *args, timeout):
        self.commands.append(args[0])
        match args:
            case ["save", "--output", path, *references]:
                assert set(references) <= self.images
                path.write_text("\n".join(references))
            case ["load", "--input", path]:
                self.images |= set(path.read_text().split())

    def has_image(self, reference):
        return reference in self.images


@pytest.fixture
def provided(tmp_path):
    made = tmp_path / "made"
    (made / "config" / "crd").mkdir(parents=True)
    (made / "config" / "crd" / "rayjobs.yaml").write_text("kind: CustomResourceDefinition\n")
    for name in ("kind", "kubectl"):
        (made / name).write_text(f"#!/bin/sh\necho {name}\n")
        (made / name).chmod(0o755)
    return Provided(
        node="kuberay-chaos/node:1",
        images={"docker.io/library/redis:7.0.15": "kuberay-chaos/redis:1"},
        control_plane={"registry.k8s.io/pause:3.10": "kuberay-chaos/pause:1"},
        kind=made / "kind",
        kubectl=made / "kubectl",
        kuberay_config=made / "config",
    )


IMAGES = ("kuberay-chaos/node:1", "kuberay-chaos/redis:1", "kuberay-chaos/pause:1")


@pytest.fixture
def saved(tmp_path, provided, console):
    target = tmp_path / "stack.tar"
    archive.save(provided, Settings(), FakeEngine(*IMAGES), target, console)
    return target


def load(path, console, engine=None, **changes):
    settings = replace(Settings(source=Source.ARCHIVE, archive=path), **changes)
    return ArchiveSource(settings, engine or FakeEngine()).provide(console)


def test_what_was_saved_is_what_is_loaded(saved, provided, console):
    engine = FakeEngine()
    found = load(saved, console, engine)
    assert (found.node, found.images, found.control_plane) == (provided.node, provided.images, provided.control_plane)
    assert engine.images == set(IMAGES)
    for name in ("kind", "kubectl"):
        got, put = getattr(found, name), getattr(provided, name)
        assert got.read_bytes() == put.read_bytes()
        assert got.stat().st_mode & 0o111, "it can be run"
    assert (found.kuberay_config / "crd" / "rayjobs.yaml").read_text().startswith("kind: Custom")


def test_nothing_is_left_beside_an_archive(saved, tmp_path):
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_it_is_unpacked_and_loaded_once(saved, console):
    engine = FakeEngine()
    first = load(saved, console, engine)
    assert load(saved, console, engine) == first
    assert engine.commands == ["load"]


def test_an_engine_that_lost_an_image_gets_it_again(saved, console):
    engine = FakeEngine()
    load(saved, console, engine)
    engine.images.discard("kuberay-chaos/pause:1")
    load(saved, console, engine)
    assert engine.images == set(IMAGES)


def test_a_save_that_fails_leaves_no_archive_and_an_earlier_one_whole(saved, provided, console, tmp_path):
    before = saved.read_bytes()
    broken = FakeEngine(*IMAGES)
    broken.docker = lambda *args, timeout: (_ for _ in ()).throw(ImageError("no space left"))
    with pytest.raises(ImageError):
        archive.save(provided, Settings(), broken, saved, console)
    assert saved.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_other_versions_are_named(saved, console):
    with pytest.raises(UsageError, match=r"holds other versions: kuberay 1\.6\.2"):
        load(saved, console, versions=Versions(kuberay="1.5.1"))


def test_another_operator_is_not_in_it(saved, console):
    source = ArchiveSource(Settings(source=Source.ARCHIVE, archive=saved), FakeEngine())
    with pytest.raises(ImageError, match=r"holds KubeRay 1\.6\.2 only, not 1\.5\.1"):
        source.operator("1.5.1", console)


def test_another_ray_is_not_in_it(saved, console):
    source = ArchiveSource(Settings(source=Source.ARCHIVE, archive=saved), FakeEngine())
    with pytest.raises(ImageError, match=r"holds Ray 2\.60\.0 only, not 2\.46\.0"):
        source.ray("2.46.0", console)


# --- damage ---------------------------------------------------------------------------------------------------------


def rewritten(path, change):
    """The archive with every part's bytes, by name, put through ``change``; a part that becomes None is left out."""
    target = path.with_name("changed.tar")
    with tarfile.open(path) as source, tarfile.open(target, "w") as sink:
        for member in source.getmembers():
            content = change(member.name, source.extractfile(member).read())
            if content is not None:
                place = target.with_name("part")
                place.write_bytes(content)
                sink.add(place, arcname=member.name)
    return target


def refused(path, console):
    """Loading must fail as a person's error, and leave nothing behind that a second try would take for whole."""
    engine = FakeEngine()
    for _ in range(2):
        with pytest.raises((UsageError, ImageError)) as failed:
            load(path, console, engine)
    assert engine.images == set()
    folder = cache_dir() / "archives"
    assert [each.name for each in folder.iterdir() if not each.name.endswith(".lock")] == []
    return str(failed.value)


@pytest.mark.parametrize("part", ["images.tar", "bin/kind", "bin/kubectl", "kuberay.tar"])
def test_one_changed_byte_in_any_part_is_found(saved, console, part):
    damaged = rewritten(saved, lambda name, data: data[:-1] + bytes([data[-1] ^ 1]) if name == part else data)
    assert f"{part} in {damaged} is damaged" in refused(damaged, console)


@pytest.mark.parametrize("part", ["images.tar", "bin/kind", "kuberay.tar", "inventory.json"])
def test_a_missing_part_is_found(saved, console, part):
    lacking = rewritten(saved, lambda name, data: None if name == part else data)
    assert part in refused(lacking, console)


@pytest.mark.parametrize(
    "inventory",
    [b"", b"{}", b"[]", b'{"format": 1}', b"\xff"],
)
def test_an_inventory_that_is_none_is_refused(saved, console, inventory):
    strange = rewritten(saved, lambda name, data: inventory if name == "inventory.json" else data)
    assert "not an archive of `images save`" in refused(strange, console)


def test_the_format_of_a_later_release_is_named(saved, console):
    later = rewritten(
        saved, lambda name, data: data.replace(b'"format": 1', b'"format": 2') if name == "inventory.json" else data
    )
    assert "format is 2" in refused(later, console)


def test_an_inventory_that_leaves_a_part_unverified_is_refused(saved, console):
    unsigned = rewritten(
        saved, lambda name, data: data.replace(b'"bin/kind"', b'"bin/kubectl"') if name == "inventory.json" else data
    )
    assert "bin/kind" in refused(unsigned, console)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.6, 0.95])
def test_a_file_that_was_copied_in_part_is_refused(saved, console, keep):
    content = saved.read_bytes()
    cut = saved.with_name("cut.tar")
    cut.write_bytes(content[: int(len(content.rstrip(b"\0")) * keep)])
    refused(cut, console)


def test_nothing_is_written_outside_of_the_cache(saved, console, tmp_path):
    evil = tmp_path / "evil.tar"
    with tarfile.open(evil, "w") as sink:
        sink.add(saved, arcname="../../../outside")
    refused(evil, console)
    assert not list(tmp_path.rglob("outside"))
