"""What a run would do, told and not done: ``--dry-run``.

The experiments themselves run, with a `Rehearsal` in the place of the lab: it tells what it is asked for and answers with
objects that stand for those of a cluster ("the head of …"). So what is told is what the experiment does, in its order. It
has no cluster, no history and no way to reach any; what would be done depending on what is seen is not foretold.

Each line is a word and what it is about: ``do`` changes something and is followed by its ``undo``; ``wait`` and ``look``
change nothing. Most actions of the lab are told by the first sentence of their docstrings and their arguments, and answered
by something of the kind that they are declared to answer.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partialmethod
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, cast, get_type_hints

import pytest

from chaos.checks.base import Check
from chaos.errors import ChaosError, FeatureMissing, NotAllowed
from chaos.experiment import Declaration
from chaos.faults.base import Fault, Scope
from chaos.faults.delete_pod import DeletePod
from chaos.faults.inject import Injected
from chaos.faults.replace_operator import ReplaceOperator
from chaos.history.entry import Entry
from chaos.lab import APART_SECONDS, SETTLE_SECONDS, Lab
from chaos.own import told
from chaos.own.file import Kind
from chaos.repetition import in_words
from chaos.settings import Settings
from chaos.stack import kuberay, ray, redis
from chaos.stack.cluster import Cluster, Object
from chaos.stack.images import catalogue
from chaos.stack.ours import PREFIX
from chaos.stack.ray import RayClusterHandle, RayJobHandle
from chaos.workloads.connection import HeldConnection

Say = Callable[[str], None]
# What pytest's own words for the end of a test raise; none of them is an Exception.
_OUTCOMES = (pytest.fail.Exception, pytest.skip.Exception)
# From the block that is kept for documentation.
_SOMEWHERE = "192.0.2.254"
_RESTORED = "nothing: the cluster's own controllers restore what was hit"


def tell_stand_up(settings: Settings, say: Say) -> None:
    """What comes before the experiments, and after them."""
    if given := settings.given:
        say(f"use   the cluster {given.server} (context {given.context} of {given.kubeconfig}); the file is only read")
        _tell_own(settings, say)
        return
    versions = ", ".join(f"{name} {version}" for name, version in settings.versions.as_json().items())
    up = "or find it up" + (", and replace one that can't be used again" if settings.recreate else "")
    egress = "; traffic may leave it" if settings.open_egress else ""
    say(f"do    stand up the stack {settings.name}, {up}: three kind nodes, {versions}, Redis{egress}")
    kept = "`kuberay-chaos down` removes it" if settings.keep else "it is removed afterwards"
    say(f"undo  {kept}")
    _tell_own(settings, say)


def _tell_own(settings: Settings, say: Say) -> None:
    for own in settings.own.values():
        say(f"look  whether KubeRay takes {own} as it is given; if not, the run ends here")
        version = settings.versions.ray
        fitted = ray.fitted(own, catalogue.ray_image(version), version, ledger=settings.given is None)
        for line in told.lines(told.told(own, fitted)):
            say(f"      {line}")


def made_by(name: str, experiment: Callable[[Lab], object], settings: Settings) -> set[Kind]:
    """Which of Ray's objects an experiment makes."""
    lab = Rehearsal(name, settings, lambda line: None)
    with suppress(Exception, *_OUTCOMES):
        experiment(lab)
    return lab.made


def rehearse(
    name: str, declared: Declaration, experiment: Callable[[Lab], object], settings: Settings, say: Say
) -> None:
    """Tell what one experiment does."""
    shows = ", ".join(f"{claim} ({arm})" for claim, arm in declared.shows)
    say(f"\n{in_words(name)}: {shows}; level {declared.level}, about {declared.seconds} s")
    lab = Rehearsal(name, settings, lambda line: say(f"  {line}"))
    try:
        lab.take_turn()
        experiment(lab)
    except ChaosError as problem:
        lab.tell("ends", f"here, and is unknown: {problem.args[0]}", problem.fix)
    except (Exception, *_OUTCOMES) as problem:
        said = " ".join(f"{type(problem).__name__}: {problem}".split())
        lab.tell("ends", f"here: what it does from here on can't be told without a cluster ({said})")
    lab.farewell()


