"""The stack as a whole: each layer ensured in turn, the parts that don't wait for each other side by side.

::

    engine ─▶ images ─▶ kind's control plane ─┬▶ kind's workers ─┬▶ seal, and its proof ─┬▶ record
                                              └▶ all manifests ──┼▶ CNI, names           │
                                                                 ├▶ KubeRay              │
                                                                 └▶ Redis ───────────────┘

A stack that is up, healthy and of the same inputs is used again. One that isn't is reported, and replaced on request.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from chaos import doctor
from chaos.console import Console, Step
from chaos.errors import BusyError, StackError
from chaos.faults.undo import UndoLog, heal
from chaos.paths import manifests, stack_dir, state_dir
from chaos.process import Executed
from chaos.settings import Settings, Source
from chaos.stack import engine as docker_engine
from chaos.stack import kuberay, network, redis
from chaos.stack.cluster import Cluster, RunOnNode
from chaos.stack.components import apply_network_and_storage, wait_for_nodes
from chaos.stack.engine import STACK_LABEL, Engine
from chaos.stack.images import cache, catalogue
from chaos.stack.images.bake import bake, load_into
from chaos.stack.images.choose import choose
from chaos.stack.images.source import ImageSource, Provided
from chaos.stack.kind import Kind, StackFolder, node_names
from chaos.stack.node_containers import NodeContainers
from chaos.stack.record import GIVEN, StackRecord


def lock_path(name: str) -> Path:
    """The lock that one run at a time holds; outside the stack's folder, which `down` removes."""
    return state_dir() / "locks" / f"{name}.lock"


@dataclass(frozen=True)
class Stack:
    """A stack that is up."""

    settings: Settings
    engine: Engine
    kind: Kind
    cluster: Cluster
    source: ImageSource
    provided: Provided
    record: StackRecord

    @property
    def folder(self) -> StackFolder:
        return self.kind.folder

    @property
    def undo_log(self) -> UndoLog:
        return UndoLog(self.folder.undo_log)

    @property
    def operator(self) -> kuberay.Release:
        """The operator that the stack was stood up with."""
        return _own_operator(self.settings, self.provided)

    def other_operator(self, version: str, console: Console) -> kuberay.Release:
        """Another version of the operator, its image on every node."""
        name, reference, config = self.source.operator(version, console)
        with console.step(f"KubeRay {version} onto the nodes", expect=10) as step:
            self._load(name, reference, step)
        return kuberay.Release(version, name, config)

    def use_ray(self, version: str, console: Console) -> None:
        """Put another Ray version's image onto the nodes, for clusters that ask for it; once there it stays."""
        name, reference = self.source.ray(version, console)
        with console.step(f"Ray {version} on the nodes", expect=120) as step:
            self._load(name, reference, step)

    def _load(self, name: str, reference: str, step: Step) -> None:
        """Into the nodes that take such pods: the control plane's is tainted."""
        for node in self.kind.nodes():
            if node == self.kind.control_plane:
                continue
            step.say(f"image into {node}")
            load_into(self.engine, node, {name: reference})


def up(settings: Settings, console: Console) -> Stack:
    """Stand the stack up, or find it up. The caller holds the stack's lock."""
    diagnoses = doctor.examine(settings)
    doctor.render(diagnoses, console, least=doctor.Status.WARN)
    doctor.require(diagnoses)
    engine = docker_engine.ensure(console)
    source = choose(settings, engine, console)
    provided = source.provide(console)
    node_image = bake(engine, provided, console)
    kind = Kind(settings.name, engine, provided.kind, provided.kubectl)
    record = _record(settings, engine, source, provided, node_image)
    kind.folder.link_kubectl(provided.kubectl)
    running = _find_running(kind, record, settings, console)
    if running is not None:
        if record.sealed:
            _require_sealed(kind, running, node_image, console)
        return Stack(settings, engine, kind, running, source, provided, record)
    kind.create(
        node_image, console,
        meanwhile=lambda: _install(_cluster(kind, engine), settings, provided, sealed=record.sealed),
    )  # fmt: skip
    cluster = _cluster(kind, engine)
    with console.step("Network, storage, KubeRay and Redis", expect=30) as step:
        _all_of(
            lambda: _wait_for_nodes(kind, cluster, step),
            lambda: _seal(kind, cluster, node_image, console) if record.sealed else None,
            lambda: kuberay.wait_leads(cluster),
            lambda: redis.wait_whole(cluster),
        )
    record.save(record_path(kind.folder.root))
    return Stack(settings, engine, kind, cluster, source, provided, record)


def _install(cluster: Cluster, settings: Settings, provided: Provided, *, sealed: bool) -> None:
    """Write all that the stack consists of; its pods start when there are nodes for them."""
    _all_of(
        lambda: apply_network_and_storage(cluster, sealed=sealed),
        lambda: kuberay.install(cluster, _own_operator(settings, provided)),
        lambda: redis.install(cluster, catalogue.REDIS_IMAGE),
    )


