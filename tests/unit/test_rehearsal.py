"""A dry run tells all that every experiment does, from the experiment itself, and reaches nothing."""

import argparse
import contextlib
import functools
import inspect
import re
import socket
import subprocess
from pathlib import Path

import pytest

from chaos import cli, plugin, signals
from chaos.catalogue import declarations
from chaos.errors import FeatureMissing
from chaos.experiment import Declaration
from chaos.faults.base import Fault, Scope
from chaos.faults.known import known_faults
from chaos.faults.scale_deployment import ScaleDeployment
from chaos.lab import Lab
from chaos.rehearsal import BY_THEIR_OWN_WORDS, Rehearsal, rehearse, undo_text
from chaos.settings import Level, Settings
from chaos.stack.ours import PREFIX

EXPERIMENTS = {name: (declared, function) for name, declared, function in declarations()}


def variants(function):
    """The parameters of each run of an experiment, as pytest would have them."""
    found = [{}]
    for mark in function.pytestmark:
        if mark.name == "parametrize":
            names = [mark.args[0]] if isinstance(mark.args[0], str) else mark.args[0]
            values = [[each] if isinstance(mark.args[0], str) else each for each in mark.args[1]]
            found = [{**one, **dict(zip(names, each, strict=True))} for one in found for each in values]
    return found