class _Nothing:
    """In the place of a cluster and a history: whatever is asked of it was not rehearsed."""

    def __getattr__(self, name: str) -> NoReturn:
        raise NotImplementedError(f"a rehearsal has no {name}: chaos.rehearsal.Rehearsal must tell what asks for it")


class _Voice:
    """In the place of a history's writer: takes everything and keeps nothing."""

    def __init__(self, experiment: str) -> None:
        self.experiment = experiment

    def write(self, what: str, **fields: Any) -> Entry:
        return {"n": 0, "t": 0.0, "what": what, **fields}


class _Mark:
    """In the place of a fault in force."""

    def __init__(self, faults: Sequence[Fault], group: str, tell: Callable[..., None]) -> None:
        self.fault, self.id, self.group, self.applied, self.began = faults[-1], faults[-1].name, group, 0.0, 0
        self._tell = tell

    def hold(self, seconds: float) -> None:
        self._tell("wait", f"{seconds:g} s, with {self.id} in force")


class _Cluster(RayClusterHandle):
    """A Ray cluster that has the pods it was asked for."""

    def _pods(self, cluster: Cluster, kind: str) -> list[Object]:
        names = ["the head"] if kind == ray.HEAD else [f"worker {n}" for n in range(1, self.workers + 1)]
        return [_pod(self.namespace, f"{name} of {self.name}", _SOMEWHERE) for name in names]


def _pod(namespace: str, name: str, address: str) -> Object:
    runs = {"name": "its first", "restartCount": 0, "state": {"running": {}}}
    return {
        **_object(namespace, name),
        "spec": {"nodeName": f"the node of {name}", "containers": [{"name": "its first", "image": "its image"}]},
        "status": {"podIP": address, "containerStatuses": [runs]},
    }


def _object(namespace: str, name: str) -> Object:
    return {"metadata": {"namespace": namespace, "name": name, "uid": "(its own)", "labels": {}}}


