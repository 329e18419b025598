"""An experiment's timeline as data: groups of lanes of boxes, dots and ticks, in seconds from the fault.

What is drawn where is decided here, how it looks in the template. A group is an arm, which is a namespace, or what all
arms share. A lane is a place that a pod can take (the operator, a cluster's head, one of its workers): a pod that
replaces another continues its lane, with a tick where the UID changed. Above the lanes stand labels: faults, held and
watched windows, milestones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise

from chaos.checks import facts
from chaos.checks.connection import EVERYDAY_STALL
from chaos.history.reader import (
    History,
    Injection,
    Lifetime,
    Object,
    Probe,
    is_ready,
    is_terminating,
    labels,
    restart_count,
)
from chaos.stack.ours import namespaces_begin

_WIDTH = 1000.0  # units that the time axis is wide
_LEAD = 0.15  # the part of what follows the fault that is shown before it
_LEAST_LEAD = 15.0  # seconds
_ROLES = ("operator", "head", "worker", "submitter", "Redis", "clean-up", "pod")
_CHARACTER = 6.2  # units that a character of a label is wide
_LABEL_ROWS = 8
SHARED = "shared by all arms"
_EVENTS = {
    "delete-pod": "{} deleted",
    "kill-process": "{} process killed",
    "stop-process": "{} process stopped",
    "restart-container": "{} container restarted",
    "partition": "{} cut off",
    "loss": "{} loses packets",
    "delay": "{} delayed",
    "delete-job": "submitter Job deleted",
    "delete-rayjob": "RayJob deleted",
}


@dataclass(frozen=True)
class Box:
    """Something that lasted. ``kind`` is the look: a phase of a pod, or ``stage`` with a text."""

    x: float
    width: float
    kind: str
    title: str
    text: str = ""


@dataclass(frozen=True)
class Dot:
    """Probe results of one kind that lie too close to draw apart; ``width`` is 0 for a single one."""

    x: float
    width: float
    ok: bool
    title: str


@dataclass(frozen=True)
class Tick:
    """A moment: ``restart`` (in place) or ``uid`` (another pod took the place)."""

    x: float
    kind: str
    title: str


@dataclass
class Lane:
    """One row."""

    label: str
    detail: str
    group: str = SHARED
    boxes: list[Box] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    ticks: list[Tick] = field(default_factory=list)
    outages: list[Box] = field(default_factory=list)

    def size(self) -> int:
        return len(self.boxes) + len(self.dots) + len(self.ticks) + len(self.outages)


@dataclass(frozen=True)
class Label:
    """Something with a text above the lanes: ``fault``, ``window`` (``width`` is how long it lasted) or ``mark``.

    ``row`` counts from the top; ``text_x`` is where the text begins, or ends when ``left``.
    """

    x: float
    width: float
    kind: str
    text: str
    title: str
    row: int = 0
    text_x: float = 0.0
    left: bool = False


@dataclass(frozen=True)
class Group:
    """The lanes of one arm."""

    name: str
    lanes: list[Lane]


@dataclass(frozen=True)
class Timeline:
    """What the template draws; every x and width is in units of the axis, which is 1000 wide."""

    groups: list[Group]
    labels: list[Label]
    label_rows: int
    axis: list[tuple[float, str]]
    from_fault: bool  # whether zero is the fault, or the start for want of one
    before: float  # seconds of the experiment that lie left of the picture
    dropped: int  # elements left out, to stay within the limit

    @property
    def lanes(self) -> list[Lane]:
        return [lane for group in self.groups for lane in group.lanes]

    def size(self) -> int:
        return sum(lane.size() for lane in self.lanes)


@dataclass(frozen=True)
class _Scale:
    """Seconds since the run began to units of the axis."""

    zero: float
    start: float
    end: float

    def x(self, t: float) -> float:
        inside = min(max(t, self.start), self.end)
        return round((inside - self.start) / (self.end - self.start) * _WIDTH, 1)

    def says(self, t: float) -> str:
        return f"{t - self.zero:+.1f} s"

    def box(self, since: float, until: float, kind: str, title: str, text: str = "") -> Box:
        x = self.x(since)
        return Box(x, max(round(self.x(until) - x, 1), 1.0), kind, title, text)

    def shows(self, since: float, until: float) -> bool:
        return until >= self.start and since <= self.end


def timeline(view: History, *, limit: int = 10_000) -> Timeline:
    """The timeline of one experiment's view, of at most ``limit`` elements; RayJobs and probes are kept before pods."""
    applied = [fault.applied_at for fault in view.faults() if fault.applied_at is not None]
    zero = min(applied, default=view.since)
    lead = max(_LEAST_LEAD, _LEAD * (view.until - zero))
    start = max(view.since, zero - lead) if applied else view.since
    scale = _Scale(zero, start, max(view.until, start + 1.0))

    arms = _Arms.of(view)
    jobs, pods, probes = _rayjobs(view, scale, arms), _pods(view, scale, arms), _probes(view, scale, arms)
    dropped = _cut([*jobs, *probes, *pods], limit)
    labels = _placed([*_faults(view, scale, arms), *_windows(view, scale), *_marks(view, scale)])
    return Timeline(
        groups=_grouped([lane for lane in (*jobs, *pods, *probes) if lane.size()]),
        labels=labels,
        label_rows=max((label.row + 1 for label in labels), default=0),
        axis=_axis(scale),
        from_fault=bool(applied),
        before=max(start - view.since, 0.0),
        dropped=dropped,
    )