def join(settings: Settings, console: Console) -> Stack:
    """The stack that another process of this run has stood up, as it is: healing would undo what that one has in force."""
    engine = docker_engine.ensure(console)
    source = choose(settings, engine, console)
    provided = source.provide(console)
    kind = Kind(settings.name, engine, provided.kind, provided.kubectl)
    record = StackRecord.load(record_path(kind.folder.root))
    if record is None:
        raise StackError(f"the stack {kind.name} is gone", fix="run again")
    return Stack(settings, engine, kind, _cluster(kind, engine), source, provided, record)


def down(settings: Settings, console: Console) -> None:
    """Remove the stack with all that it left in Docker, and the engine if we started it.

    Of a cluster of the user's only what is kept here goes, and not what is needed to heal it.
    """
    if is_given(stack_dir(settings.name)):
        if pending := UndoLog(StackFolder(stack_dir(settings.name)).undo_log).pending():
            raise StackError(
                f"{len(pending)} undos of {settings.name}, a cluster of yours, are left",
                fix=f"`kuberay-chaos heal --name {settings.name}` first",
            )
        shutil.rmtree(stack_dir(settings.name))
        console.info(f"{settings.name} is a cluster of yours and stays; what was kept of it here is removed")
        return
    answer = docker_engine.reachable()
    if answer.ok:
        engine = Engine()
        with console.step(f"Removing the stack {settings.name}", expect=10):
            _remove(settings.name, engine)
        stop_unused_engine(engine, console)
    shutil.rmtree(stack_dir(settings.name), ignore_errors=True)


def stop_unused_engine(engine: Engine, console: Console) -> None:
    """Stop the engine if we started it and no stack is left in it."""
    if not engine.docker("network", "ls", "--filter", f"label={STACK_LABEL}", "--format", "{{.Name}}").text.split():
        docker_engine.stop(console)


def _remove(name: str, engine: Engine) -> None:
    unused = Path("/nonexistent")
    Kind(name, engine, unused, unused).delete()


def _all_of(*jobs: Callable[[], object]) -> None:
    """Run the jobs side by side; when one fails, its error is raised once the others have ended."""
    with ThreadPoolExecutor(max_workers=len(jobs)) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()


def _wait_for_nodes(kind: Kind, cluster: Cluster, step: Step) -> None:
    step.waiting("all nodes Ready and CoreDNS", deadline=120)
    wait_for_nodes(cluster, count=len(kind.nodes()), deadline=120)


def _seal(kind: Kind, cluster: Cluster, node_image: str, console: Console) -> None:
    network.seal(kind.engine, kind.nodes())
    network.wait_for_names(cluster, redis.PROBE_POD)
    _require_sealed(kind, cluster, node_image, console)


def _own_operator(settings: Settings, provided: Provided) -> kuberay.Release:
    image = catalogue.stack_operator_image(settings)
    return kuberay.Release(settings.versions.kuberay, image, provided.kuberay_config)


def _cluster(kind: Kind, engine: Engine) -> Cluster:
    return Cluster(
        kind.name, kind.folder.kubeconfig, kind.cluster.kubectl_path, _on_node(engine),
        node_control=NodeContainers(engine),
    )  # fmt: skip


def _on_node(engine: Engine) -> RunOnNode:
    def run(node: str, argv: list[str], stdin: bytes | None, timeout: float) -> Executed:
        return engine.exec(node, argv, stdin=stdin, timeout=timeout)

    return run


def _record(
    settings: Settings, engine: Engine, source: ImageSource, provided: Provided, node_image: str
) -> StackRecord:
    versions = {**settings.versions.as_json(), "redis": catalogue.REDIS}
    return StackRecord(
        fingerprint=replace(settings, source=Source(source.name)).fingerprint(),
        node_image=node_image,
        source=source.name,
        versions=versions,
        sealed=not settings.open_egress,
        manifests=cache.key([path.read_text() for path in sorted(manifests().glob("*.yaml"))], network.COREFILE),
        images={
            name: engine.image_id(reference)
            for name, reference in {**provided.control_plane, **provided.images}.items()
        },
        provenance=provided.provenance,
    )


def record_path(folder: Path) -> Path:
    """The record of the stack with this folder; it is there once the stack was complete."""
    return folder / "stack.json"


def is_given(folder: Path) -> bool:
    """Whether the folder is kept of a cluster of the user's, which has nothing to do with an engine."""
    record = StackRecord.load(record_path(folder))
    return record is not None and record.source == GIVEN