class Rehearsal(Lab):
    """A lab that tells what it is asked for, and does nothing."""

    def __init__(self, experiment: str, settings: Settings, say: Say) -> None:
        super().__init__(
            cluster=cast(Any, _Nothing()), writer=cast(Any, _Voice(experiment)), injector=cast(Any, _Nothing()),
            console=cast(Any, _Nothing()), images={}, ray_version=settings.versions.ray, ledger=None,
            other_operator=cast(Any, _Nothing()),
        )  # fmt: skip
        self.expect = cast(Any, self._expect)
        self._settings = settings
        self._say = say
        self._groups = itertools.count(1)
        self.made: set[Kind] = set()
        # Addresses that stand for those of pods, from the block that is kept for documentation.
        self._addresses: dict[str, str] = {}

    def tell(self, word: str, what: str, more: str = "") -> None:
        for address, owner in self._addresses.items():
            what = what.replace(address, f"({owner}'s)")
        self._say(f"{word:<5} {what}" + (f" ({more})" if more else ""))

    def farewell(self) -> None:
        """What becomes of what was made."""
        for namespace in self._namespaces:
            self.tell("undo", f"remove namespace {namespace} with all that is in it")

    # --- turn and faults --------------------------------------------------------------------------------------------

    def take_turn(self) -> None:
        self.tell("wait", "until no other experiment is in the way")

    def disturbs_no_more(self) -> None:
        """What others do is not told."""

    @contextmanager
    def inject(self, *faults: Fault) -> Iterator[Injected]:
        for fault in faults:
            self._require_allowed(fault)
        for fault in faults:
            target = ", ".join(f"{key} {value}" for key, value in fault.target.items())
            self.tell("do", f"{fault.name}: {target}; reach: {fault.scope}")
        for fault in faults:
            self.tell("look", f"whether {fault.name} has taken effect: {_first_sentence(type(fault).prove)}")
        mark = _Mark(faults, f"group-{next(self._groups)}", self.tell)
        try:
            yield cast(Injected, mark)
        finally:
            for fault in reversed(faults):
                self.tell("undo", f"{fault.name}: {undo_text(type(fault))}")

    def hold(self, fault: Injected, seconds: float) -> None:
        fault.hold(seconds)

    def _require_allowed(self, fault: Fault) -> None:
        if self._settings.given is None or fault.name in self._settings.allow_faults:
            return
        if fault.scope is not Scope.NAMESPACE or not fault.target.get("namespace", "").startswith(PREFIX):
            raise NotAllowed(
                f"{fault.name} reaches beyond our own namespaces", fix=f"allow it with --allow-fault {fault.name}"
            )

    # --- what is told better than by the lab's own words ------------------------------------------------------------

    def namespace(self, arm: str) -> str:
        name = self.namespace_name(arm)
        if name not in self._namespaces:
            self.tell("do", f"create namespace {name}")
            self._namespaces.append(name)
        return name

    def ray_cluster(
        self, arm: str, *, ft: bool, redis_address: str = redis.SENTINEL_ADDRESS, workers: int = 2, **more: Any
    ) -> RayClusterHandle:
        self.made.add(Kind.RAYCLUSTER)
        if ft and redis_address == redis.SENTINEL_ADDRESS and self._settings.given:
            raise FeatureMissing(f"{arm} needs the highly available Redis of a stack of ours")
        handle = _Cluster(self.namespace(arm), self._name(Kind.RAYCLUSTER, "ray"), ft, workers, arm)
        having = f"GCS fault tolerance in {redis_address}" if ft else "no fault tolerance"
        told = f"create RayCluster {_said(handle)}: a head, {workers} workers, {having}"
        self.tell("do", ", ".join([told, *_settings(more)]))
        return handle

    def _name(self, kind: Kind, ours: str) -> str:
        own = self._settings.own.get(kind)
        return own.name if own else ours

    def single_redis(self, arm: str) -> str:
        namespace = self.namespace(arm)
        self.tell("do", f"create a single Redis without persistence in {namespace}")
        return f"redis-single.{namespace}"

    def sharded_redis(self, arm: str) -> str:
        namespace = self.namespace(arm)
        self.tell("do", f"create a Redis Cluster of two shards in {namespace}")
        return f"redis-sharded.{namespace}"

    def rayjob(self, arm: str, *, exit_code: int = 0, ft: bool = False, **more: Any) -> RayJobHandle:
        self.made.add(Kind.RAYJOB)
        if self._settings.given:
            raise FeatureMissing("RayJobs are counted in a ledger that all nodes share, which only a stack of ours has")
        job = RayJobHandle(self.namespace(arm), self._name(Kind.RAYJOB, "job"), ft, "")
        told = f"create RayJob {_said(job)}, whose entrypoint exits with {exit_code} when it is let go"
        self.tell("do", ", ".join([told, *_settings({"with fault tolerance": ft, **more})]))
        return job

    def witness(self, namespace: str, name: str = "witness", *, may_reach_redis: bool = True) -> Object:
        reach = "may" if may_reach_redis else "may not"
        self.tell("do", f"create the pod {name} in {namespace}, which {reach} reach Redis")
        return self._pod(namespace, name)

    def hold_connection(self, pod: Object, address: str, name: str) -> HeldConnection:
        self.tell("do", f"open a connection from {pod['metadata']['name']} to {address} and watch it ({name})")
        self.tell("undo", "close it when the experiment ends")
        return cast(HeldConnection, _Nothing())

    def steady(self, actors: Mapping[RayClusterHandle, Sequence[str]]) -> None:
        self.tell("look", f"that {' and '.join(map(_said, actors))} and what they rely on are steady")

    def observe(self, seconds: float, *, why: str) -> None:
        self.tell("wait", f"{seconds:g} s: {why}")

    def settle(self, actors: Mapping[RayClusterHandle, Sequence[str]]) -> None:
        self.tell("wait", f"{SETTLE_SECONDS:g} s after {' and '.join(map(_said, actors))} are functional again")

    def look_twice(self, actors: Mapping[RayClusterHandle, Sequence[str]]) -> None:
        self.tell("wait", f"{APART_SECONDS:g} s, and until {' and '.join(map(_said, actors))} are functional once more")

    def record_metadata(self, *clusters: RayClusterHandle, make: bool = False) -> None:
        if make:
            self.tell("do", f"put something to remember into {_said(clusters)}")
        self.tell("look", f"what the GCS of {_said(clusters)} remembers")

    def seen(self, predicate: Callable[[Entry], bool], *, what: str, deadline: float, since: int) -> Entry:
        self.tell("wait", f"for {what}", f"{deadline:g} s at most")
        return {"n": 0, "t": 0.0}

    # --- targets ----------------------------------------------------------------------------------------------------

    def operator(self) -> Object:
        return self._pod(kuberay.NAMESPACE, "the operator")

    def other_operator(self, version: str, *, definitions: bool = True) -> ReplaceOperator:
        own = kuberay.Release(self._settings.versions.kuberay, "", Path())
        return ReplaceOperator(kuberay.Release(version, "", Path()), own, definitions)

    def leader(self) -> Object:
        return self._pod(kuberay.NAMESPACE, "the operator that leads")

    def head(self, cluster: RayClusterHandle) -> Object:
        pod = self._pod(cluster.namespace, f"the head of {cluster.name}")
        pod["metadata"]["labels"]["ray.io/cluster"] = cluster.name
        return pod

    def worker(self, cluster: RayClusterHandle) -> Object:
        return self._pod(cluster.namespace, f"a worker of {cluster.name}")

    def raycluster(self, cluster: RayClusterHandle) -> Object:
        return _object(cluster.namespace, cluster.name)

    def rayjob_object(self, job: RayJobHandle) -> Object:
        return _object(job.namespace, job.name)

    def delete_worker_of(self, cluster: RayClusterHandle, actor: str) -> DeletePod:
        return DeletePod.of(self._pod(cluster.namespace, f"the worker that {actor} lives on"))

    def ray_nodes(self) -> list[Object]:
        return [_object("", name) for name in ("a node", "another node")]

    def redis_pods(self) -> list[Object]:
        return [self._pod(redis.NAMESPACE, member) for member in redis.MEMBERS]

    def redis_primary(self) -> str:
        return "Redis' primary"

    def redis_replica(self) -> str:
        return "a replica of Redis"

    def redis_primary_pod(self) -> Object:
        return self._pod(redis.NAMESPACE, "Redis' primary")

    # --- plumbing ---------------------------------------------------------------------------------------------------

    def _pod(self, namespace: str, name: str) -> Object:
        owned = {owner: address for address, owner in self._addresses.items()}
        address = owned.get(name) or f"192.0.2.{len(owned) + 1}"
        self._addresses[address] = name
        return _pod(namespace, name, address)

    def _expect(self, claim: str, arm: str, *checks: Check, control: tuple[str, Check] | None = None) -> None:
        by = f" by {', '.join(check.name for check in checks)}" if checks else ""
        against = f"; control: {control[0]} must come out the other way" if control else ""
        self.tell("judge", f"{claim} ({arm}){by}{against}")

    def _by_its_own_words(self, word: str, method: Callable[..., object], /, *arguments: Any, **more: Any) -> object:
        """Tell a method of the lab by its docstring, and answer with what stands for its answer."""
        bound = inspect.signature(method).bind(self, *arguments, **more)
        bound.apply_defaults()
        if word:
            self.tell(word, _sentence(word, method), ", ".join(_arguments(bound)))
        return self._stand_in(get_type_hints(method)["return"], method.__name__, bound.arguments)

    def _stand_in(self, kind: Any, method: str, arguments: Mapping[str, Any]) -> object:
        """Something of this kind, named by the method and by what that was asked about: "the submitter pod of job"."""
        about = next((each for each in arguments.values() if isinstance(each, _HANDLES)), None)
        name = "the " + re.sub("_(of|made)$", "", method).replace("_", " ") + (f" of {about.name}" if about else "")
        namespace = about.namespace if about else str(arguments.get("namespace", ""))
        if kind == Object:  # an entry of the history is one too
            return {"n": 0, "t": 0.0, **self._pod(namespace, name)}
        if kind is RayClusterHandle:
            return _Cluster(namespace, name, ft=False, workers=0)
        # A list of clusters is of those that do not work, and a rehearsal goes well.
        plain: dict[Any, object] = {NoneType: None, str: name, bool: True, int: 0, list[RayClusterHandle]: []}
        if kind not in plain:
            raise NotImplementedError(f"no {kind} is rehearsed: chaos.rehearsal.Rehearsal must tell {method}")
        return plain[kind]