def _cut(lanes: list[Lane], limit: int) -> int:
    """Cut the lanes, the last first, to ``limit`` elements in all; how many were left out."""
    dropped, room = 0, limit
    for lane in lanes:
        for items in (lane.boxes, lane.ticks, lane.outages, lane.dots):
            dropped += max(len(items) - room, 0)
            del items[room:]
            room -= len(items)
    return dropped


# --- arms ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Arms:
    """Which namespaces are arms of the experiment. Each has one, ``chaos-<experiment>-<arm>``."""

    prefix: str
    namespaces: frozenset[str]

    @classmethod
    def of(cls, view: History) -> _Arms:
        prefix = namespaces_begin(view.name or "")
        subjects = [
            pod for pod in view.objects("pods") if facts.role(pod.latest.object) in ("head", "worker", "submitter")
        ]
        every = {thing.namespace for thing in (*subjects, *view.objects("rayjobs"))}
        every |= {str(probe.target["namespace"]) for probe in view.probes("functional") if "namespace" in probe.target}
        # Other experiments' may still be going when this one begins. On a cluster of one's own names may differ.
        own = {namespace for namespace in every if namespace.startswith(prefix)}
        return cls(prefix, frozenset(own or every))

    def name(self, namespace: str) -> str:
        return namespace.removeprefix(self.prefix) if namespace in self.namespaces else SHARED


def _grouped(lanes: list[Lane]) -> list[Group]:
    """By arm, in the order in which the arms are met, and what they share last."""
    names = sorted(dict.fromkeys(lane.group for lane in lanes), key=lambda name: name == SHARED)
    return [Group(name, [lane for lane in lanes if lane.group == name]) for name in names]


def _merged(lanes: list[Lane]) -> list[Lane]:
    """Shared lanes of one role in which nothing happens made one: three members of Redis, ready all the time."""
    merged: dict[tuple[str, str], Lane] = {}
    for number, lane in enumerate(lanes):
        idle = lane.group == SHARED and len(lane.boxes) == 1 and not lane.ticks
        key = (lane.label, lane.boxes[0].kind if idle else f"busy {number}")
        if key not in merged:
            merged[key] = lane
            continue
        first = merged[key]
        box, other = first.boxes[0], lane.boxes[0]
        first.detail += f", {lane.detail}"
        first.boxes = [replace(box, title=f"{box.title}; {other.title}")]
    return list(merged.values())