RUNS = [(name, more) for name, (_, function) in sorted(EXPERIMENTS.items()) for more in variants(function)]


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No connection is made, no program is started, and no stack is known."""

    def refuse(*arguments, **more):
        raise AssertionError(f"a dry run reaches out: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setenv("KUBERAY_CHAOS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signals, "_state", signals._State())


@pytest.fixture
def given(tmp_path):
    """A kubeconfig whose server would be noticed."""
    path = tmp_path / "config"
    path.write_text(
        "contexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'https://192.0.2.9'}}]\n"
    )
    return ["--kubeconfig", str(path), "--context", "c"]


def told(name, settings=None, **more):
    lines = []
    declared, function = EXPERIMENTS[name]
    rehearse(name, declared, functools.partial(function, **more), settings or Settings(), lines.append)
    return "\n".join(lines)


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(("name", "more"), RUNS, ids=str)
def test_every_experiment_can_be_told_to_its_end(name, more):
    declared, _ = EXPERIMENTS[name]
    text = told(name, **more)
    if "ends  here" in text:
        assert "here, and is unknown: needs kill points" in text, "it says so itself"
        return
    for claim, arm in declared.shows:
        assert f"judge {claim} ({arm}) by" in text
    lines = [line.strip() for line in text.splitlines()]
    made = [line.removeprefix("do    create namespace ") for line in lines if "create namespace" in line]
    removed = [line for line in lines if line.startswith("undo  remove namespace")]
    assert made
    assert removed == [f"undo  remove namespace {namespace} with all that is in it" for namespace in made]
    faults = [line.split()[1] for line in lines if line.startswith("do ") and "; reach: " in line]
    undone = [line.split()[1] for line in lines if line.startswith("undo ") and line.split()[1] in faults]
    assert sorted(faults) == sorted(undone), "every fault is followed by what undoes it"


class _Promising(Rehearsal):
    """Notes where the faults strike that come after the promise to disturb no more."""

    promised = False
    afterwards = ()

    def disturbs_no_more(self):
        self.promised = True

    def inject(self, *faults):
        if self.promised:
            self.afterwards += faults
        return super().inject(*faults)


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(("name", "more"), RUNS, ids=str)
def test_who_disturbs_no_more_strikes_only_what_is_its_own(name, more):
    declared, function = EXPERIMENTS[name]
    lab = _Promising(name, Settings(), lambda line: None)
    with contextlib.suppress(FeatureMissing):  # kill points
        function(lab, **more)
    assert declared.disturbs or not lab.promised, "there was nothing to promise"
    for fault in lab.afterwards:
        assert fault.scope is Scope.NAMESPACE
        assert fault.target["namespace"].startswith(PREFIX)


@pytest.mark.usefixtures("nowhere")
def test_a_fault_is_told_with_target_reach_hold_and_undo_in_order():
    text = told("head_cut_off_from_redis")
    parts = [
        "do    partition: namespace chaos-head-cut-off-from-redis-gcs-ft, pod the head of ray",
        "(redis-0's) (redis-1's) (redis-2's)",
        "reach: namespace",
        "look  whether partition has taken effect: The rules must have counted packets",
        "wait  65 s, with partition in force",
        "undo  partition: Remove our chain from the sandbox's namespace.",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.parametrize("fault", known_faults().values(), ids=known_faults())
def test_every_fault_says_what_undoes_it_and_what_proves_it(fault):
    assert inspect.getdoc(fault.prove) != inspect.getdoc(Fault.prove)
    assert undo_text(fault).rstrip(".")
    if fault.undo is not Fault.undo:
        assert undo_text(fault) != inspect.getdoc(Fault.undo).splitlines()[0]


def public(of):
    return {name for name, _ in inspect.getmembers(of, inspect.isfunction) if not name.startswith("_")}


def test_every_action_of_the_lab_is_rehearsed():
    """A new one is told by its own words, when it is given one of the words they go with, or in words of the rehearsal."""
    composed = {
        "delete_cluster",
        "delete_head",
        "namespace_name",
        "phase",
        "step",
        "end_experiment",
        "close",
        "terminate_gcs",
    }
    own_words = {name for names in BY_THEIR_OWN_WORDS.values() for name in names}
    in_others = {name for name, value in vars(Rehearsal).items() if inspect.isfunction(value)}
    assert public(Lab) - composed - own_words - in_others == set()
    assert own_words <= public(Lab), "of those that are gone no word is kept"
    assert not own_words & in_others, "each is told once"


@pytest.mark.parametrize("name", sorted(name for names in BY_THEIR_OWN_WORDS.values() for name in names))
def test_what_is_told_by_its_own_words_has_some(name):
    text = inspect.getdoc(getattr(Lab, name)).splitlines()[0]
    assert text[0].isupper()
    assert text.endswith(".")


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("action", "line"),
    [
        (
            lambda lab, ft, job: lab.functional_again({ft: ["counter"]}),
            "wait  probe each cluster until it works, all side by side (chaos-it-a/ray counter, 120 s at most)",
        ),
        (
            lambda lab, ft, job: lab.rayjob_reaches(job, "Complete", "Failed", deadline=60, since=3),
            "wait  until the RayJob's jobDeploymentStatus is one of states (chaos-it-b/job, Complete Failed, 60 s at most)",
        ),
        (
            lambda lab, ft, job: lab.knock("n", lab.redis_primary_pod(), lab.redis_replica(), ["PING"], log_in=True),
            "do    say one command to a Redis server, from the pod; record the answer, or why there was no connection"
            " (n, Redis' primary, a replica of Redis, PING, log in)",
        ),
        (
            lambda lab, ft, job: lab.change(job, suspend=True, jobId="by-hand"),
            "do    replace fields of the RayJob's spec (chaos-it-b/job, suspend, jobId by-hand)",
        ),
        (
            lambda lab, ft, job: lab.record_job(lab.cluster_of(job), "one"),
            "look  Ray's record of a submitted job, and whether its driver is a process of the head"
            " (chaos-it-b/the cluster of job, one)",
        ),
    ],
)
def test_an_action_is_told_by_the_first_sentence_of_its_docstring_and_what_it_is_given(action, line):
    lines = []

    def experiment(lab):
        made = lab.ray_cluster("a", ft=False), lab.rayjob("b")
        lines.clear()
        action(lab, *made)

    rehearse("it", Declaration((), Level.SMOKE, 1), experiment, Settings(), lines.append)
    assert lines[0].strip() == line


def never(lab):
    raise KeyError("podIP")


def not_classified(lab):
    lab.cluster.list("pods", None)


def fails(lab):
    pytest.fail("not so")


def wants_more(lab, something):
    pass


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("experiment", [never, not_classified, fails, wants_more])
def test_what_can_not_be_told_ends_in_one_line_that_says_so(experiment):
    lines = []

    def begun(lab):
        lab.namespace("a")
        with lab.inject(ScaleDeployment("n", "d", 0)):
            experiment(lab)

    rehearse("it", Declaration((), Level.SMOKE, 1), begun, Settings(), lines.append)
    told = [line.strip() for line in lines]
    (end,) = (line for line in told if line.startswith("ends"))
    assert end.startswith("ends  here: what it does from here on can't be told without a cluster (")
    assert len(end.splitlines()) == 1
    assert told[-1] == "undo  remove namespace chaos-it-a with all that is in it"
    assert any(line.startswith("undo  scale-deployment: ") for line in told)


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Run the command: its exit code and what it told."""

    def call(*arguments):
        with (tmp_path / "terminal").open("w") as terminal:
            monkeypatch.setattr(plugin, "_terminal", terminal.fileno())
            code = cli.main(["run", "--dry-run", *arguments])
        return code, (tmp_path / "terminal").read_text()

    return call


