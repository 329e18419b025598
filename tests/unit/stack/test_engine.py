"""What is made of the engine that answers, or doesn't. `docker` is a script on PATH; nothing is installed or started."""

import os
import signal
import subprocess
import sys
import time

import pytest

from chaos.errors import EngineError
from chaos.stack import engine
from chaos.stack.engine import Engine

DENIED = 'echo "permission denied while trying to connect to the Docker daemon socket" >&2; exit 1'
DEAD = 'echo "Cannot connect to the Docker daemon at unix:///var/run/docker.sock." >&2; exit 1'


@pytest.fixture
def unstartable(monkeypatch):
    monkeypatch.setattr(engine, "startable", lambda: False)


@pytest.fixture
def startable(monkeypatch):
    """A machine on which an engine may be installed and started: what would be done, in order."""
    done = []
    monkeypatch.setattr(engine, "startable", lambda: True)
    monkeypatch.setattr(engine, "_install", lambda: done.append("installed"))
    monkeypatch.setattr(engine, "_start", lambda: done.append("started"))
    return done


def test_the_engine_that_runs_is_used_as_it_is(program, console, startable):
    program("docker", "echo 27.5.1")
    assert isinstance(engine.ensure(console), Engine)
    assert startable == []


@pytest.mark.usefixtures("unstartable")
def test_without_docker_it_is_said_what_to_do(program, console, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(EngineError, match="no Docker engine answers: docker can't be run") as failed:
        engine.ensure(console)
    assert "start Docker" in failed.value.fix


@pytest.mark.usefixtures("unstartable")
def test_a_dead_daemon_is_quoted(program, console):
    program("docker", DEAD)
    with pytest.raises(EngineError, match="Cannot connect to the Docker daemon"):
        engine.ensure(console)


def test_a_daemon_that_one_may_not_use_is_never_replaced(program, console, startable):
    program("docker", DENIED)
    with pytest.raises(EngineError, match="may not use it") as failed:
        engine.ensure(console)
    assert "usermod" in failed.value.fix
    assert startable == []


def test_a_daemon_that_hangs_is_given_up_and_never_replaced(program, console, startable, monkeypatch):
    program("docker", "sleep 300")
    monkeypatch.setattr(engine, "_ANSWER_SECONDS", 0.3)
    began = time.monotonic()
    with pytest.raises(EngineError, match="does not answer") as failed:
        engine.ensure(console)
    assert time.monotonic() - began < 60
    assert "restart" in failed.value.fix
    assert startable == []


@pytest.mark.parametrize(("has_dockerd", "steps"), [(True, ["started"]), (False, ["installed", "started"])])
def test_where_none_runs_and_one_may_be_started_it_is(program, console, startable, monkeypatch, has_dockerd, steps):
    program("docker", DEAD)
    monkeypatch.setattr(engine.shutil, "which", lambda name: f"/usr/sbin/{name}" if has_dockerd else None)
    assert isinstance(engine.ensure(console), Engine)
    assert startable == steps


# --- one of our own -------------------------------------------------------------------------------------------------


@pytest.fixture
def no_stale_files(monkeypatch):
    """The machine's own pid files are not looked at."""
    monkeypatch.setattr(engine, "_clear_stale", lambda: None)
    monkeypatch.setattr(engine, "may_raise_limits", lambda: True)


@pytest.mark.usefixtures("no_stale_files")
def test_an_engine_that_ends_at_once_is_told_in_its_own_words(program):
    program("docker", DEAD)
    program("dockerd", 'echo "failed to start daemon: no iptables" >&2; exit 1')
    began = time.monotonic()
    with pytest.raises(EngineError, match="dockerd ended with exit code 1: failed to start daemon: no iptables"):
        engine._start()
    assert time.monotonic() - began < 30, "it is not waited for what has ended"


@pytest.mark.usefixtures("no_stale_files")
def test_an_engine_that_comes_up_is_waited_for(program, tmp_path):
    up = tmp_path / "up"
    program("dockerd", f"sleep 0.3; echo $$ > {up}.part; mv {up}.part {up}; exec sleep 300")
    program("docker", f"test -e {up}")
    engine._start()
    os.kill(int(up.read_text()), signal.SIGKILL)


def test_a_process_of_another_program_is_not_our_engine(tmp_path):
    (tmp_path / "state" / "engine").mkdir(parents=True)
    pid_file = tmp_path / "state" / "engine" / "docker.pid"
    assert engine.started_by_us() is None
    for text in ("", "not a number", "999999999"):
        pid_file.write_text(text)
        assert engine.started_by_us() is None
    with subprocess.Popen(["sleep", "300"]) as other:
        pid_file.write_text(str(other.pid))
        assert engine.started_by_us() is None
        other.kill()


def test_nothing_is_stopped_that_was_not_started_by_us(console):
    assert engine.stop(console) is False


# --- commands -------------------------------------------------------------------------------------------------------


def test_a_command_that_fails_is_an_engine_error_in_dockers_words(program):
    program("docker", 'echo "Error: no such network: x" >&2; exit 1')
    with pytest.raises(EngineError, match="no such network: x"):
        Engine().docker("network", "rm", "x")


def test_what_is_not_there_is_none(program):
    program("docker", "exit 1")
    assert Engine().inspect("network", "x") is None
    assert not Engine().has_image("x")


def test_a_command_in_a_container_gets_its_input_and_its_code_is_no_exception(program):
    program("docker", 'echo "$@"; cat; exit 7')
    with_input = Engine().exec("node", ["sh", "-c", "cat"], stdin=b"text")
    assert (with_input.code, with_input.text) == (7, "exec -i node sh -c cat\ntext")
    assert Engine().exec("node", ["true"]).text == "exec node true\n"


def test_the_runtime_wrapper_is_installed_as_a_program_that_runs(tmp_path):
    installed = engine._install_runtime(tmp_path)
    assert installed.read_text().startswith(f"#!{sys.executable}\n")
    done = subprocess.run([installed, "--version"], env={"PATH": "/nonexistent"}, capture_output=True, check=False)
    assert done.stderr == b"runc: not found\n"