_HANDLES = (RayClusterHandle, RayJobHandle)

# What is told by the lab's own docstring, and with which word; what has none only names what is acted upon later.
BY_THEIR_OWN_WORDS = {
    "do": [
        "amend", "ask_for_workers", "call_service", "change", "delete", "knock", "release", "remove_keys", "start_actor",
        "start_chatter", "submit", "submit_driver",
    ],
    "wait": [
        "cleanup_ends", "cluster_goes", "functional_again", "head_restarts", "job_ends", "let_in", "operator_leads_again",
        "operator_settled", "pods_made", "ray_cluster_made", "ray_job_runs", "rayjob_gone", "rayjob_reaches", "ready",
        "record_redis", "service_answers", "submitter_finished", "submitter_job", "work_goes_on", "workers_join", "write_refused",
    ],
    "look": [
        "functional", "record_job", "record_keys", "record_ledger", "record_steps", "record_submissions", "record_writes",
    ],
    "": ["cluster_of", "now", "redis_single_pod", "submission_of", "submitter_pod"],
}  # fmt: skip


def _rehearse_by_their_own_words() -> None:
    for word, names in BY_THEIR_OWN_WORDS.items():
        for name in names:
            setattr(Rehearsal, name, partialmethod(Rehearsal._by_its_own_words, word, getattr(Lab, name)))


