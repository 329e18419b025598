"""What a run would do, told and not done: ``--dry-run``.

The experiments themselves run, with a `Rehearsal` in the place of the lab: it tells what it is asked for and answers with
objects that stand for those of a cluster ("the head of …"). So what is told is what the experiment does, in its order. It
has no cluster, no history and no way to reach any; what would be done depending on what is seen is not foretold.

Each line is a word and what it is about: ``do`` changes something and is followed by its ``undo``; ``wait`` and ``look``
change nothing.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn, cast

from chaos.checks.base import Check
from chaos.errors import ChaosError, FeatureMissing, NotAllowed
from chaos.experiment import Declaration
from chaos.faults.base import Fault, Scope
from chaos.faults.delete_cluster import DeleteCluster
from chaos.faults.delete_pod import DeletePod
from chaos.faults.inject import Injected
from chaos.history.entry import Entry
from chaos.lab import FUNCTIONAL_SECONDS, LEASE_SECONDS, RUNNING_SECONDS, Lab
from chaos.settings import Settings
from chaos.stack import kuberay, ray, redis
from chaos.stack.cluster import Cluster, Object
from chaos.stack.ours import PREFIX
from chaos.stack.ray import RayClusterHandle, RayJobHandle
from chaos.workloads.connection import HeldConnection

Say = Callable[[str], None]
# From the block that is kept for documentation.
_SOMEWHERE = "192.0.2.254"
_RESTORED = "nothing: the cluster's own controllers restore what was hit"


def tell_stand_up(settings: Settings, say: Say) -> None:
    """What comes before the experiments, and after them."""
    if given := settings.given:
        say(f"use   the cluster {given.server} (context {given.context} of {given.kubeconfig}); the file is only read")
        return
    versions = ", ".join(f"{name} {version}" for name, version in settings.versions.as_json().items())
    say(f"do    stand up the stack {settings.name}, or find it up: three kind nodes, {versions}, Redis")
    kept = "`kuberay-chaos down` removes it" if settings.keep else "it is removed afterwards"
    say(f"undo  {kept}")


def rehearse(
    name: str, declared: Declaration, experiment: Callable[[Lab], object], settings: Settings, say: Say
) -> None:
    """Tell what one experiment does."""
    shows = ", ".join(f"{claim} ({arm})" for claim, arm in declared.shows)
    say(f"\n{name}: {shows}; level {declared.level}, about {declared.seconds} s")
    lab = Rehearsal(name, settings, lambda line: say(f"  {line}"))
    try:
        experiment(lab)
    except ChaosError as problem:
        lab.tell("ends", f"here, and is unknown: {problem.args[0]}", problem.fix)
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
    return {
        **_object(namespace, name),
        "spec": {"nodeName": f"the node of {name}", "containers": [{"name": "its first"}]},
        "status": {"podIP": address, "containerStatuses": []},
    }


def _object(namespace: str, name: str) -> Object:
    return {"metadata": {"namespace": namespace, "name": name, "uid": "(its own)", "labels": {}}}


class Rehearsal(Lab):
    """A lab that tells what it is asked for, and does nothing."""

    def __init__(self, experiment: str, settings: Settings, say: Say) -> None:
        super().__init__(
            cluster=cast(Any, _Nothing()), writer=cast(Any, _Voice(experiment)), injector=cast(Any, _Nothing()),
            console=cast(Any, _Nothing()), images={}, ray_version=settings.versions.ray, ledger=None,
        )  # fmt: skip
        self.expect = cast(Any, self._expect)
        self._settings = settings
        self._say = say
        self._groups = itertools.count(1)
        self._told_of_turn = False
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
        if not self._told_of_turn:
            self.tell("wait", "until no other experiment is in the way")
            self._told_of_turn = True

    def inject(self, *faults: Fault) -> AbstractContextManager[Injected]:
        self.take_turn()
        return self._rehearsed(faults)

    @contextmanager
    def _rehearsed(self, faults: Sequence[Fault]) -> Iterator[Injected]:
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

    def _require_allowed(self, fault: Fault) -> None:
        if self._settings.given is None or fault.name in self._settings.allow_faults:
            return
        if fault.scope is not Scope.NAMESPACE or not fault.target.get("namespace", "").startswith(PREFIX):
            raise NotAllowed(
                f"{fault.name} reaches beyond our own namespaces", fix=f"allow it with --allow-fault {fault.name}"
            )

    # --- workloads --------------------------------------------------------------------------------------------------

    def namespace(self, arm: str) -> str:
        name = self.namespace_name(arm)
        if name not in self._namespaces:
            self.tell("do", f"create namespace {name}")
            self._namespaces.append(name)
        return name

    def ray_cluster(
        self, arm: str, *, ft: bool, redis_address: str = redis.SENTINEL_ADDRESS, workers: int = 2,
        head_env: Mapping[str, str] | None = None, worker_env: Mapping[str, str] | None = None, storage: str = "",
        spec: Mapping[str, object] | None = None,
    ) -> RayClusterHandle:  # fmt: skip
        if ft and redis_address == redis.SENTINEL_ADDRESS and self._settings.given:
            raise FeatureMissing(f"{arm} needs the highly available Redis of a stack of ours")
        handle = _Cluster(self.namespace(arm), "ray", ft, workers, arm)
        having = f"GCS fault tolerance in {redis_address}" if ft else "no fault tolerance"
        settings = _given(head_env=head_env, worker_env=worker_env, storage=storage, spec=spec)
        self.tell("do", f"create RayCluster {_all([handle])}: a head, {workers} workers, {having}{settings}")
        return handle

    def single_redis(self, arm: str) -> str:
        namespace = self.namespace(arm)
        self.tell("do", f"create a single Redis without persistence in {namespace}")
        return f"redis-single.{namespace}"

    def rayjob(
        self, arm: str, *, exit_code: int = 0, stubborn: bool = False, backoff_limit: int = 0, ft: bool = False,
        spec: Mapping[str, object] | None = None,
    ) -> RayJobHandle:  # fmt: skip
        if self._settings.given:
            raise FeatureMissing("RayJobs are counted in a ledger that all nodes share, which only a stack of ours has")
        job = RayJobHandle(self.namespace(arm), "job", ft, "")
        settings = _given(backoffLimit=backoff_limit, spec=spec) + (", with fault tolerance" if ft else "")
        ends = f"exits with {exit_code} when it is let go" + (", and takes no other hint" if stubborn else "")
        self.tell("do", f"create RayJob {_job(job)}, whose entrypoint {ends}{settings}")
        return job

    def release(self, job: RayJobHandle) -> None:
        self.tell("do", f"let the entrypoint of RayJob {_job(job)} end")

    def change(self, job: RayJobHandle, **spec: object) -> None:
        self.tell("do", f"change RayJob {_job(job)}{_given(**spec)}")

    def delete(self, job: RayJobHandle) -> None:
        self.tell("do", f"delete RayJob {_job(job)}")

    def amend(self, cluster: RayClusterHandle, spec: Mapping[str, object]) -> None:
        self.tell("do", f"change RayCluster {_all([cluster])}{_given(**spec)}")

    def witness(self, namespace: str, name: str = "witness", *, may_reach_redis: bool = True) -> Object:
        reach = "may" if may_reach_redis else "may not"
        self.tell("do", f"create the pod {name} in {namespace}, which {reach} reach Redis")
        return self._pod(namespace, name)

    def ready(self, *clusters: RayClusterHandle) -> None:
        self.tell("wait", f"until {_all(clusters)} is Ready", f"{ray.READY_SECONDS:g} s at most")

    def start_actor(self, cluster: RayClusterHandle, name: str = "counter", *, at: Object | None = None) -> None:
        where = f"on {at['metadata']['name']}" if at else "on a worker"
        self.tell("do", f"start the actor {name} of {_all([cluster])} {where}")

    def start_chatter(self, *clusters: RayClusterHandle) -> None:
        self.tell("do", f"start an actor on each worker of {_all(clusters)} that writes to the GCS every second")

    def submit(self, job: RayJobHandle, submission_id: str) -> None:
        self.tell("do", f"submit {submission_id} to the cluster of RayJob {_job(job)}, past the operator")

    def submit_driver(self, cluster: RayClusterHandle, submission_id: str) -> None:
        self.tell("do", f"submit the job {submission_id} to {_all([cluster])}: a driver on the head that owns an actor")

    def hold_connection(self, pod: Object, address: str, name: str) -> HeldConnection:
        self.tell("do", f"open a connection from {pod['metadata']['name']} to {address} and watch it ({name})")
        self.tell("undo", "close it when the experiment ends")
        return cast(HeldConnection, _Nothing())

    # --- looking ----------------------------------------------------------------------------------------------------

    def functional(self, cluster: RayClusterHandle, *actors: str, seconds: float = 10.0) -> bool:
        self.tell("look", f"use {_all([cluster])} once{_with(actors)}")
        return True

    def functional_again(
        self, actors: Mapping[RayClusterHandle, Sequence[str]], *, deadline: float = FUNCTIONAL_SECONDS
    ) -> None:
        for cluster, names in actors.items():
            self.tell("wait", f"use {_all([cluster])}{_with(names)} until it works", f"{deadline:g} s at most")

    def steady(self, actors: Mapping[RayClusterHandle, Sequence[str]]) -> None:
        self.take_turn()
        self.tell("look", f"that {_all(list(actors))} and what they rely on are steady")

    def observe(self, seconds: float, *, why: str) -> None:
        self.tell("wait", f"{seconds:g} s: {why}")

    def head_restarts(self, cluster: RayClusterHandle, times: int, *, deadline: float) -> None:
        self.tell("wait", f"until the head of {_all([cluster])} was restarted {times} times", f"{deadline:g} s at most")

    def pods_made(self, *clusters: RayClusterHandle) -> None:
        self.tell("wait", f"until the pods of {_all(clusters)} are made", f"{ray.READY_SECONDS:g} s at most")

    def record_metadata(self, *clusters: RayClusterHandle, make: bool = False) -> None:
        if make:
            self.tell("do", f"put something to remember into {_all(clusters)}")
        self.tell("look", f"what the GCS of {_all(clusters)} remembers")

    def record_job(self, cluster: RayClusterHandle, submission_id: str) -> dict[str, Any]:
        self.tell("look", f"what Ray's record says of job {submission_id} in {_all([cluster])}")
        return {"ok": True}

    def job_ends(self, cluster: RayClusterHandle, submission_id: str, *, deadline: float = 60) -> None:
        self.tell("wait", f"until job {submission_id} in {_all([cluster])} has ended", f"{deadline:g} s at most")

    def record_submissions(self, job: RayJobHandle) -> None:
        self.tell("look", f"which submissions Ray knows of RayJob {_job(job)}")

    def record_ledger(self, job: RayJobHandle) -> None:
        self.tell("look", f"how often RayJob {_job(job)} was executed, by its ledger")

    def record_writes(self, job: RayJobHandle) -> None:
        self.tell("look", f"when the entrypoint of RayJob {_job(job)} wrote")

    def record_keys(self, *clusters: RayClusterHandle) -> None:
        self.tell("look", f"which keys {_all(clusters)} has in Redis")

    def remove_keys(self, cluster: RayClusterHandle) -> None:
        self.tell("do", f"remove what the deleted {_all([cluster])} left in Redis")

    def cluster_goes(self, cluster: RayClusterHandle, *, since: int, deadline: float) -> None:
        self.tell("wait", f"for the end of RayCluster {_all([cluster])}", f"{deadline:g} s at most")

    def knock(
        self, name: str, pod: Object, address: str, command: Sequence[str], *, port: int = 6379, log_in: bool = False
    ) -> bool:
        how = "with the password" if log_in else "without a password"
        self.tell("do", f"from pod {pod['metadata']['name']}, {how}, to {address} port {port}: {' '.join(command)}")
        return True

    def let_in(self, pod: Object, address: str) -> None:
        self.tell("wait", f"until the network policy lets {pod['metadata']['name']} through to {address}")

    def record_redis(self) -> None:
        self.tell("wait", "until Redis and its Sentinels agree, and look at what they say")

    def seen(self, predicate: Callable[[Entry], bool], *, what: str, deadline: float, since: int) -> Entry:
        self.tell("wait", f"for {what}", f"{deadline:g} s at most")
        return {"n": 0, "t": 0.0}

    def now(self) -> int:
        return 0

    def rayjob_reaches(self, job: RayJobHandle, *states: str, deadline: float, since: int = 0) -> Entry:
        names = " or ".join(state or "New" for state in states)
        return self._seen(f"RayJob {_job(job)} to be {names}", deadline)

    def rayjob_gone(self, job: RayJobHandle, *, deadline: float) -> None:
        self._seen(f"the end of RayJob {_job(job)}", deadline)

    def ray_job_runs(self, *jobs: RayJobHandle, deadline: float = RUNNING_SECONDS) -> None:
        for job in jobs:
            self._seen(f"RayJob {_job(job)} to say that its entrypoint runs", deadline)

    def submitter_job(self, job: RayJobHandle, *, since: int) -> Object:
        self._seen(f"the submitter Job of RayJob {_job(job)}", ray.READY_SECONDS)
        return _object(job.namespace, "job")

    def submitter_finished(self, job: RayJobHandle) -> Entry:
        return self._seen(f"the submitter Job of RayJob {_job(job)} to be Complete or Failed", RUNNING_SECONDS)

    def write_refused(self, job: RayJobHandle, resource: str, *, since: int = 0) -> Entry:
        return self._seen(f"a refused write of {resource} in {job.namespace}, in the audit log", 60)

    def ray_cluster_made(self, job: RayJobHandle) -> Object:
        self._seen(f"the Ray cluster of RayJob {_job(job)}", ray.READY_SECONDS)
        return self.raycluster(self.cluster_of(job))

    def operator_leads_again(self, since: int) -> Entry:
        return self._seen("a new operator to hold the lease", LEASE_SECONDS)

    def operator_settled(self) -> None:
        self._seen("one operator, which leads", LEASE_SECONDS)

    def _seen(self, what: str, deadline: float) -> Entry:
        return self.seen(lambda entry: True, what=what, deadline=deadline, since=0)

    # --- targets ----------------------------------------------------------------------------------------------------

    def operator(self) -> Object:
        return self._pod(kuberay.NAMESPACE, "the operator")

    def leader(self) -> Object:
        return self._pod(kuberay.NAMESPACE, "the operator that leads")

    def head(self, cluster: RayClusterHandle) -> Object:
        pod = self._pod(cluster.namespace, f"the head of {cluster.name}")
        pod["metadata"]["labels"]["ray.io/cluster"] = cluster.name
        return pod

    def delete_worker_of(self, cluster: RayClusterHandle, actor: str) -> DeletePod:
        return DeletePod.of(self._pod(cluster.namespace, f"the worker that {actor} lives on"))

    def cluster_of(self, job: RayJobHandle) -> RayClusterHandle:
        return _Cluster(job.namespace, f"the cluster of {job.name}", job.ft, workers=0)

    def raycluster(self, cluster: RayClusterHandle) -> Object:
        return _object(cluster.namespace, cluster.name)

    def delete_cluster(self, cluster: RayClusterHandle) -> DeleteCluster:
        return DeleteCluster.of(self.raycluster(cluster))

    def rayjob_object(self, job: RayJobHandle) -> Object:
        return _object(job.namespace, job.name)

    def submission_of(self, job: RayJobHandle) -> str:
        return f"the submission of {_job(job)}"

    def submitter_pod(self, job: RayJobHandle) -> Object:
        return self._pod(job.namespace, f"the submitter of {job.name}")

    def redis_pods(self) -> list[Object]:
        return [self._pod(redis.NAMESPACE, member) for member in redis.MEMBERS]

    def redis_primary(self) -> str:
        return "Redis' primary"

    def redis_replica(self) -> str:
        return "a replica of Redis"

    def redis_primary_pod(self) -> Object:
        return self._pod(redis.NAMESPACE, "Redis' primary")

    def redis_single_pod(self, namespace: str) -> Object:
        return self._pod(namespace, "the single Redis")

    # --- plumbing ---------------------------------------------------------------------------------------------------

    def _pod(self, namespace: str, name: str) -> Object:
        owned = {owner: address for address, owner in self._addresses.items()}
        address = owned.get(name) or f"192.0.2.{len(owned) + 1}"
        self._addresses[address] = name
        return _pod(namespace, name, address)

    def _expect(self, claim: str, arm: str, *checks: Check, control: tuple[str, Check] | None = None) -> None:
        against = f"; control: {control[0]} must come out the other way" if control else ""
        self.tell("judge", f"{claim} ({arm}) by {', '.join(check.name for check in checks)}{against}")


def undo_text(fault: type[Fault]) -> str:
    """What undoes a fault, in its own words."""
    return _RESTORED if fault.undo is Fault.undo else _first_sentence(fault.undo)


def _first_sentence(function: Callable[..., object]) -> str:
    lines = (inspect.getdoc(function) or "").splitlines()
    return lines[0] if lines else "(not told)"


def _job(job: RayJobHandle) -> str:
    return f"{job.namespace}/{job.name}"


def _given(**settings: object) -> str:
    """Settings that say something, for a reader."""
    return "".join(f", {name} {value}" for name, value in settings.items() if value not in (None, "", {}))


def _all(clusters: Sequence[RayClusterHandle]) -> str:
    return " and ".join(f"{each.namespace}/{each.name}" for each in clusters)


def _with(actors: Sequence[str]) -> str:
    return f" with {', '.join(actors)}" if actors else ""