# --- pods and RayJobs ------------------------------------------------------------------------------------------------


def _rayjobs(view: History, scale: _Scale, arms: _Arms) -> list[Lane]:
    lanes = []
    for job in view.objects("rayjobs"):
        if job.namespace not in arms.namespaces:
            continue
        lane = Lane("RayJob", job.name, arms.name(job.namespace))
        for since, until, stage in _spells(job, view.until, lambda o: facts.status(o, "jobDeploymentStatus") or "New"):
            if scale.shows(since, until):
                title = f"{job.name} {stage}, {scale.says(since)} to {scale.says(until)}"
                lane.boxes.append(scale.box(since, until, "stage", title, stage))
        if lane.boxes:
            lanes.append(lane)
    return lanes


def _pods(view: History, scale: _Scale, arms: _Arms) -> list[Lane]:
    """Lanes by role and place; a pod takes the lane of its place that has been free for longest when it appears."""
    places: dict[tuple[int, str], list[Lifetime]] = {}
    for pod in view.objects("pods"):
        role = facts.role(pod.latest.object) or "pod"
        if pod.namespace in arms.namespaces or role == "operator" or (role == "Redis" and not _of_an_arm(pod)):
            places.setdefault((_ROLES.index(role), _place(pod, role)), []).append(pod)

    lanes: list[Lane] = []
    for (rank, _), pods in sorted(places.items()):
        rows: list[list[Lifetime]] = []
        free: list[tuple[float, int]] = []  # a heap: when a row's last pod is gone, and the row
        for pod in sorted(pods, key=lambda pod: pod.born):
            if free and free[0][0] <= pod.born:
                _, number = heappop(free)
                rows[number].append(pod)
            else:
                number = len(rows)
                rows.append([pod])
            if pod.gone is not None:
                heappush(free, (pod.gone, number))
        for row in rows:
            lane = Lane(_ROLES[rank], row[-1].name, arms.name(row[-1].namespace))
            for number, pod in enumerate(row):
                _draw(lane, pod, view.until, scale, replaced=number > 0)
            if lane.boxes:
                lanes.append(lane)
    return _merged(lanes)


def _draw(lane: Lane, pod: Lifetime, until: float, scale: _Scale, *, replaced: bool) -> None:
    for begin, end, phase in _spells(pod, until, _phase):
        if scale.shows(begin, end):
            title = f"{pod.name} {phase.replace('-', ' ')}, {scale.says(begin)} to {scale.says(end)}"
            lane.boxes.append(scale.box(begin, end, phase, title))
    first = pod.states[0]
    if replaced and scale.shows(first.t, first.t):
        lane.ticks.append(
            Tick(scale.x(first.t), "uid", f"another pod: {pod.name}, UID {pod.uid}, {scale.says(first.t)}")
        )
    for before, after in pairwise(pod.states):
        count = restart_count(after.object)
        if count > restart_count(before.object) and scale.shows(after.t, after.t):
            code = facts.exit_code(after.object)
            title = f"{pod.name} restarted in place, count {count}, exit code {code}, {scale.says(after.t)}"
            lane.ticks.append(Tick(scale.x(after.t), "restart", title))


def _spells(lifetime: Lifetime, until: float, kind: Callable[[Object], str]) -> Iterable[tuple[float, float, str]]:
    """Stretches of states that are of one kind: begin, end, kind."""
    begin, last = lifetime.states[0].t, kind(lifetime.states[0].object)
    for state in lifetime.states[1:]:
        now = kind(state.object)
        if now != last and state.change != "DELETED":
            yield begin, state.t, last
            begin, last = state.t, now
    yield begin, _end(lifetime, until), last


def _end(lifetime: Lifetime, until: float) -> float:
    return until if lifetime.gone is None else lifetime.gone


def _of_an_arm(pod: Lifetime) -> bool:
    """Whether it lives in a namespace of some experiment, here of another one."""
    return pod.namespace.startswith("chaos-")


