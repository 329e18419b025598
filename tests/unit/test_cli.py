"""Bad input ends as one clear message with the exit code of its kind, and without a traceback."""

import json
import os
import re
import signal
import subprocess
import sys
import types

import pytest

from chaos import cli, doctor, plugin, signals
from chaos.errors import DoctorError, EngineError, StackError
from chaos.stack import engine

MODULE = [sys.executable, "-m", "chaos"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Nothing of this machine's stacks is seen or touched."""
    monkeypatch.setenv("KUBERAY_CHAOS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("KUBERAY_CHAOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(signals, "_state", signals._State())
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def told(capfd):
    """Run a command: its exit code, what it printed, and what it complained of."""

    def call(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return call


@pytest.fixture
def ready_machine(monkeypatch):
    """A machine that lacks nothing, with an engine that holds every image."""
    monkeypatch.setattr(doctor, "examine", lambda settings: [])
    fake = types.SimpleNamespace(has_image=lambda reference: True)
    monkeypatch.setattr(engine, "ensure", lambda console: fake)


@pytest.mark.parametrize("verb", ["doctor", "up", "run", "heal", "down"])
@pytest.mark.parametrize(
    ("arguments", "named", "fix"),
    [
        (["--kuberay", "1.6.1"], "KubeRay 1.6.1", "the nearest is 1.6."),
        (["--kuberay", "latest"], "'latest'", "three numbers"),
        (["--ray", "2.9.0"], "Ray 2.9.0 is too old", "2.38.0"),
        (["--kubernetes", "1.20.0"], "Kubernetes 1.20.0", "1.34.0"),
        (["--images", "registy"], "'registy'", "did you mean registry?"),
        (["--archive", "no-such-file"], "no-such-file", "check the path"),
        (["--name", "Not A Name"], "'Not A Name'", "lower-case"),
        (["--no-such-option"], "--no-such-option", "--help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_stack_option_is_named_with_what_would_be_right(told, verb, arguments, named, fix):
    code, out, err = told(verb, *arguments)
    assert code == 3
    assert out == ""
    assert err.startswith("error: ")
    assert named in err.splitlines()[0]
    assert fix in err.splitlines()[1]
    assert err.splitlines()[1].startswith("what to do: ")
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--level", "everything"], "'everything'"),
        (["--seed", "-1"], "'-1'"),
        (["--results", "/proc/nowhere"], "/proc/nowhere"),
        (["--keep", "--remove"], "--keep and --remove"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_run_option_is_named(told, arguments, named):
    code, _, err = told("run", *arguments)
    assert code == 3
    assert named in err


@pytest.mark.parametrize("option", ["--raycluster", "--rayjob"])
@pytest.mark.parametrize(
    "content", [None, "", "a: [", "kind: Pod\napiVersion: v1\n"], ids=["missing", "empty", "torn", "other"]
)
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["run", "dry"])
def test_a_manifest_that_can_not_be_used_is_named_and_nothing_is_left(told, tmp_path, option, content, more):
    file = tmp_path / "mine.yaml"
    if content is not None:
        file.write_text(content)
    code, out, err = told("run", option, file, *more)
    assert (code, out) == (3, "")
    assert str(file) in err.splitlines()[0]
    assert err.splitlines()[1].startswith("what to do: ")
    assert list(tmp_path.iterdir()) == ([] if content is None else [file])


@pytest.mark.parametrize(
    "arguments",
    [[], ["no-such-verb"], ["run", "--dry"], ["down", "--orph"], ["images"], ["images", "save"], ["recheck"]],
)
def test_a_wrong_command_is_told_where_help_is(told, arguments):
    code, _, err = told(*arguments)
    assert code == 3
    assert "--help" in err


def test_results_that_may_not_be_written_are_refused_before_anything_else(told, tmp_path):
    (tmp_path / "results").write_text("a file in the place of the folder")
    code, _, err = told("run")
    assert code == 3
    assert str(tmp_path / "results") in err
    assert "--results" in err


@pytest.mark.usefixtures("ready_machine")
@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x1f\x8b\x08\x00broken"])
def test_a_file_that_is_no_archive_is_told_as_such(told, tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    code, _, err = told("up", "--archive", tmp_path / "file")
    assert code == 3
    assert f"{tmp_path / 'file'} is not an archive of `images save`" in err


@pytest.mark.parametrize("content", [None, "", "{", '{"n": 0}\n'], ids=["missing", "empty", "torn", "no history"])
def test_a_folder_that_is_no_run_cannot_be_judged_again(told, tmp_path, content):
    if content is not None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "history.jsonl").write_text(content)
    code, _, err = told("recheck", tmp_path / "run")
    assert code == 3
    assert str(tmp_path / "run") in err


@pytest.mark.usefixtures("ready_machine")
def test_an_archive_that_cannot_be_written_is_an_error_before_the_work(told, monkeypatch):
    code, _, err = told("images", "save", "/proc/archive.tar", "--images", "registry")
    assert code == 3
    assert "/proc/archive.tar can't be written" in err


@pytest.mark.parametrize(
    "problem", [DoctorError("no memory", fix="buy some"), EngineError("no Docker"), StackError("not healthy")]
)
def test_what_keeps_the_stack_from_standing_is_4(told, monkeypatch, problem):
    def fail(settings):
        raise problem

    monkeypatch.setattr(doctor, "examine", fail)
    code, _, err = told("up")
    assert code == 4
    assert err.startswith(f"error: {problem.args[0]}\n")


def test_a_run_without_a_stack_says_why(told, monkeypatch, tmp_path):
    class Run:
        def __init__(self, settings, console, member, shards):
            pass

        def __enter__(self):
            raise EngineError("no Docker engine answers", fix="start it")

        def __exit__(self, *error):
            pytest.fail("it was never open")

    monkeypatch.setitem(sys.modules, "chaos.run", types.SimpleNamespace(Run=Run))
    with (tmp_path / "terminal").open("w") as terminal:
        monkeypatch.setattr(plugin, "_terminal", terminal.fileno())
        code, out, _ = told("run", "--level", "smoke")
    assert code == 4
    assert (tmp_path / "terminal").read_text() == "error: no Docker engine answers\nwhat to do: start it\n"
    assert "exit code 4: the stack could not be stood up" in out


def test_a_selection_of_nothing_is_a_wrong_request(told):
    code, _, err = told("run", "-k", "no_experiment_is_called_this")
    assert code == 3
    assert "no_experiment_is_called_this" in err


def test_a_selection_that_is_no_expression_is_a_wrong_request(told):
    code, _, err = told("run", "-k", "head and (")
    assert code == 3
    assert "head and (" in err


@pytest.mark.parametrize("arguments", [["--shard", "3/2"], ["--shard", "0/2"], ["--shard", "x"], ["--repeat", "0"]])
def test_a_part_or_a_number_that_is_none_is_a_wrong_request_told_once(told, arguments):
    code, out, err = told("run", *arguments)
    assert (code, out) == (3, "")
    assert err.startswith(f"error: {arguments[0]} '{arguments[1]}' is not ")
    assert err.count("error:") == 1


def test_a_dry_run_of_all_shards_tells_every_experiment_once(told, monkeypatch, tmp_path):
    def said(*arguments):
        with (tmp_path / "terminal").open("w") as terminal:
            monkeypatch.setattr(plugin, "_terminal", terminal.fileno())
            monkeypatch.setattr(signals, "_state", signals._State())
            assert told("run", "--dry-run", "--level", "full", *arguments)[0] == 0
        return re.findall(r"^(\w+(?:\[.*\])?): [A-Z]+-\d+ ", (tmp_path / "terminal").read_text(), re.MULTILINE)

    whole = said()
    parts = [said("--shard", f"{number}/2") for number in (1, 2)]
    assert all(parts)
    assert sorted(name for part in parts for name in part) == sorted(whole)


def test_there_is_nothing_to_heal_where_nothing_ran(told):
    code, out, _ = told("heal")
    assert (code, out) == (0, "nothing to heal\n")


def test_the_list_is_text_or_json(told):
    code, out, _ = told("list")
    assert code == 0
    assert "FT-2" in out
    code, out, _ = told("list", "--json")
    assert code == 0
    json.loads(out)


@pytest.mark.parametrize(
    "select",
    [
        "'head'",
        "a==b",
        "head,redis",
        'a"b',
        "head(x=1)",
        "head (x)",
        "head redis",
        "head and",
        "not",
        "()",
        "a;b",
        "(a",
    ],
)
def test_what_is_no_expression_of_pytests_is_a_wrong_request_told_once(told, select):
    code, out, err = told("run", "--dry-run", f"-k{select}")
    assert (code, out) == (3, "")
    assert err.startswith(f"error: -k {select!r} is not an expression\n")


@pytest.mark.parametrize("variable", ["KUBERAY_CHAOS_STATE", None])
def test_a_state_folder_that_can_not_be_made_is_named(told, monkeypatch, variable, tmp_path):
    (tmp_path / "file").write_text("")
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "file" / "state"))
    else:
        monkeypatch.delenv("KUBERAY_CHAOS_STATE")
        monkeypatch.setenv("HOME", str(tmp_path / "file"))
    code, _, err = told("heal")
    assert code == 4
    assert str(tmp_path / "file") in err
    assert "KUBERAY_CHAOS_STATE" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--dry-run", "--raycluster", "~nobody-there/x"],
        ["run", "--dry-run", "--results", "~nobody-there/x"],
        ["run", "--dry-run", "--kuberay", "~nobody-there/x", "--kuberay-image", "i"],
        ["run", "--dry-run", "--raycluster", "a" * 300],
        ["audit", "a" * 300],
        ["diagnose", "a" * 300],
        ["audit", "/dev/null"],
        ["versions", "check", "no-such-file"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_a_path_that_is_none_is_a_wrong_request(told, arguments):
    code, out, err = told(*arguments)
    assert (code, out) == (3, "")
    assert err.startswith("error: ")
    assert "what to do: " in err


def test_results_that_could_not_be_written_are_refused_in_a_dry_run_too_and_nothing_is_made(told, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = told("run", "--dry-run", "--results", tmp_path / "file" / "x")
    assert code == 3
    assert "results cannot be written" in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_fault_of_our_own_is_told_as_one_and_is_no_verdict(monkeypatch, capfd):
    def broken(arguments, console):
        raise KeyError("what nobody thought of")

    monkeypatch.setattr(cli, "_list", broken)
    assert cli.main(["list"]) == 4
    assert "this is a fault of kuberay-chaos; please report it" in capfd.readouterr().err


# --- as a process ---------------------------------------------------------------------------------------------------


def test_the_module_is_the_command():
    done = subprocess.run([*MODULE, "up", "--ray", "two"], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (3, "")
    assert "'two' is not a version of ray" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_traceback():
    with subprocess.Popen([*MODULE, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        assert b"Traceback" not in child.stderr.read()
    assert child.returncode == 141


STANDING_UP = """
import sys, time
from chaos import cli, doctor
def examine(settings):
    print("examining", flush=True)
    time.sleep(60)
doctor.examine = examine
sys.exit(cli.main(["up"]))
"""


def test_an_interrupted_command_exits_as_shells_have_it():
    with subprocess.Popen(
        [sys.executable, "-c", STANDING_UP], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "examining\n"
        os.kill(child.pid, signal.SIGTERM)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 143
    assert "interrupted by SIGTERM" in out + err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("around", "environment"),
    [
        pytest.param({"conftest.py": 'open("ran", "w"); raise SystemExit("theirs")'}, {}, id="conftest"),
        pytest.param({"pytest.ini": "[pytest]\nminversion = 99\npython_functions = zz*\n"}, {}, id="pytest.ini"),
        pytest.param({"pyproject.toml": "[[["}, {}, id="pyproject"),
        pytest.param({}, {"PYTEST_ADDOPTS": "--nope", "PYTEST_PLUGINS": "nope"}, id="environment"),
    ],
)
def test_what_the_user_has_for_a_pytest_of_theirs_does_not_matter(tmp_path, around, environment):
    for name, text in around.items():
        (tmp_path / name).write_text(text)
    command = [*MODULE, "run", "--dry-run", "-k", "head_deleted"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    assert "head_deleted: " in done.stdout
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("stream", "code"), [(">&-", 0), (">/dev/full", 4), ("<&-", 0)])
def test_a_stream_that_is_closed_or_full_is_no_traceback(stream, code):
    shell = ["sh", "-c", f'"$@" {stream}', "sh", *MODULE, "list"]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


TWICE = """
import os, signal, sys
from chaos import cli
def interrupted(arguments, console):
    os.kill(os.getpid(), signal.SIGTERM)
cli._list = interrupted
say = cli.Console.info
def told(console, text):
    say(console, text)
    os.kill(os.getpid(), signal.SIGINT)  # while it says that it was interrupted
cli.Console.info = told
sys.argv = ["kuberay-chaos", "list"]
cli.command()
"""


def test_a_second_signal_does_not_change_how_a_command_ends():
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 143, done.stderr
    assert "interrupted by SIGTERM" in done.stdout
    assert "Traceback" not in done.stderr
