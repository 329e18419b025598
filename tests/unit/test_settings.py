"""Settings: everything wrong is one UsageError that says what would be right; equal inputs have equal fingerprints."""

import argparse
import contextlib
import dataclasses
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import settings as module
from chaos.errors import UsageError
from chaos.settings import (
    KUBERAY_VERSIONS,
    RUN_OPTIONS,
    STACK_OPTIONS,
    Level,
    Settings,
    Source,
    Versions,
    add_run_arguments,
    add_stack_arguments,
)
from chaos.shards import Shard

MINE = Path(__file__).parent / "own"


def parse(*argv):
    parser = argparse.ArgumentParser()
    add_stack_arguments(parser)
    add_run_arguments(parser)
    return Settings.from_args(parser.parse_args(argv))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture
def config(tmp_path):
    """A KubeRay checkout's config folder."""
    folder = tmp_path / "kuberay" / "ray-operator" / "config"
    (folder / "default").mkdir(parents=True)
    (folder / "default" / "kustomization.yaml").write_text("resources: [../crd]\n")
    return folder


def test_without_options_the_documented_defaults_hold(tmp_path):
    settings = parse()
    assert settings.versions == Versions(kuberay="1.6.2", ray="2.60.0", kubernetes="1.34.4")
    assert (settings.name, settings.source, settings.level) == ("kuberay-chaos", Source.AUTO, Level.CORE)
    assert settings.results == tmp_path / "results"
    assert settings.results.is_dir()
    assert settings.keep
    assert not settings.open_egress


def test_every_option_is_read():
    settings = parse(
        "--name", "other", "--kuberay", "v1.5.1", "--ray", "2.46.0", "--kubernetes", "1.36.1", "--images", "registry",
        "--registry-prefix", "mirror.example.org:5000/hub/", "--open-egress", "--recreate", "--level", "full",
        "-k", "head", "--seed", "7", "--results", "out", "--remove", "--accept-known",
    )  # fmt: skip
    assert settings.versions == Versions(kuberay="1.5.1", ray="2.46.0", kubernetes="1.36.1")
    assert settings.registry_prefix == "mirror.example.org:5000/hub"
    assert settings.source is Source.REGISTRY
    assert settings.level is Level.FULL
    assert (settings.name, settings.select, settings.seed) == ("other", "head", 7)
    assert settings.open_egress
    assert settings.recreate
    assert settings.accept_known
    assert not settings.keep


def test_every_option_has_a_field_that_it_changes(tmp_path, config):
    """No option may be declared and then forgotten."""
    (tmp_path / "stack.tar").write_bytes(b"")
    samples = {
        "name": "x", "kuberay": "1.5.0", "ray": "2.46.0", "kubernetes": "1.34.0", "images": "build",
        "registry-prefix": "mirror", "archive": "stack.tar", "level": "smoke", "select": "head", "jobs": "2", "wait": "60",
            "seed": "7",
        "repeat": "3", "shard": "1/2",
        "results": "elsewhere", "keep": None, "remove": None, "raycluster": MINE / "raycluster.yaml",
        "rayjob": MINE / "rayjob.yaml",
    }  # fmt: skip
    base = dataclasses.replace(parse(), seed=1)
    for option in (*STACK_OPTIONS, *RUN_OPTIONS):
        # Needs --kuberay DIR; is the default; go together, and are tested below.
        if option.name in {"kuberay-image", "keep", "kubeconfig", "context", "allow-fault"}:
            continue
        argv = [f"--{option.name}"] + ([str(samples[option.name])] if option.metavar else [])
        changed = parse(*argv)
        if option.name != "seed":
            changed = dataclasses.replace(changed, seed=1)
        assert changed != base, option.name


def test_a_run_is_whole_and_once_unless_asked_otherwise():
    assert (parse().repeat, parse().shard) == (1, None)
    settings = parse("--repeat", "20", "--shard", "3/3")
    assert (settings.repeat, settings.shard) == (20, Shard(3, 3))


