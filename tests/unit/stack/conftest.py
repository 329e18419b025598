"""Private cache and state folders, and programs that stand in for real ones on PATH."""

import io

import pytest

from chaos.console import Console


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBERAY_CHAOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBERAY_CHAOS_STATE", str(tmp_path / "state"))


@pytest.fixture
def console():
    return Console(io.StringIO())


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a shell script on PATH under a name; only those and the shell's own tools are there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def write(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        return folder / name

    return write
