"""What Ray keeps in Redis: names, and the command that removes them, both tried in a shell."""

import os
import subprocess

import pytest

from chaos.errors import StackError
from chaos.process import Executed
from chaos.stack import keys


class Answering:
    """A cluster whose redis-cli prints this."""

    def __init__(self, said, code=0):
        self.said, self.code = said, code

    def exec(self, namespace, pod, argv, *, container=None, stdin=None, timeout):
        self.argv = argv
        return Executed(self.code, self.said.encode(), b"")


@pytest.mark.parametrize(
    ("options", "annotations", "namespace"),
    [
        ({}, {}, "uid-1"),
        ({"externalStorageNamespace": "own"}, {}, "own"),
        (None, {"ray.io/external-storage-namespace": "annotated"}, "annotated"),
    ],
)
def test_the_storage_namespace(options, annotations, namespace):
    spec = {} if options is None else {"gcsFaultToleranceOptions": options}
    cluster = {"metadata": {"uid": "uid-1", "annotations": annotations}, "spec": spec}
    assert keys.storage_namespace(cluster) == namespace


def test_names_are_those_of_the_one_namespace():
    answering = Answering("RAYa@NODE\nRAYa@KV\n")
    assert keys.names(answering, "redis-0", "a") == ["RAYa@KV", "RAYa@NODE"]
    assert answering.argv[-1] == "RAYa@*"
    assert keys.pattern("a*[b]") == r"RAYa\*\[b\]@*"


@pytest.mark.parametrize("answering", [Answering("NOAUTH Authentication required.\n"), Answering("", code=124)])
def test_an_error_is_not_an_empty_list(answering):
    with pytest.raises(StackError):
        keys.names(answering, "redis-0", "a")


def test_the_removal_works_when_pasted(tmp_path):
    """kubectl runs what comes after ``--``, as the real one does in the pod."""
    done = tmp_path / "done"
    for name, script in {
        "kubectl": 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"',
        "redis-cli": f'case $1 in --scan) echo "RAYa@KV"; echo "RAYa@NODE $3";; *) echo "$@" >> {done};; esac',
    }.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["sh", "-c", keys.removal("redis-0", "a")], env={"PATH": path}, check=True)
    assert done.read_text().split() == ["unlink", "RAYa@KV", "RAYa@NODE", "RAYa@*"]
