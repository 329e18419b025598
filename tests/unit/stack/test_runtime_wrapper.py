"""The runtime wrapper takes one capability out of what it is given, and then is runc."""

import json
import subprocess
import sys

import pytest

from chaos.stack import runtime_wrapper

SETS = ("bounding", "effective", "permitted", "inheritable", "ambient")


def process(*capabilities):
    return {"args": ["sh"], "capabilities": {name: list(capabilities) for name in SETS}}


@pytest.fixture
def call(program, tmp_path):
    """Run the wrapper as dockerd would; what runc was called with."""
    program("runc", f'printf "%s\\n" "$@" > {tmp_path / "called"}; exit 5')

    def run(*arguments, cwd=None):
        done = subprocess.run([sys.executable, runtime_wrapper.__file__, *map(str, arguments)], cwd=cwd, check=False)
        assert done.returncode == 5, "runc's own exit code"
        return (tmp_path / "called").read_text().splitlines()

    return run


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"process": process("CAP_KILL", "CAP_SYS_RESOURCE", "CAP_CHOWN"), "root": {"path": "rootfs"}})
    )
    return folder


@pytest.mark.parametrize("verb", ["create", "run"])
@pytest.mark.parametrize("form", ["--bundle {}", "--bundle={}", "-b {}", ""])
def test_a_container_starts_without_the_capability(call, bundle, verb, form):
    arguments = ["--root", "/run/runc", verb, *form.format(bundle).split(), "the-id"]
    assert call(*arguments, cwd=bundle) == arguments
    document = json.loads((bundle / "config.json").read_text())
    assert document == {"process": process("CAP_KILL", "CAP_CHOWN"), "root": {"path": "rootfs"}}


@pytest.mark.parametrize("form", ["--process {}", "--process={}", "-p {}"])
def test_a_process_in_a_container_starts_without_it(call, tmp_path, form):
    file = tmp_path / "process.json"
    file.write_text(json.dumps(process("CAP_SYS_RESOURCE")))
    arguments = ["exec", *form.format(file).split(), "the-id"]
    assert call(*arguments) == arguments
    assert json.loads(file.read_text()) == process()


def test_a_process_without_capabilities_is_left_as_it_is(call, tmp_path):
    file = tmp_path / "process.json"
    for document in ({"args": ["sh"]}, {"capabilities": None}, {"capabilities": {"bounding": None}}):
        file.write_text(json.dumps(document))
        call("exec", "--process", file, "the-id")
        assert json.loads(file.read_text()) == document


@pytest.mark.parametrize(
    "arguments", [["--version"], ["delete", "--force", "id"], ["state", "id"], ["exec", "id", "sh"]]
)
def test_everything_else_is_passed_on(call, arguments):
    assert call(*arguments) == arguments