@pytest.mark.usefixtures("nowhere")
def test_the_command_tells_all_of_the_level_and_does_nothing(command, tmp_path, capfd):
    code, text = command("--level", "smoke")
    assert code == 0
    assert "nothing was done" in capfd.readouterr().out
    assert "stand up the stack kuberay-chaos, or find it up" in text
    for name, (declared, _) in EXPERIMENTS.items():
        assert (f"\n{name}: " in text) == (declared.level == "smoke"), name
    assert not (tmp_path / "results").exists()
    assert not (tmp_path / "state").exists()


def begun(text):
    """The experiments that were told, each run of theirs."""
    return re.findall(r"^(\w+)(?:\[.*\])?: [A-Z]+-\d+ \(", text, re.MULTILINE)


@pytest.mark.usefixtures("nowhere")
def test_all_of_level_full_is_told_as_pytest_collects_it(command):
    code, text = command("--level", "full")
    assert code == 0
    assert "can't be told" not in text
    assert set(begun(text)) == set(EXPERIMENTS)
    assert len(begun(text)) == len(RUNS)


@pytest.mark.usefixtures("nowhere")
def test_the_selection_holds_for_a_dry_run_too(command):
    code, text = command("-k", "head_cut_off")
    assert code == 0
    assert "head_cut_off_from_redis: " in text
    assert "head_deleted: " not in text


MINE = Path(__file__).parent / "own"


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("options", "told_of", "not_of"),
    [
        (["--raycluster"], {"head_deleted", "timeouts_that_kuberay_sets"}, {"same_id_twice", "strangers_at_redis"}),
        (["--rayjob"], {"same_id_twice", "what_a_rayjob_owns"}, {"head_deleted", "strangers_at_redis"}),
        (["--raycluster", "--rayjob"], {"head_deleted", "same_id_twice"}, {"strangers_at_redis", "answer_withheld"}),
    ],
)
def test_of_a_manifest_of_the_users_the_changes_are_told_and_what_makes_nothing_of_it_is_left_out(
    command, options, told_of, not_of
):
    given = [f"{option}={MINE / option.removeprefix('--')}.yaml" for option in options]
    code, text = command("--level", "full", *given)
    assert code == 0
    assert told_of <= set(begun(text))
    assert not not_of.intersection(begun(text))
    [left_out] = [line for line in text.splitlines() if line.startswith("left out, since they make no ")]
    assert {*begun(text), *re.findall(r"\w+", left_out)} >= set(EXPERIMENTS)
    assert all(each in left_out for each in not_of)
    for option, name in (("--raycluster", "models"), ("--rayjob", "nightly")):
        assert (f"/{name}: a head" in text or f"/{name}, whose entrypoint" in text) is (option in options)
        assert (f"{name} of {MINE}" in text) is (option in options)
    assert "limits.memory: 64Gi -> 2Gi" in text
    assert "in-clear-text" not in text


@pytest.mark.usefixtures("nowhere")
def test_when_nothing_makes_what_the_user_gave_that_is_said(command, capfd):
    code, _ = command("-k", "strangers_at_redis", "--rayjob", str(MINE / "rayjob.yaml"))
    assert code == 3
    assert "no experiment of level core matches 'strangers_at_redis' and makes a RayJob" in capfd.readouterr().err


@pytest.mark.usefixtures("nowhere")
def test_on_a_cluster_of_the_users_what_is_refused_is_told(command, given):
    code, text = command(*given, "-k", "head_cut_off")
    assert code == 0
    assert "use   the cluster https://192.0.2.9" in text
    assert "ends  here, and is unknown: gcs-ft needs the highly available Redis" in text


def test_a_fault_beyond_our_namespaces_is_told_to_be_refused_unless_it_is_allowed(given):
    from chaos.faults.refuse_write import RefuseWrite

    def experiment(lab):
        with lab.inject(RefuseWrite("role", "account", "ray.io", "rayjobs/status")):
            pass

    def tell(*allowed):
        lines, declared = [], Declaration((), Level.SMOKE, 1)
        asked = argparse.Namespace(kubeconfig=given[1], context="c", allow_fault=list(allowed))
        rehearse("it", declared, experiment, Settings.from_args(asked), lines.append)
        return "\n".join(lines)

    assert "ends  here, and is unknown: refuse-write reaches beyond our own namespaces" in tell()
    assert "--allow-fault refuse-write" in tell()
    assert "undo  refuse-write: Put the role's rules back as they are now." in tell("refuse-write")
