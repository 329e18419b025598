"""Which kubeconfig a reading command takes, and what is said of one that is none."""

import argparse

import pytest

from chaos import read_only
from chaos.errors import UsageError


def kubeconfig(path, *contexts):
    entries = "".join(f"- {{name: {name}, context: {{cluster: {name}}}}}\n" for name in contexts)
    path.write_text(f"apiVersion: v1\nkind: Config\ncontexts:\n{entries}")
    return path


@pytest.fixture
def chosen(monkeypatch):
    """A function: the file that is read for a context, with these files in KUBECONFIG."""
    monkeypatch.setattr(read_only, "_connected", lambda file, context: file)

    def choose(context, *files):
        monkeypatch.setenv("KUBECONFIG", ":".join(map(str, files)))
        return read_only.cluster(argparse.Namespace(context=context, kubeconfig=None))

    return choose


def test_of_several_the_one_that_has_the_context_is_read(chosen, tmp_path):
    missing, broken = tmp_path / "missing", tmp_path / "broken"
    broken.write_bytes(b"\xff[")
    first, second = kubeconfig(tmp_path / "first", "a"), kubeconfig(tmp_path / "second", "a", "b")
    assert chosen("a", missing, broken, first, second) == first
    assert chosen("b", missing, broken, first, second) == second


def test_where_none_has_it_the_first_that_is_there_says_so(chosen, tmp_path):
    first = kubeconfig(tmp_path / "first", "a")
    assert chosen("z", tmp_path / "missing", first) == first
    with pytest.raises(UsageError, match=f"there is no kubeconfig {tmp_path}/missing"):
        chosen("z", tmp_path / "missing")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 5000], ids=["bytes", "deep"])
def test_what_is_no_kubeconfig_is_told(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UsageError, match="is not a kubeconfig"):
        read_only.cluster(argparse.Namespace(context="c", kubeconfig=tmp_path / "file"))