def _place(pod: Lifetime, role: str) -> str:
    """What a pod and the one that replaces it have in common."""
    carried = labels(pod.latest.object)
    match role:
        case "operator":
            return pod.namespace
        case "head" | "worker":
            return f"{pod.namespace}/{carried.get('ray.io/cluster', '')}"
        case "submitter" | "clean-up":
            return f"{pod.namespace}/{carried.get('job-name') or carried['batch.kubernetes.io/job-name']}"
    return f"{pod.namespace}/{pod.name}"


def _phase(pod: Object) -> str:
    """The look of a pod's box, which is also its name in the legend."""
    if is_terminating(pod):
        return "terminating"
    if facts.ended(pod):
        return "ended"
    if is_ready(pod):
        return "ready"
    for container in facts.containers(pod):
        state = container.get("state", {})
        # Waiting before the first run is an image being pulled; after one it is the kubelet's back-off.
        if "terminated" in state or ("waiting" in state and container.get("lastState")):
            return "down"
    return "not-ready" if facts.running(pod) else "pending"


# --- labels: faults, windows, milestones -----------------------------------------------------------------------------


def _faults(view: History, scale: _Scale, arms: _Arms) -> list[Label]:
    """From apply to undone, or to the proof of its effect when there is nothing to undo."""
    found = []
    for fault in view.faults():
        if fault.applied_at is None:
            continue
        steps = {step: float(entry["t"]) for step, entry in fault.steps.items()}
        undoable = bool((fault.steps["record"]["detail"] if "record" in fault.steps else {}).get("undo"))
        end = steps.get("undone", view.until if undoable else max(steps.values()))
        target = fault.steps["apply"].get("target") or {}
        what = _event(view, fault)
        where = str(target.get("pod") or target.get("job") or target.get("rayjob") or "")
        arm = f" ({arms.name(target['namespace'])})" if target.get("namespace") in arms.namespaces else ""
        named = f"{what}: {where}{arm}" if where else what
        told = ", ".join(f"{step} {scale.says(t)}" for step, t in steps.items() if step != "record")
        box = scale.box(fault.applied_at, end, "fault", "")
        found.append(Label(box.x, box.width, "fault", named, f"{named}; {fault.name}: {told}"))
    return found


def _event(view: History, fault: Injection) -> str:
    """What the fault was in words: ``head deleted``."""
    target = fault.steps["apply"].get("target") or {}
    if fault.name == "refuse-write":
        return f"writes to {target.get('resource', 'the API')} refused"
    pod = view.object(str(target.get("uid", "")))
    role = (facts.role(pod.latest.object) if pod and pod.resource == "pods" else "") or "pod"
    return _EVENTS.get(fault.name, fault.name).format(role)


def _windows(view: History, scale: _Scale) -> list[Label]:
    """The stretches in which nothing was done but to watch, and those for which a fault was kept in force."""
    windows = [
        (phase.t, float(phase.detail.get("seconds", 0)), f"watched: {phase.detail.get('why', 'no reason given')}")
        for phase in view.phases("observe")
    ]
    for fault in view.faults():
        if hold := fault.steps.get("hold"):
            windows.append((float(hold["t"]), float(hold["detail"].get("seconds", 0)), f"held: {_event(view, fault)}"))
    found = []
    for since, seconds, text in windows:
        if scale.shows(since, since + seconds):
            box = scale.box(since, since + seconds, "window", "")
            title = f"{text}, {seconds:.0f} s, {scale.says(since)} to {scale.says(since + seconds)}"
            found.append(Label(box.x, box.width, "window", f"{text}, {seconds:.0f} s", title))
    return found


def _marks(view: History, scale: _Scale) -> list[Label]:
    """Milestones; a ``mark`` is only a bookmark of the experiment's own."""
    return [
        Label(scale.x(phase.t), 0.0, "mark", phase.name, f"{phase.name} {scale.says(phase.t)}")
        for phase in view.phases()
        if phase.name in ("steady", "settled", "error") and scale.shows(phase.t, phase.t)
    ]