def _find_running(kind: Kind, wanted: StackRecord, settings: Settings, console: Console) -> Cluster | None:
    """The cluster if it can be used again; None when there is none. One that can't is removed only on request."""
    if not kind.nodes():
        return None
    if not kind.owned():
        raise BusyError(
            f"a kind cluster named {kind.name} exists and isn't ours",
            fix=f"choose another name with --name, or delete it: kind delete cluster --name {kind.name}",
        )
    why = _unusable(kind, wanted, console)
    if why is None:
        console.info(f"using the stack {kind.name} that is up")
        return _cluster(kind, kind.engine)
    if not settings.recreate:
        raise StackError(
            f"the stack {kind.name} can't be used again: {why}", fix="replace it with --recreate, or `make down` first"
        )
    with console.step(f"Removing the old stack ({why})", expect=10):
        kind.delete()
        kind.folder.create()
    return None


def _unusable(kind: Kind, wanted: StackRecord, console: Console) -> str | None:
    """Why the cluster can't be used again, or None when it can. Heals it first: a fault in force makes it look unhealthy."""
    found = StackRecord.load(record_path(kind.folder.root))
    if found is None:
        return "it was not completed"
    if others := found.differs_from(wanted):
        return f"it was made from other inputs ({', '.join(others)})"
    cluster = _cluster(kind, kind.engine)
    healed, failed = heal_leftovers(cluster, UndoLog(kind.folder.undo_log), console)
    if failed:
        return "; ".join(failed)
    if set(kind.running_nodes()) != set(kind.nodes()):
        return "not all of its nodes run"
    try:
        if healed:  # what was cut off or stopped takes a moment to find together again
            redis.wait_agreed(cluster)
        wait_for_nodes(cluster, count=len(kind.nodes()), deadline=20)
        kuberay.require_available(cluster)
        redis.assert_agreed(cluster)
    except Exception as unhealthy:  # whatever it is, the stack isn't one to trust
        return f"it is not healthy: {unhealthy.args[0] if unhealthy.args else unhealthy}"
    return None


def heal_leftovers(cluster: Cluster, log: UndoLog, console: Console) -> tuple[list[str], list[str]]:
    """Undo what dead runs left in this cluster, saying so; what was healed and what could not be."""
    healed, failed = heal(cluster, log)
    for sentence in healed:
        console.info(f"healed what a run left behind: {sentence}")
    return healed, failed


def _require_sealed(kind: Kind, cluster: Cluster, node_image: str, console: Console) -> None:
    with console.step("Proving that nothing leaves the stack's network", expect=8):
        network.prove_sealed(
            kind.engine, cluster, network=kind.network, nodes=kind.nodes(), image=node_image, pod=redis.PROBE_POD
        )


def heal_running(settings: Settings) -> tuple[list[str], list[str]]:
    """Undo what dead runs left in the stack of this name: what was undone and what could not be, a sentence each.

    Raises StackError when there is no cluster to heal, or when it can't be reached.
    """
    folder = StackFolder(stack_dir(settings.name))
    log = UndoLog(folder.undo_log)
    pending = log.pending()
    if not pending:
        return [], log.unreadable()
    if is_given(folder.root):
        cluster = Cluster(settings.name, folder.kubeconfig)
    else:
        _require_cluster(settings.name, folder, pending=len(pending))
        engine = Engine()
        cluster = Cluster(
            settings.name, folder.kubeconfig, folder.kubectl, _on_node(engine), node_control=NodeContainers(engine)
        )
    healed, failed = heal(cluster, log)
    if failed and (silence := _silence(cluster)):
        left = len(log.pending())
        return healed, [f"{silence}; {left} of {len(pending)} undos are left", *log.unreadable()]
    return healed, failed


def _require_cluster(name: str, folder: StackFolder, *, pending: int) -> None:
    answer = docker_engine.reachable()
    if not answer.ok:
        raise StackError(
            f"the Docker engine does not answer, so {pending} undos of the stack {name} are left: "
            f"{answer.error_text.strip()[-300:]}",
            fix="start it and heal again",
        )
    if not folder.kubeconfig.exists() or not node_names(Engine(), name):
        raise StackError(
            f"the cluster of the stack {name} is gone, and what {pending} undos were for went with it",
            fix="`kuberay-chaos down` removes what is left of the stack",
        )


def _silence(cluster: Cluster) -> str:
    """Why the API server can't be spoken to, in words; empty when it answers."""
    try:
        cluster.request("GET", "/version", timeout=5)
    except StackError as problem:
        return str(problem.args[0])
    return ""


def farewell(stack: Stack) -> str:
    """What is left running, and how to remove it."""
    engine = ", and the Docker engine that was started for it" if docker_engine.started_by_us() else ""
    return f"the stack {stack.kind.name} is up (kubeconfig: {stack.folder.kubeconfig}); `make down` removes it{engine}"