def test_a_rayjob_of_the_users_needs_a_stack_of_ours(tmp_path):
    path = tmp_path / "config"
    path.write_text(
        "contexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'https://x'}}]\n"
    )
    given = ["--kubeconfig", str(path), "--context", "c"]
    with pytest.raises(UsageError, match="--rayjob does not go with --kubeconfig"):
        parse(*given, "--rayjob", str(MINE / "rayjob.yaml"))
    assert parse(*given, "--raycluster", str(MINE / "raycluster.yaml")).own.keys() == {"RayCluster"}


def test_pytest_style_prefixes_are_understood():
    namespace = argparse.Namespace(chaos_kuberay="1.5.0", chaos_level="smoke", kuberay="nonsense")
    settings = Settings.from_args(namespace, prefix="chaos_")
    assert settings.versions.kuberay == "1.5.0"
    assert settings.level is Level.SMOKE
    assert STACK_OPTIONS[2].keywords(prefix="chaos_")["dest"] == "chaos_kuberay_image"


def test_a_command_without_results_makes_no_folder(tmp_path):
    Settings.from_args(argparse.Namespace(name=None))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--kuberay", "1.5.2"], "nearest is 1.5.1"),
        (["--kuberay", "9.9.9"], "nearest is 1.6.2"),
        (["--kuberay", "1.6"], "three numbers, as in 1.6.2"),
        (["--kuberay", "1.6.2-rc.1"], "three numbers"),
        (["--kuberay", "1.6.2\n"], "three numbers"),
        (["--kuberay", "01.6.2"], "three numbers"),
        (["--ray", "2.37.0"], "2.38.0 or newer is needed"),
        (["--kubernetes", "1.34.9"], "nearest is 1.34.4"),
        (["--kubernetes", "1.35.4"], "--images registry"),
        (["--images", "registri"], "did you mean registry?"),
        (["--level", "everything"], "one of smoke, flagship, core, full"),
        (["--name", "Upper"], "lower-case letters"),
        (["--name", "a" * 41], "at most 40"),
        (["--name=-x"], "letter or digit at both ends"),
        (["--name", "../x"], "lower-case letters"),
        (["--archive", "missing.tar"], "there is no file"),
        (["--archive", "."], "is not a file"),
        (["--images", "archive"], "images save"),
        (["--images", "build", "--registry-prefix", "mirror"], "--images registry"),
        (["--archive", "a", "--registry-prefix", "mirror"], "two sources"),
        (["--registry-prefix", "https://mirror"], "without a scheme"),
        (["--kuberay-image", "operator:dev"], "goes with --kuberay DIR"),
        (["--kuberay", "./nowhere", "--kuberay-image", "operator:dev"], "is not KubeRay's config folder"),
        (["--seed", "-1"], "whole number"),
        (["--seed", "1e3"], "whole number"),
        (["--keep", "--remove"], "contradict"),
        (["--repeat", "0"], "give 1 to 999"),
        (["--repeat", "x"], "give 1 to 999"),
        (["--repeat=-1"], "give 1 to 999"),
        (["--shard", "3/2"], "as in 1/3"),
        (["--shard", "0/2"], "as in 1/3"),
        (["--shard", "x"], "as in 1/3"),
        (["--shard", "1/2/3"], "as in 1/3"),
        (["--shard", "1/"], "as in 1/3"),
        (["--raycluster", "missing.yaml"], "there is no file"),
        (["--raycluster", "."], "is not a file"),
        (["--raycluster", str(MINE / "rayjob.yaml")], "rayjob.yaml, only ConfigMap, RayJob"),
        (["--rayjob", __file__], "no valid YAML"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(argv, said):
    with pytest.raises(UsageError) as refused:
        parse(*argv)
    assert said in str(refused.value)
    assert refused.value.fix
    assert refused.value.exit_code == 3


def test_an_unknown_version_lists_the_known_ones():
    with pytest.raises(UsageError) as refused:
        parse("--kuberay", "1.7.0")
    assert all(version in str(refused.value) for version in KUBERAY_VERSIONS)


@given(st.text())
def test_any_text_as_a_version_is_a_version_or_a_usage_error(text):
    checks = (module._kuberay_version, module._ray_version, lambda t: module._kubernetes_version(t, Source.AUTO))
    for check in checks:
        with contextlib.suppress(UsageError):
            assert check(text) in text


def test_an_own_build_needs_its_image_and_is_taken_with_it(config):
    with pytest.raises(UsageError, match="image is needed"):
        parse("--kuberay", str(config))
    settings = parse("--kuberay", str(config), "--kuberay-image", "operator:dev")
    assert (settings.kuberay_dir, settings.kuberay_image) == (config.resolve(), "operator:dev")


def test_a_checkout_instead_of_its_config_folder_is_led_there(config):
    with pytest.raises(UsageError, match=f"give {config}"):
        parse("--kuberay", str(config.parents[1]), "--kuberay-image", "operator:dev")


def test_an_archive_implies_its_source(tmp_path):
    (tmp_path / "stack.tar").write_bytes(b"")
    settings = parse("--archive", "stack.tar")
    assert settings.source is Source.ARCHIVE
    assert settings.archive == (tmp_path / "stack.tar").resolve()


@pytest.mark.parametrize("blocker", ["file", "folder below a file", "read-only"])
def test_results_that_cannot_be_written_are_refused(tmp_path, monkeypatch, blocker):
    target = tmp_path / "results"
    if blocker == "read-only":
        # Permission bits do not stop root, so the refusal comes from the system call.
        def refuse(*_args, **_keywords):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(module.tempfile, "TemporaryFile", refuse)
    else:
        target.write_text("")
    argument = str(target / "deeper") if blocker == "folder below a file" else str(target)
    with pytest.raises(UsageError, match="--results DIR") as refused:
        parse("--results", argument)
    assert argument in str(refused.value)


def test_checking_the_results_folder_leaves_no_file(tmp_path):
    parse()
    assert os.listdir(tmp_path / "results") == []


@pytest.mark.parametrize(
    ("argv", "ci", "keep"), [([], "true", False), (["--keep"], "true", True), ([], "", True), (["--remove"], "", False)]
)
def test_the_stack_is_left_up_except_in_ci(monkeypatch, argv, ci, keep):
    monkeypatch.setenv("CI", ci)
    assert parse(*argv).keep is keep


def test_a_seed_is_drawn_when_none_is_given():
    assert len({parse().seed for _ in range(5)}) > 1
    assert parse("--seed", "0").seed == 0


def test_equal_stacks_have_equal_fingerprints_whatever_the_run():
    assert parse("--seed", "1", "--level", "full", "-k", "x").fingerprint() == parse("--seed", "2").fingerprint()
    assert len(parse().fingerprint()) == 64


@pytest.mark.parametrize(
    "argv",
    [["--kuberay", "1.5.1"], ["--ray", "2.59.0"], ["--kubernetes", "1.34.3"], ["--images", "build"], ["--open-egress"]],
)
def test_what_makes_a_stack_changes_its_fingerprint(argv):
    assert parse(*argv).fingerprint() != parse().fingerprint()


def test_redis_does_not_change_the_fingerprint_once_it_is_known():
    settings = parse()
    known = dataclasses.replace(settings, versions=dataclasses.replace(settings.versions, redis="7.0.15"))
    assert known.fingerprint() == settings.fingerprint()
    assert known.versions.as_json()["redis"] == "7.0.15"
    assert "redis" not in settings.versions.as_json()


def test_the_content_of_an_own_build_is_in_the_fingerprint(config):
    argv = ["--kuberay", str(config), "--kuberay-image", "operator:dev"]
    before = parse(*argv).fingerprint()
    assert parse(*argv).fingerprint() == before
    (config / "default" / "kustomization.yaml").write_text("resources: [../crd, ../rbac]\n")
    assert parse(*argv).fingerprint() != before


def test_a_cluster_that_nobody_can_verify_is_refused(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(
        "contexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'http://x'}}]\n"
    )
    with pytest.raises(UsageError, match="http://x, which nobody can verify"):
        parse("--kubeconfig", str(file), "--context", "c")


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"[" * 5000, b"5", b"contexts: 7"], ids=["bytes", "deep", "number", "shape"]
)
def test_what_is_no_kubeconfig_is_told(tmp_path, content):
    file = tmp_path / "kubeconfig"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="is not a kubeconfig"):
        parse("--kubeconfig", str(file), "--context", "c")