def _placed(labels: list[Label]) -> list[Label]:
    """The labels with the first row each in which its text is clear of the others'; the last row takes what is left."""
    taken: list[list[tuple[float, float]]] = [[] for _ in range(_LABEL_ROWS)]
    placed = []
    for label in sorted(labels, key=lambda label: label.x):
        wide = len(label.text) * _CHARACTER + 8
        left = label.x + wide > _WIDTH
        begin, end = (label.x - wide, label.x) if left else (label.x, label.x + wide)
        free = (n for n, row in enumerate(taken) if all(end <= since or begin >= until for since, until in row))
        row = next(free, _LABEL_ROWS - 1)
        taken[row].append((begin, end))
        placed.append(replace(label, row=row, left=left, text_x=round(label.x + (-4 if left else 4), 1)))
    return placed


# --- probes ----------------------------------------------------------------------------------------------------------


def _probes(view: History, scale: _Scale, arms: _Arms) -> list[Lane]:
    """One lane for each target of each probe, in its arm's group."""
    lanes: dict[tuple[str, str, str], list[Probe]] = {}
    for probe in view.probes():
        if scale.shows(probe.t, probe.t):
            hidden = ("namespace", "cluster", "address", "rayjob") if len(probe.target) > 2 else ("namespace",)
            target = ", ".join(str(value) for key, value in probe.target.items() if key not in hidden)
            lanes.setdefault((probe.name, str(probe.target.get("namespace", "")), target), []).append(probe)
    return [
        Lane(f"probe {name}", target, arms.name(namespace), dots=_dots(probes, scale), outages=_outages(probes, scale))
        for (name, namespace, target), probes in sorted(lanes.items())
    ]


def _good(probe: Probe) -> bool:
    """Whether it succeeded, and didn't tell of a connection that stalls."""
    return probe.ok and probe.value.get("stall", 0.0) <= EVERYDAY_STALL


def _dots(probes: list[Probe], scale: _Scale) -> list[Dot]:
    """Results, those of one kind that are less than 8 units apart made one."""
    dots: list[Dot] = []
    group: list[Probe] = []

    def close() -> None:
        if group:
            first, last = group[0], group[-1]
            x = scale.x(first.t)
            word = "ok" if _good(first) else f"failed ({last.error})" if last.error else "no answer yet"
            many = f"{len(group)} results to {scale.says(last.t)}" if len(group) > 1 else f"took {last.took:.1f} s"
            dots.append(Dot(x, round(scale.x(last.t) - x, 1), _good(first), f"{word}, {scale.says(first.t)}, {many}"))
            group.clear()

    for probe in probes:
        if group and (_good(probe) != _good(group[-1]) or scale.x(probe.t) - scale.x(group[-1].t) > 8):
            close()
        group.append(probe)
    close()
    return dots


def _outages(probes: list[Probe], scale: _Scale) -> list[Box]:
    """Stretches with a failure in them, from the last success before it to the end of the next."""
    outages = []
    last_ok: float | None = None
    failed = False
    for probe in probes:
        if not _good(probe):
            failed = True
            continue
        if failed and last_ok is not None:
            gap = probe.t - last_ok
            title = f"no success for {gap:.1f} s, {scale.says(last_ok)} to {scale.says(probe.t)}"
            outages.append(scale.box(last_ok, probe.t, "outage", title, f"{gap:.1f} s"))
        last_ok, failed = probe.t, False
    return outages


def _axis(scale: _Scale) -> list[tuple[float, str]]:
    """About ten labels at round numbers of seconds."""
    rough = (scale.end - scale.start) / 10
    step = next((s for s in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800) if s >= rough), 3600)
    first = int(-(-(scale.start - scale.zero) // step)) * step
    labels = []
    at = first
    while scale.zero + at <= scale.end:
        labels.append((scale.x(scale.zero + at), f"{at}"))
        at += step
    return labels