_rehearse_by_their_own_words()


def undo_text(fault: type[Fault]) -> str:
    """What undoes a fault, in its own words."""
    return _RESTORED if fault.undo is Fault.undo else _first_sentence(fault.undo)


def _first_sentence(function: Callable[..., object]) -> str:
    lines = (inspect.getdoc(function) or "").splitlines()
    return lines[0] if lines else "(not told)"


def _sentence(word: str, function: Callable[..., object]) -> str:
    """The first sentence of a docstring, as it goes on after the word."""
    text = _first_sentence(function).partition(". ")[0].rstrip(".").replace("``", "").replace("`", "")
    if word == "wait":
        text = re.sub("^(The|A) ", lambda article: f"for {article[0].lower()}", text.removeprefix("Wait "))
    return text if text.startswith("Ray") else text[0].lower() + text[1:]


def _arguments(bound: inspect.BoundArguments) -> list[str]:
    """What a method was given that says something to a reader."""
    told = []
    for name, value in list(bound.arguments.items())[1:]:
        parameter = bound.signature.parameters[name]
        if name == "deadline":
            told.append(f"{value:g} s at most")
        elif parameter.kind is parameter.VAR_KEYWORD:
            told += _settings(value)
        elif name == "since" or value in (parameter.default, ()):
            continue
        elif parameter.default is parameter.empty:
            told.append(_said(value))
        else:
            told += _settings({name: value})
    return told


def _settings(given: Mapping[str, object]) -> list[str]:
    """Settings by name, where they set something."""
    set_to = {name.replace("_", " "): value for name, value in given.items() if value not in (None, "", 0, False, {})}
    return [name if value is True else f"{name} {_said(value)}" for name, value in set_to.items()]


def _said(value: object) -> str:
    """A value for a reader."""
    if value is None:
        return "unset"
    if isinstance(value, _HANDLES):
        return f"{value.namespace}/{value.name}"
    if isinstance(value, Mapping) and "name" in value.get("metadata", {}):
        return str(value["metadata"]["name"])
    if isinstance(value, Mapping):
        pairs = [(_said(key), _said(item)) for key, item in value.items()]
        return ", ".join(f"{key} {item}".rstrip() for key, item in pairs)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(_said, value))
    return str(value)
