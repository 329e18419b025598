"""What an experiment works with: workloads to start, probes to ask, and waits; everything asked is in the history.

Experiments stay free of mechanics and of judgement: the lab drives and looks, checks judge.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from chaos.checks import facts
from chaos.console import Console
from chaos.errors import ChaosError, FeatureMissing, NoSteadyState, NotReached, StackError
from chaos.experiment import Expect
from chaos.faults.base import Fault
from chaos.faults.delete_cluster import DeleteCluster
from chaos.faults.delete_pod import DeletePod
from chaos.faults.inject import Injected, Injector
from chaos.faults.kill_process import KillProcess
from chaos.faults.redis_targets import primary_and_replicas
from chaos.faults.replace_operator import ReplaceOperator
from chaos.faults.undo import heal
from chaos.history.entry import Entry, What
from chaos.history.reader import History
from chaos.history.store import HistoryWriter
from chaos.own.file import Kind, Own
from chaos.signals import Stopped, is_stoppable, pause, shielded, stoppable
from chaos.stack import keys, kuberay, leftovers, ray, redis
from chaos.stack.cluster import Cluster, Object
from chaos.stack.leftovers import Leftover
from chaos.stack.ours import namespace_name
from chaos.stack.ray import RayClusterHandle, RayJobHandle
from chaos.turns import Turn
from chaos.waiting import until
from chaos.workloads import probes, redis_knock
from chaos.workloads.connection import HeldConnection
from chaos.workloads.records import job_record, submission_ids, submit
from chaos.workloads.service import ServiceClient
from chaos.workloads.watch import Watch

# Head pod gone (≤ 5 s grace), new one scheduled and started (≤ 5 s by the API server's own objective), readiness delay of
# 10 s and a period of 5 s, Ray's start (≤ 20 s on two busy cores), and one probe of 15 s; doubled for a noisy machine.
FUNCTIONAL_SECONDS = 120.0
# A probe right after recovery can be answered by what is about to fall: look twice, this far apart.
APART_SECONDS = 20.0
# A raylet that lost its GCS notices by its self check, every 60 s, and ends some seconds later.
SETTLE_SECONDS = 75.0
# A killed operator's lease runs out after 15 s and is retried every 2 s; pod start and cache sync come on top.
LEASE_SECONDS = 60.0
# The autoscaler looks every 5 s, a worker was Ready 19 s after it was asked for; threefold for a noisy machine.
SCALE_UP_SECONDS = 75.0
# Between two looks at what no watch tells of.
_LOOK_EVERY = 0.5
# For Ray's objects and their namespace, half each. A clean-up whose Redis does not answer takes longer, and is named.
REMOVAL_SECONDS = 120.0
# A cluster gets Ready, its submitter submits, and the operator asks for the job's status every 3 s.
RUNNING_SECONDS = ray.READY_SECONDS + 60.0
# The finalizer, the Services and then the pods, each a reconcile of its own at a tenth of a CPU, 2 s apart at worst.
_MADE_SECONDS = 60.0
# A raylet has 30 s to register before its head gives up; one that takes longer than this will not be sped up by waiting.
_HEAD_SECONDS = 60.0
# The CNI takes a new pod into its sets at the pod's event: a second, and several on a busy machine.
_POLICY_SECONDS = 20.0
# An entrypoint that nobody lets go ends by itself, so that nothing is left running.
_LONGEST_JOB_SECONDS = 900
_ENTRYPOINT = "python /chaos/ledger_job.py"
# Of a RayJob that an experiment needs the submitter of: a Job with a pod, whatever its manifest says.
BY_SUBMITTER = {"submissionMode": "K8sJobMode"}
# States of a submitted job that it leaves by itself.
_ALIVE = ("PENDING", "RUNNING")

_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"

T = TypeVar("T")
R = TypeVar("R")


class Lab:
    """One experiment's hands and eyes. Namespaces that it makes are removed by `close`."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        writer: HistoryWriter,
        injector: Injector,
        console: Console,
        images: Mapping[str, str],
        ray_version: str,
        ledger: Path | None,
        other_operator: Callable[[str, bool], ReplaceOperator],
        turn: Turn | None = None,
        own: Mapping[Kind, Own] | None = None,
    ) -> None:
        self.cluster = cluster
        self.writer = writer
        self.expect = Expect(writer)
        self.injector = injector
        self._turn = turn
        self._other_operator = other_operator
        self._console = console
        self._images = images  # role (ray, redis) → official name
        self._ray_version = ray_version
        # The run's folder that all nodes share; None on a cluster that isn't ours, which also hasn't got our Redis.
        self._ledger = ledger
        self._own = own or {}  # what the user gave in the place of our manifests
        self.holder: str | None = None  # of the operator's lease, when last asked
        self._namespaces: list[str] = []
        self._heads: list[RayClusterHandle] = []  # that are starting
        self._watches: list[Watch] = []

    # --- turn and faults --------------------------------------------------------------------------------------------

    def take_turn(self) -> None:
        """Wait until no other experiment is in the way; the turn lasts until the experiment ends."""
        if self._turn is not None:
            self._turn.take(partial(self.step, "its turn"))

    def disturbs_no_more(self) -> None:
        """Let others begin: what the experiment disturbed works again, and it only relies on that from now on."""
        if self._turn is not None:
            self._turn.disturbs_no_more()

    def _take_place(self) -> None:
        if self._turn is not None:
            self._turn.take_place(partial(self.step, "its turn, and its place"))

    def _leave_place(self) -> None:
        self._heads.clear()
        if self._turn is not None:
            self._turn.leave_place()

    def _room_for_a_head(self, namespace: str) -> None:
        """Wait while as many heads start as there are places. One that fails, or takes too long, stands in no one's way."""
        if self._turn is None:
            return
        places = self._turn.places

        def room() -> bool:
            self._heads = [each for each in self._heads if not self._has_begun(each)]
            return len(self._heads) < places

        if not room():
            with suppress(NotReached), self.step(f"room for a head in {namespace}", deadline=_HEAD_SECONDS):
                until(room, what="room for a head", deadline=_HEAD_SECONDS, every=1)

    def _has_begun(self, cluster: RayClusterHandle) -> bool:
        head = cluster.head_pod(self.cluster)
        return head is not None and (ray.is_ready(head) or restarts(head) > 0)

    @contextmanager
    def inject(self, *faults: Fault) -> Iterator[Injected]:
        """Inject the faults together, see `Injector`.

        What Ray feels is done in a place, and so is its undo: what is killed starts anew, which takes a machine as long as a
        first start, and how long Ray takes to work again is measured.
        """
        felt = [fault for fault in faults if _is_felt_by_ray(fault)]
        if felt:
            self._take_place()
        with self.injector(*faults) as injected:
            yield injected
            if any(map(_is_undone, felt)):
                self._take_place()

    def hold(self, fault: Injected, seconds: float) -> None:
        """Keep the fault in force for a declared time or longer: the place is left, and taken again for the undo."""
        self._leave_place()
        fault.hold(seconds)

    # --- workloads --------------------------------------------------------------------------------------------------

    def ray_cluster(
        self, arm: str, *, ft: bool, annotated: bool = False, redis_address: str = redis.SENTINEL_ADDRESS, workers: int = 2,
        most_workers: int = 0, head_env: ray.Env | None = None, worker_env: ray.Env | None = None,
        storage: str = "", spec: Mapping[str, object] | None = None,
    ) -> RayClusterHandle:  # fmt: skip
        """Create a Ray cluster in a namespace of its own; `ready` waits for it.

        ``annotated`` asks for fault tolerance by annotation, as versions of KubeRay do that have no field for it. With
        ``most_workers`` its head has an autoscaler, which may make so many. A variable of an environment that is None is unset,
        also where a manifest of the user's sets it. ``storage`` is its external storage namespace, by default KubeRay's choice;
        ``spec`` is merged into its spec.
        """
        if ft and redis_address == redis.SENTINEL_ADDRESS and self._ledger is None:
            raise FeatureMissing(
                f"{arm} needs the highly available Redis of a stack of ours, which this cluster hasn't got"
            )
        self._take_place()
        namespace = self.namespace(arm)
        self._room_for_a_head(namespace)
        made = ray.create_ray_cluster(
            self.cluster, namespace, "ray", ft=ft, image=self._images["ray"], ray_version=self._ray_version,
            annotated=annotated, redis_address=redis_address, workers=workers, most_workers=most_workers,
            head_env=head_env, worker_env=worker_env,
            storage=storage, spec=spec, arm=arm, ledger=self._ledger is not None,
            own=self._own.get(Kind.RAYCLUSTER), note=self._note,
        )  # fmt: skip
        self._heads.append(made)
        return made

    def single_redis(self, arm: str) -> str:
        """Start a single Redis without persistence in the arm's namespace; its address."""
        return redis.ensure_single(self.cluster, self.namespace(arm), self._images["redis"])

    def sharded_redis(self, arm: str) -> str:
        """Start a Redis Cluster of two shards in the arm's namespace; its address."""
        return redis.ensure_sharded(self.cluster, self.namespace(arm), self._images["redis"])

    def rayjob(
        self, arm: str, *, exit_code: int = 0, stubborn: bool = False, steps: bool = False, checkpoint: bool = False,
        backoff_limit: int | None = None, ft: bool = False, workers: int = 0, spec: Mapping[str, object] | None = None,
    ) -> RayJobHandle:  # fmt: skip
        """Create a RayJob whose entrypoint keeps a ledger and works until `release` lets it end.

        A ``stubborn`` one writes all the time and goes on when it is told to stop. One with ``steps`` records its progress, and
        with a ``checkpoint`` goes on from it when it is run again. Its head does the work itself unless there are ``workers``.
        The manifest says how often it is tried again, unless ``backoff_limit`` does; ``spec`` is merged into its spec.
        """
        seen_by_pods = self._ledger_seen_by_pods(self.namespace_name(arm))  # or nothing is made
        self._take_place()
        namespace = self.namespace(arm)
        entrypoint = [_ENTRYPOINT, f"--seconds={_LONGEST_JOB_SECONDS}", f"--exit-code={exit_code}"]
        options = {"--stubborn": stubborn, "--steps": steps, f"--checkpoint={seen_by_pods}.checkpoint": checkpoint}
        entrypoint += [option for option, asked in options.items() if asked]
        return ray.create_rayjob(
            self.cluster, namespace, "job", ft=ft, image=self._images["ray"], ray_version=self._ray_version,
            entrypoint=" ".join([*entrypoint, f"--release={seen_by_pods}.release"]), ledger=f"{seen_by_pods}.jsonl",
            workers=workers, own=self._own.get(Kind.RAYJOB), note=self._note,
            spec={**({} if backoff_limit is None else {"backoffLimit": backoff_limit}), **(spec or {})},
        )  # fmt: skip

    def release(self, job: RayJobHandle) -> None:
        """Let the job's entrypoint end, now and in every later execution."""
        (self._ledger_folder() / f"{job.namespace}.release").touch()
        self._note(f"job {job.namespace}/{job.name} was let go")

    def change(self, job: RayJobHandle, **spec: object) -> None:
        """Replace fields of the RayJob's spec."""
        self.cluster.patch("rayjobs", job.namespace, job.name, {"spec": spec})

    def delete(self, job: RayJobHandle) -> None:
        """Ask for the RayJob's deletion, and wait for nothing."""
        self.cluster.delete("rayjobs", job.namespace, job.name, uid=self.rayjob_object(job)["metadata"]["uid"])

    def _ledger_folder(self) -> Path:
        if self._ledger is None:
            raise FeatureMissing(
                "the ledger, and what else is kept outside of Ray, is on nodes of a stack of ours only"
            )
        return self._ledger

    def _ledger_seen_by_pods(self, namespace: str) -> str:
        """What the names of a namespace's files in the ledger's folder begin with, as the pods see them."""
        return f"/ledger/{self._ledger_folder().name}/{namespace}"

    def namespace_name(self, arm: str) -> str:
        return namespace_name(self.writer.experiment or "test", arm)

    def namespace(self, arm: str) -> str:
        """The namespace of one arm of the current experiment, made when missing; a dead run's is removed first."""
        name = self.namespace_name(arm)
        if name not in self._namespaces:
            if stays := ray.delete_namespace(self.cluster, name, REMOVAL_SECONDS):
                raise NoSteadyState(f"what an earlier run left in {name} does not go: {', '.join(map(str, stays))}")
            password = redis.new_password() if self._ledger is None else ""
            for spelling in redis.spellings(password) if password else ():
                self.writer.redact.add(spelling)
            ray.ensure_namespace(self.cluster, name, password=password)
            self._namespaces.append(name)
        return name

    def witness(self, namespace: str, name: str = "witness", *, may_reach_redis: bool = True) -> Object:
        """A pod that may reach Redis, or may not, and that no fault is about; Ready."""
        document: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {redis.CLIENT_LABEL: "true"} if may_reach_redis else {}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "witness",
                        "image": self._images["ray"],
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["sleep", "infinity"],
                        "env": [
                            {
                                "name": "REDIS_PASSWORD",
                                "valueFrom": {"secretKeyRef": {"name": redis.SECRET, "key": "password"}},
                            }
                        ],
                        "volumeMounts": [{"name": "workloads", "mountPath": "/chaos", "readOnly": True}],
                    }
                ],
                "volumes": [{"name": "workloads", "configMap": {"name": "chaos-workloads"}}],
            },
        }
        since = len(self.writer.entries())
        made = self.cluster.create("pods", namespace, document)
        entry = self.seen(
            lambda e: e.get("uid") == made["metadata"]["uid"] and ray.is_ready(e["object"]),
            what=f"the pod {name} Ready", deadline=60, since=since,
        )  # fmt: skip
        found: Object = entry["object"]
        return found

    def amend(self, cluster: RayClusterHandle, spec: Mapping[str, object]) -> None:
        """Merge this into the RayCluster's spec; the operator heeds it in what it makes from now on."""
        self.cluster.patch("rayclusters", cluster.namespace, cluster.name, {"spec": spec})

    def head_restarts(self, cluster: RayClusterHandle, times: int, *, deadline: float) -> None:
        """Wait until the head was restarted so often. One that never is is a result, not an error."""

        def restarted(entry: Entry) -> bool:
            if entry["what"] != What.OBJECT or entry["resource"] != "pods" or entry["namespace"] != cluster.namespace:
                return False
            labels = entry["object"]["metadata"].get("labels") or {}
            return labels.get("ray.io/node-type") == ray.HEAD and restarts(entry["object"]) >= times

        with suppress(NotReached):
            what = f"{times} restarts of the head in {cluster.namespace}"
            self.seen(restarted, what=what, deadline=deadline, since=0)

    def ready(self, *clusters: RayClusterHandle) -> None:
        """Wait until all pods are Ready and the job API answers through each head."""
        with self.step("Ray clusters Ready", deadline=ray.READY_SECONDS):
            self._each(clusters, lambda each: each.wait_ready(self.cluster))
        self._heads.clear()

    def pods_made(self, *clusters: RayClusterHandle) -> None:
        """Wait until the operator has made all pods; whether they ever run is another matter."""
        for each in clusters:
            for node_type, count in ((ray.HEAD, 1), (ray.WORKER, each.workers)):
                self._made(each, node_type, count)

    def _made(self, cluster: RayClusterHandle, node_type: str, count: int) -> None:
        uids: set[str] = set()

        def last(entry: Entry) -> bool:
            if entry["what"] == What.OBJECT and entry["resource"] == "pods":
                labels = entry["object"]["metadata"].get("labels") or {}
                of = (entry["namespace"], labels.get("ray.io/cluster"), labels.get("ray.io/node-type"))
                if of == (cluster.namespace, cluster.name, node_type):
                    uids.add(entry["uid"])
            return len(uids) >= count

        self.seen(last, what=f"{count} {node_type} pods in {cluster.namespace}", deadline=_MADE_SECONDS, since=0)

    def start_actor(
        self, cluster: RayClusterHandle, name: str = "counter", *, at: Object | None = None, max_restarts: int = -1,
        keeps_state: bool = False,
    ) -> None:  # fmt: skip
        """Start a detached actor that counts, by default on a worker.

        Ray starts it again for ever unless ``max_restarts`` is 0. One that ``keeps_state`` has its count in a file that all
        nodes share, the others in memory alone.
        """
        state = f"{self._ledger_seen_by_pods(cluster.namespace)}-{name}" if keeps_state else ""
        probes.start_counter(self.cluster, cluster, name=name, at=at, max_restarts=max_restarts, state=state)

    def start_chatter(self, *clusters: RayClusterHandle) -> None:
        """Start an actor on each worker that writes to the GCS every second, so that its loss is noticed."""
        self._each(clusters, lambda each: probes.start_chatter(self.cluster, each))

    def submit_driver(self, cluster: RayClusterHandle, submission_id: str) -> None:
        """Submit a driver that owns an actor, as a Ray job on the head; returns when the record says RUNNING."""
        probes.submit_driver(self.cluster, cluster, submission_id=submission_id, name=f"owned-by-{submission_id}")
        until(
            lambda: self.record_job(cluster, submission_id).get("status") == "RUNNING",
            what=f"job {submission_id} RUNNING", deadline=60, every=_LOOK_EVERY, error=NoSteadyState,
        )  # fmt: skip

    def hold_connection(self, pod: Object, address: str, name: str) -> HeldConnection:
        """Keep one connection from the pod to a Redis server open and watched, until the experiment ends."""
        connection = HeldConnection(self.cluster, self.writer, pod, address, name)
        self._watches.append(connection)
        connection.start()
        return connection

    def call_service(self, *clusters: RayClusterHandle, start_up: float) -> None:
        """Call an actor of each cluster twice a second, from a pod of its own, and make the actor anew when it is gone.

        The actor takes ``start_up`` seconds to begin. Returns when each has answered; every answer is recorded until the
        experiment ends.
        """

        def begin(cluster: RayClusterHandle) -> None:
            pod = self.witness(cluster.namespace, "client", may_reach_redis=False)
            client = ServiceClient(self.cluster, self.writer, pod, cluster, start_up=start_up)
            self._watches.append(client)
            client.start()

        with self.step("services answer", deadline=start_up):
            self._each(clusters, begin)

    def service_answers(self, *clusters: RayClusterHandle, since: int, deadline: float) -> None:
        """Wait until each cluster's service has answered its client. One that never does is a result."""
        for each in clusters:
            with suppress(NotReached):
                self.seen(
                    partial(_answered, cluster_target(each)),
                    what=f"an answer of the service in {each.namespace}", deadline=deadline, since=since,
                )  # fmt: skip

    def ask_for_workers(self, cluster: RayClusterHandle, count: int) -> None:
        """Ask the autoscaler for so many workers in all, as a driver does; this replaces what was asked for before."""
        self._probe(
            "workers-asked-for", {**cluster_target(cluster), "workers": count},
            lambda: probes.ask_for_workers(self.cluster, cluster, count),
        )  # fmt: skip

    def workers_join(self, cluster: RayClusterHandle, count: int, *, deadline: float = SCALE_UP_SECONDS) -> None:
        """Wait until so many workers are Ready, and look whom Ray knows. Those that never come are a result."""
        with self.step(f"{count} workers in {cluster.namespace}", deadline=deadline), suppress(NotReached):
            until(
                lambda: sum(map(ray.is_ready, cluster.worker_pods(self.cluster))) >= count,
                what=f"{count} workers in {cluster.namespace}", deadline=deadline, every=_LOOK_EVERY,
            )  # fmt: skip
        self.functional_again({cluster: []})

    # --- looking ----------------------------------------------------------------------------------------------------

    def functional(self, cluster: RayClusterHandle, *actors: str, seconds: float = 10.0) -> bool:
        """Use the cluster once, as a user would, and record the answer."""
        answer = self._probe(
            "functional", cluster_target(cluster),
            lambda: probes.functional(self.cluster, cluster, actors=actors, seconds=seconds),
        )  # fmt: skip
        return bool(answer["ok"])

    def functional_again(
        self, actors: Mapping[RayClusterHandle, Sequence[str]], *, deadline: float = FUNCTIONAL_SECONDS
    ) -> list[RayClusterHandle]:
        """Probe each cluster until it works, all side by side. One that never does is a result, and is returned."""
        self._take_place()
        silent = self._silent(actors, deadline)
        self._leave_place()
        return silent

    def _silent(self, actors: Mapping[RayClusterHandle, Sequence[str]], deadline: float) -> list[RayClusterHandle]:
        """Those of them that did not come to work within the deadline."""
        with self.step("functional again", deadline=deadline):
            works = self._each(
                list(actors),
                lambda each: self._until_or_record(lambda: self.functional(each, *actors[each]), deadline),
            )
        return [each for each, does in zip(actors, works, strict=True) if not does]

    def steady(self, actors: Mapping[RayClusterHandle, Sequence[str]]) -> None:
        """The baseline: names resolve, Redis agrees, heads are fresh and everything works. Raises NoSteadyState.

        The place is kept for the fault that follows: what was seen must still be so then.
        """
        self._take_place()
        if self._turn is not None:
            self._turn.prepared()
        with self.step("steady state"):
            if self._ledger is not None:
                self.cluster.wait_rolled_out("deployments", "kube-system", "coredns", 30)
                redis.wait_agreed(self.cluster)
            for each in actors:
                head = each.head_pod(self.cluster)
                if head is None or restarts(head):
                    raise NoSteadyState(f"the head of {each.namespace} is not fresh: a restart now would meet back-off")
            for each in self._silent(actors, FUNCTIONAL_SECONDS):
                raise NoSteadyState(f"the cluster in {each.namespace} does not work before any fault")
        self.phase("steady")

    def observe(self, seconds: float, *, why: str) -> None:
        """A declared window in which nothing is done but to watch; it is taken off when overhead is measured."""
        self._leave_place()
        self.phase("observe", seconds=seconds, why=why)
        with self.step(why, deadline=seconds):
            pause(seconds)

    def settle(self, actors: Mapping[RayClusterHandle, Sequence[str]]) -> None:
        """Watch until every raylet has checked its head, and probe each cluster once more.

        The time counts as the checks count it: from the moment in which the cluster was functional again and its head
        Ready, after the last injection. A head that begins anew meanwhile begins the count anew, once.
        """
        for _ in range(2):
            left = self._left_to_settle(actors)
            if left <= 0:
                break
            self.observe(left, why="until every raylet has checked its head")
            self.functional_again(actors)
        self.look_twice(actors)

    def look_twice(self, actors: Mapping[RayClusterHandle, Sequence[str]]) -> None:
        """Probe each cluster once more, apart from its first success after the last injection: it may have been its last.

        Counted as `functional_twice` counts it. What fails meanwhile begins the count anew, once.
        """
        for _ in range(2):
            if self._worked_twice(actors):
                return
            self.observe(APART_SECONDS, why="a second look, apart from the first")
            self.functional_again(actors)

    def _worked_twice(self, clusters: Iterable[RayClusterHandle]) -> bool:
        """Whether each has, or does not work at all."""
        view = self._last_injection()
        since = max(map(facts.ended_at, facts.applied(view)))
        stretches = [facts.functional_stretch(view, each.namespace, each.name, since) for each in clusters]
        return all(facts.began(stretch[-1]) - stretch[0].t >= APART_SECONDS for stretch in stretches if stretch)

    def _last_injection(self) -> History:
        history = History(self.writer.entries()).experiment(str(self.writer.experiment))
        return history.window(facts.applied(history)[-1].steps["apply"]["group"])

    def _left_to_settle(self, clusters: Iterable[RayClusterHandle]) -> float:
        """Seconds until the last of them has settled."""
        view = self._last_injection()
        since, now = facts.applied_at(facts.applied(view)[0]), self.writer.now()
        back = [facts.back_at(view, each.namespace, each.name, since) for each in clusters]
        return max(SETTLE_SECONDS if at is None else at + SETTLE_SECONDS - now for at in back)

    def record_metadata(self, *clusters: RayClusterHandle, make: bool = False) -> None:
        """What each GCS remembers of its cluster; with ``make`` after something to remember was put there."""
        self._each(
            clusters,
            lambda each: self._probe(
                "metadata", cluster_target(each), lambda: probes.metadata(self.cluster, each, make=make)
            ),
        )

    def record_job(self, cluster: RayClusterHandle, submission_id: str) -> dict[str, Any]:
        """Ray's record of a submitted job, and whether its driver is a process of the head."""
        target = {**cluster_target(cluster), "submission_id": submission_id}
        return self._probe("job", target, lambda: job_record(self.cluster, cluster, submission_id))

    def job_ends(self, cluster: RayClusterHandle, submission_id: str, *, deadline: float = 60) -> None:
        """Read a job's record until it isn't running any more; Ray takes its time to find out. What it was last is recorded."""
        with self.step(f"job {submission_id} ends", deadline=deadline):
            self._until_or_record(lambda: self.record_job(cluster, submission_id).get("status") not in _ALIVE, deadline)

    def submit(self, job: RayJobHandle, submission_id: str) -> None:
        """Submit an entrypoint to the RayJob's cluster past the operator; Ray's answer is recorded.

        It writes into the RayJob's ledger, once with the ID as a key that is taken once, and ends by itself. It is submitted
        once: a second try could meet the first.
        """
        handle = self.cluster_of(job)
        until(
            lambda: submission_ids(self.cluster, handle) is not None,
            what=f"an answer of Ray's job API in {job.namespace}", deadline=60, every=_LOOK_EVERY, error=NoSteadyState,
        )  # fmt: skip
        self._probe(
            "submission", {**job_target(job), "submission_id": submission_id},
            lambda: submit(self.cluster, handle, submission_id, f"{_ENTRYPOINT} --seconds=0 --keyed"),
        )  # fmt: skip

    def record_submissions(self, job: RayJobHandle) -> None:
        """The submission IDs that Ray knows in the RayJob's cluster."""
        handle = self.cluster_of(job)
        self._probe("submissions", job_target(job), lambda: {"ok": True, "ids": submission_ids(self.cluster, handle)})

    def record_ledger(self, job: RayJobHandle) -> None:
        """The executions by the ledger, its ``start`` lines, and what was written with a key, its ``keyed`` ones."""

        def read() -> dict[str, Any]:
            return {"ok": True, "lines": self._ledger_lines(job, "start"), "keyed": self._ledger_lines(job, "keyed")}

        self._probe("ledger", job_target(job), read)

    def record_steps(self, job: RayJobHandle) -> None:
        """The runs of the work by its steps: each with its execution, its first and its last step and when they were done."""
        self._probe("steps", job_target(job), lambda: {"ok": True, "runs": self._work_runs(job)})

    def work_goes_on(self, job: RayJobHandle, *, steps: int, run: int = 1, deadline: float) -> None:
        """Wait until so many steps of one run of the work are done, or of a later one. That a later one isn't is a result."""
        what = f"{steps} steps of the work in {job.namespace}, in run {run} of it"
        try:
            with self.step(what, deadline=deadline):
                until(
                    lambda: any(each["steps"] >= steps for each in self._work_runs(job)[run - 1 :]),
                    what=what, deadline=deadline, every=_LOOK_EVERY,
                )  # fmt: skip
        except NotReached:
            if run == 1:
                raise

    def _work_runs(self, job: RayJobHandle) -> list[dict[str, Any]]:
        runs: dict[str, dict[str, Any]] = {}
        for line in self._ledger_lines(job, "step"):
            began = {"execution": line["execution"], "first": line["step"], "began": line["time"], "steps": 0}
            run = runs.setdefault(line["run"], began)
            run |= {"last": line["step"], "ended": line["time"], "steps": run["steps"] + 1}
        return list(runs.values())

    def record_writes(self, job: RayJobHandle) -> None:
        """When a stubborn entrypoint wrote to the outside world, and when it was told to stop, by its own clock."""

        def read() -> dict[str, Any]:
            written, told = ([line["time"] for line in self._ledger_lines(job, e)] for e in ("write", "sigterm"))
            return {"ok": True, "writes": len(written), "last": max(written, default=None), "told_to_stop": told}

        self._probe("writes", job_target(job), read)

    def _ledger_lines(self, job: RayJobHandle, event: str) -> list[dict[str, Any]]:
        try:
            lines = (self._ledger_folder() / Path(job.ledger).name).read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def seen(self, predicate: Callable[[Entry], bool], *, what: str, deadline: float, since: int) -> Entry:
        """The first entry from number ``since`` on that is so; waits for it. Raises NotReached."""
        with self.step(what, deadline=deadline):
            return self.writer.wait_for(predicate, deadline=deadline, what=what, since=since)

    def now(self) -> int:
        """The number that the next entry will have at least."""
        return int(self.phase("mark")["n"])

    def rayjob_reaches(self, job: RayJobHandle, *states: str, deadline: float, since: int = 0) -> Entry:
        """Wait until the RayJob's jobDeploymentStatus is one of ``states``."""
        return self._rayjob_says(job, "jobDeploymentStatus", states, deadline, since)

    def rayjob_gone(self, job: RayJobHandle, *, deadline: float) -> None:
        """Wait until the RayJob has been deleted; one that never is, is a result."""

        def gone(entry: Entry) -> bool:
            about = entry["what"] == What.OBJECT and entry["resource"] == "rayjobs" and entry["change"] == "DELETED"
            return about and (entry["namespace"], entry["name"]) == (job.namespace, job.name)

        with suppress(NotReached):
            self.seen(gone, what=f"the end of RayJob {job.namespace}", deadline=deadline, since=0)

    def ray_job_runs(self, *jobs: RayJobHandle, deadline: float = RUNNING_SECONDS) -> None:
        """Wait until each RayJob's jobStatus says RUNNING: the entrypoint was started and the operator has seen it."""
        for job in jobs:
            self._rayjob_says(job, "jobStatus", ("RUNNING",), deadline, 0)

    def _rayjob_says(self, job: RayJobHandle, key: str, values: Sequence[str], deadline: float, since: int) -> Entry:
        def says(entry: Entry) -> bool:
            return (
                entry["what"] == What.OBJECT
                and entry["resource"] == "rayjobs"
                and (entry["namespace"], entry["name"]) == (job.namespace, job.name)
                and str(entry["object"].get("status", {}).get(key)) in values
            )

        what = f"{key} of RayJob {job.namespace} {' or '.join(values)}"
        entry = self.seen(says, what=what, deadline=deadline, since=since)
        if not {"New", "Initializing"}.intersection(values):
            self._leave_place()
        return entry

    def submitter_job(self, job: RayJobHandle, *, since: int) -> Object:
        """The RayJob's submitter Job, once it exists; it has the RayJob's name."""

        def created(entry: Entry) -> bool:
            return (
                entry["what"] == What.OBJECT
                and entry["resource"] == "jobs"
                and entry["change"] == "ADDED"
                and (entry["namespace"], entry["name"]) == (job.namespace, job.name)
            )

        entry = self.seen(
            created, what=f"the submitter Job in {job.namespace}", deadline=ray.READY_SECONDS, since=since
        )
        self._leave_place()
        found: Object = entry["object"]
        return found

    def cleanup_ends(self, cluster: RayClusterHandle, *, since: int, deadline: float) -> None:
        """Wait until the clean-up Job of a deleted cluster has ended. One that never does is a result."""

        def ended(entry: Entry) -> bool:
            if entry["what"] != What.OBJECT or entry["resource"] != "jobs" or entry["namespace"] != cluster.namespace:
                return False
            labels = entry["object"]["metadata"].get("labels") or {}
            return labels.get("ray.io/node-type") == "redis-cleanup" and _job_ended(entry["object"])

        with suppress(NotReached):
            self.seen(ended, what=f"the end of the clean-up in {cluster.namespace}", deadline=deadline, since=since)

    def submitter_finished(self, job: RayJobHandle) -> Entry:
        """Wait until the RayJob's submitter Job is Complete or Failed."""

        def finished(entry: Entry) -> bool:
            if entry["what"] != What.OBJECT or entry["resource"] != "jobs":
                return False
            return _job_ended(entry["object"]) and (entry["namespace"], entry["name"]) == (job.namespace, job.name)

        return self.seen(finished, what=f"the end of the submitter in {job.namespace}", deadline=60, since=0)

    def submitter_pod(self, job: RayJobHandle) -> Object:
        """The one pod that submits for the RayJob now and follows its log. Raises NoSteadyState."""
        pods = self.cluster.list("pods", job.namespace, f"job-name={job.name}")
        running = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and runs(pod)]
        if len(running) != 1:
            raise NoSteadyState(f"{len(running)} submitter pods of {job.namespace} are running, one expected")
        return running[0]

    def write_refused(self, job: RayJobHandle, resource: str, *, since: int = 0) -> Entry:
        """The audit log's word that a write of ``resource`` in the RayJob's namespace was refused."""

        def refused(entry: Entry) -> bool:
            about = entry["what"] == What.AUDIT and entry["resource"] == resource
            return about and entry["namespace"] == job.namespace and bool(entry["code"] == 403)

        return self.seen(refused, what=f"a refused write of {resource} in {job.namespace}", deadline=60, since=since)

    def ray_cluster_made(self, job: RayJobHandle) -> Object:
        """The RayJob's Ray cluster, once it exists; that of its first attempt."""

        def made(entry: Entry) -> bool:
            about = entry["what"] == What.OBJECT and entry["resource"] == "rayclusters" and entry["change"] == "ADDED"
            return about and bool(entry["namespace"] == job.namespace)

        found: Object = self.seen(made, what=f"a Ray cluster in {job.namespace}", deadline=60, since=0)["object"]
        return found

    def operator_leads_again(self, since: int) -> Entry:
        """Wait until a new operator process holds the lease, which it takes only when the old one has run out."""
        before = self.holder

        def leads(entry: Entry) -> bool:
            return (
                entry["what"] == What.OBJECT
                and entry["resource"] == "leases"
                and entry["name"] == kuberay.LEASE
                and entry["object"]["spec"].get("holderIdentity") not in (None, "", before)
            )

        entry = self.seen(leads, what="a new operator holds the lease", deadline=LEASE_SECONDS, since=since)
        self.holder = entry["object"]["spec"]["holderIdentity"]
        return entry

    def operator(self) -> Object:
        """The operator's pod; remembers who holds the lease, for `operator_leads_again`."""
        self.holder = kuberay.lease_holder(self.cluster)
        return kuberay.operator_pod(self.cluster)

    def other_operator(self, version: str, *, definitions: bool = True) -> ReplaceOperator:
        """The fault that puts another version of the operator in, with its definitions or on those that are there."""
        return self._other_operator(version, definitions)

    def operator_settled(self) -> None:
        """Wait until there is one operator and it leads, as other experiments rely on."""
        with self.step("one operator that leads", deadline=LEASE_SECONDS):
            until(
                lambda: kuberay.leads(self.cluster), what="the operator's lease is held by its one pod",
                deadline=LEASE_SECONDS, every=_LOOK_EVERY,
            )  # fmt: skip

    def leader(self) -> Object:
        """The pod of the operator that leads, of several; remembers who it is, for `operator_leads_again`."""
        self.holder = kuberay.lease_holder(self.cluster)
        return kuberay.leader_pod(self.cluster)

    # --- targets ----------------------------------------------------------------------------------------------------

    def head(self, cluster: RayClusterHandle) -> Object:
        """The head's pod. Raises NoSteadyState when there is none."""
        pod = cluster.head_pod(self.cluster)
        if pod is None:
            raise NoSteadyState(f"{cluster.namespace}/{cluster.name} has no head pod")
        return pod

    def worker(self, cluster: RayClusterHandle) -> Object:
        """A worker's pod. Raises NoSteadyState when there is none."""
        pods = cluster.worker_pods(self.cluster)
        if not pods:
            raise NoSteadyState(f"{cluster.namespace}/{cluster.name} has no worker")
        return pods[0]

    def delete_head(self, cluster: RayClusterHandle, *, grace: int = 0) -> DeletePod:
        """The fault that deletes the cluster's head pod."""
        return DeletePod.of(self.head(cluster), grace=grace)

    def terminate_gcs(self, cluster: RayClusterHandle) -> KillProcess:
        """The fault that asks the head's GCS to end, which it has when it doesn't listen any more: its process may stay."""
        return KillProcess.of(self.head(cluster), signal="TERM", process="gcs_server", port=ray.GCS_PORT)

    def delete_cluster(self, cluster: RayClusterHandle) -> DeleteCluster:
        """The fault that deletes the RayCluster."""
        return DeleteCluster.of(self.raycluster(cluster))

    def raycluster(self, cluster: RayClusterHandle) -> Object:
        """The RayCluster object. Raises NoSteadyState when there is none."""
        found = cluster.get(self.cluster)
        if found is None:
            raise NoSteadyState(f"there is no RayCluster {cluster.namespace}/{cluster.name}")
        return found

    def delete_worker_of(self, cluster: RayClusterHandle, actor: str) -> DeletePod:
        """The fault that deletes the pod that an actor lives on, by what the last probe said of it."""
        answers = [
            entry["value"] for entry in self.writer.entries()
            if entry["what"] == What.PROBE and entry["probe"] == "functional" and entry["ok"]
            and entry["target"] == cluster_target(cluster) and actor in entry["value"].get("actors", {})
        ]  # fmt: skip
        if not answers:
            raise NoSteadyState(f"actor {actor} has not answered, so nobody knows where it lives")
        node = answers[-1]["actors"][actor]["node"]
        addresses = [n["address"] for n in answers[-1]["nodes"] if n["id"] == node]
        pods = [pod for pod in cluster.worker_pods(self.cluster) if pod["status"].get("podIP") in addresses]
        if len(pods) != 1:
            raise NoSteadyState(f"actor {actor} lives on no worker of {cluster.namespace}")
        # With a grace: an object deleted by force is gone before its processes are, and the actor would answer once more.
        return DeletePod.of(pods[0], grace=1)

    def cluster_of(self, job: RayJobHandle) -> RayClusterHandle:
        """The Ray cluster that the RayJob's status names. Raises NoSteadyState when it names none."""
        handle = job.cluster_handle(self.cluster)
        if handle is None:
            raise NoSteadyState(f"RayJob {job.namespace}/{job.name} names no cluster")
        return handle

    def rayjob_object(self, job: RayJobHandle) -> Object:
        """The RayJob as the API server has it. Raises NoSteadyState when there is none."""
        found = job.get(self.cluster)
        if found is None:
            raise NoSteadyState(f"there is no RayJob {job.namespace}/{job.name}")
        return found

    def submission_of(self, job: RayJobHandle) -> str:
        """The submission ID that the RayJob's status names. Raises NoSteadyState when it names none."""
        submission_id = self.rayjob_object(job).get("status", {}).get("jobId")
        if not submission_id:
            raise NoSteadyState(f"RayJob {job.namespace}/{job.name} names no submission ID")
        return str(submission_id)

    def ray_nodes(self) -> list[Object]:
        """The nodes that Ray's pods can be on, by name."""
        nodes = [
            node for node in self.cluster.list("nodes") if _CONTROL_PLANE not in node["metadata"].get("labels", {})
        ]
        return sorted(nodes, key=lambda node: str(node["metadata"]["name"]))

    def redis_pods(self) -> list[Object]:
        """The members of the highly available Redis."""
        return redis.pods(self.cluster)

    def redis_primary(self) -> str:
        """The address of the primary that all Sentinels name."""
        return str(self.redis_primary_pod()["status"]["podIP"])

    def redis_replica(self) -> str:
        """The address of a replica."""
        _, replicas = primary_and_replicas(self.cluster)
        return str(replicas[0]["status"]["podIP"])

    def redis_primary_pod(self) -> Object:
        """The pod of the primary."""
        primary, _ = primary_and_replicas(self.cluster)
        return primary

    def redis_single_pod(self, namespace: str) -> Object:
        """The one pod of the single Redis."""
        [pod] = self.cluster.list("pods", namespace, "app.kubernetes.io/name=redis-single")
        return pod

    def record_redis(self) -> None:
        """Wait until the members agree, and record what they say."""

        def ask() -> dict[str, Any]:
            health = redis.wait_agreed(self.cluster)
            members = [{"pod": m.pod, "role": m.role, "names": m.names, "epoch": m.epoch} for m in health.members]
            primary = health.primary.pod if health.primary else None
            return {"ok": True, "primary": primary, "disagreement": health.disagreement, "members": members}

        self._probe("redis", {"namespace": redis.NAMESPACE}, ask)

    def knock(
        self, name: str, pod: Object, address: str, command: Sequence[str], *, port: int = 6379, log_in: bool = False
    ) -> bool:
        """Say one command to a Redis server, from the pod; record the answer, or why there was no connection."""
        where = pod["metadata"]
        target = {"name": name, "namespace": where["namespace"], "pod": where["name"], "address": f"{address}:{port}"}
        answer = self._probe(
            "redis-knock", target,
            lambda: redis_knock.knock(self.cluster, pod, address, port, command, log_in=log_in),
        )  # fmt: skip
        return bool(answer.get("reached"))

    def let_in(self, pod: Object, address: str) -> None:
        """Wait until the network policy lets the pod through to Redis, as it does a moment after the pod's start."""
        with self.step("the network policy lets the client in", deadline=_POLICY_SECONDS):
            until(
                lambda: redis_knock.knock(self.cluster, pod, address, 6379, ["PING"])["reached"],
                what=f"{pod['metadata']['name']} reaches Redis", deadline=_POLICY_SECONDS, error=NoSteadyState,
            )  # fmt: skip

    def record_keys(self, *clusters: RayClusterHandle) -> None:
        """The keys that each cluster has in the highly available Redis; of a deleted one, by what it was last seen to be."""
        primary = str(self.redis_primary_pod()["metadata"]["name"])
        for each in clusters:
            storage = keys.storage_namespace(self._last_seen(each))
            target = {**cluster_target(each), "storage": storage}
            told = {"pattern": keys.pattern(storage), "remove": keys.removal(primary, storage)}
            self._probe("redis-keys", target, partial(self._list_keys, primary, storage, told))

    def remove_keys(self, cluster: RayClusterHandle) -> None:
        """Remove what a deleted cluster left in Redis, as a person would. Raises StackError when any of it stays."""
        primary = str(self.redis_primary_pod()["metadata"]["name"])
        storage = keys.storage_namespace(self._last_seen(cluster))
        keys.remove(self.cluster, primary, storage)
        self._note(f"the keys of {cluster.namespace}/{cluster.name} were removed from Redis by hand")

    def _list_keys(self, primary: str, storage: str, told: dict[str, str]) -> dict[str, Any]:
        return {"ok": True, "keys": keys.names(self.cluster, primary, storage), **told}

    def _last_seen(self, cluster: RayClusterHandle) -> Object:
        """The RayCluster's last state in the history."""
        wanted = (What.OBJECT, "rayclusters", cluster.namespace, cluster.name)
        for entry in reversed(self.writer.entries()):
            if (entry["what"], *(entry.get(key) for key in ("resource", "namespace", "name"))) == wanted:
                found: Object = entry["object"]
                return found
        raise NoSteadyState(f"RayCluster {cluster.namespace}/{cluster.name} was never seen")

    def cluster_goes(self, cluster: RayClusterHandle, *, since: int, deadline: float) -> None:
        """Wait for the end of a RayCluster that is being deleted. One that stays is a result, not an error."""
        with suppress(NotReached):
            self.seen(
                lambda e: e["what"] == What.OBJECT and e["resource"] == "rayclusters" and e["change"] == "DELETED"
                and (e["namespace"], e["name"]) == (cluster.namespace, cluster.name),
                what=f"the end of RayCluster {cluster.namespace}", deadline=deadline, since=since,
            )  # fmt: skip

    # --- the end ----------------------------------------------------------------------------------------------------

    def end_experiment(self) -> None:
        """End what the experiment left running and undo what it left in force; its turn is over.

        Other experiments' faults are theirs to undo.
        """
        for watch in self._watches:
            watch.stop()
        self._watches.clear()
        with shielded():
            healed, failed = heal(self.cluster, self.injector.log, only=self.injector.injections)
        for sentence in [*(f"healed: {s}" for s in healed), *(f"not healed: {s}" for s in failed)]:
            self._console.info(sentence)
        if self._turn is not None:
            self._turn.end()

    def close(self) -> None:
        """Remove the namespaces, bounded; what stays is named with the command that removes it.

        Not before all is undone: a Ray cluster's clean-up waits for the Redis that a fault keeps from it.
        """
        self.end_experiment()
        try:
            stays = [thing for rest in self._each(self._namespaces, self._remove) for thing in rest]
            if self._namespaces:
                stays += self._keys()
        except Stopped:  # who interrupts does not wait; what stays is removed before its name is used again
            stays = [leftovers.namespace(self.cluster, name, "not waited for") for name in self._namespaces]
        for thing in stays:
            self._console.info(str(thing))
        self._namespaces.clear()

    def _remove(self, namespace: str) -> list[Leftover]:
        try:
            return ray.delete_namespace(self.cluster, namespace, REMOVAL_SECONDS)
        except StackError as problem:  # the others must still be removed
            return [leftovers.namespace(self.cluster, namespace, str(problem.args[0]))]

    def _keys(self) -> list[Leftover]:
        try:
            return leftovers.keys(self.cluster)
        except StackError:  # the API server is away: the namespaces have said so
            return []

    # --- plumbing ---------------------------------------------------------------------------------------------------

    def phase(self, phase: str, **detail: Any) -> Entry:
        return self.writer.write(What.PHASE, phase=phase, detail=detail)

    def step(self, title: str, *, deadline: float | None = None) -> Any:
        return self._console.step(title, expect=deadline)

    def _note(self, text: str) -> None:
        self.writer.write(What.NOTE, text=text)

    def _probe(self, name: str, target: Mapping[str, object], ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        began = time.monotonic()
        try:
            answer = ask()
        except ChaosError as problem:
            answer = {"ok": False, "error": str(problem.args[0])}
        took = time.monotonic() - began
        error = answer.get("error")
        value = {key: item for key, item in answer.items() if key not in ("ok", "error")}
        self.writer.write(
            What.PROBE,
            probe=name,
            target=dict(target),
            ok=bool(answer["ok"]),
            took=round(took, 3),
            value=value,
            error=error,
        )
        return answer

    @staticmethod
    def _until_or_record(look: Callable[[], bool], deadline: float) -> bool:
        with suppress(NotReached):  # the probes in the history say so
            return until(look, what="an answer", deadline=deadline, every=_LOOK_EVERY)
        return False

    @staticmethod
    def _each(things: Sequence[T], do: Callable[[T], R]) -> list[R]:
        if not things:
            return []
        told = stoppable if is_stoppable() else nullcontext

        def each(thing: T) -> R:
            with told():
                return do(thing)

        with ThreadPoolExecutor(max_workers=len(things)) as pool:
            return list(pool.map(each, things))


class ClusterTarget(TypedDict):
    """How probes and checks name a Ray cluster."""

    namespace: str
    cluster: str


class JobTarget(TypedDict):
    """How probes and checks name a RayJob."""

    namespace: str
    rayjob: str


def _is_felt_by_ray(fault: Fault) -> bool:
    """Whether the fault hits a node or a pod: of Ray, or of Redis, on which Ray relies. The operator's is none of these."""
    target = fault.target
    return "node" in target or ("pod" in target and target.get("namespace") != kuberay.NAMESPACE)


def _is_undone(fault: Fault) -> bool:
    return type(fault).undo is not Fault.undo


def cluster_target(cluster: RayClusterHandle) -> ClusterTarget:
    return {"namespace": cluster.namespace, "cluster": cluster.name}


def job_target(job: RayJobHandle) -> JobTarget:
    return {"namespace": job.namespace, "rayjob": job.name}


def _answered(target: ClusterTarget, entry: Entry) -> bool:
    about = entry["what"] == What.PROBE and entry["probe"] == ServiceClient.probe and entry["target"] == target
    return about and bool(entry["ok"])


def restarts(pod: Object) -> int:
    """Restarts of all containers of a pod."""
    return sum(int(status["restartCount"]) for status in pod["status"].get("containerStatuses") or [])


def _job_ended(job: Object) -> bool:
    """Whether a batch Job is Complete or Failed."""
    conditions = job.get("status", {}).get("conditions") or []
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)


def runs(pod: Object) -> bool:
    """Whether every container of the pod runs."""
    statuses = pod["status"].get("containerStatuses") or []
    return bool(statuses) and all("running" in status.get("state", {}) for status in statuses)
