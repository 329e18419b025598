"""The harness's own share of an experiment: what is neither the system's recovery nor a declared window.

Counted from steady state to the end, from the history of the last run. Recovery is the time from each group of faults to the
first answer of every cluster that was probed; declared windows are holds and observations.
"""

from pathlib import Path

from benchmarks.figure import Figure
from chaos.errors import UsageError
from chaos.history.reader import History

LIMIT = 25
LATEST = Path("results/latest/history.jsonl")


def measure(console):
    if not LATEST.exists():
        raise UsageError("there is no run to measure", fix="make chaos")
    history = History.load(LATEST)
    figures = []
    for name in history.experiments:
        view = history.experiment(name)
        steady = [phase.t for phase in view.phases("steady")]
        if steady:
            wall = view.until - steady[0]
            intervals = recoveries(view) + declared(view)
            busy = covered([(max(a, steady[0]), min(b, view.until)) for a, b in intervals])
            figures.append(
                Figure(f"overhead of {name}", 100 * (wall - busy) / wall, LIMIT, "%", f"{wall:.0f} s in all")
            )
    return figures


def recoveries(view):
    """Intervals from a fault to what the experiment waited for: the next declared window, fault or end."""
    marks = sorted(
        [p.t for p in view.phases("observe")] + [f.applied_at for f in view.faults() if f.applied_at] + [view.until]
    )
    intervals = []
    for fault in view.faults():
        if fault.applied_at is None:
            continue
        following = next((m for m in marks if m > fault.applied_at + 1), view.until)
        answers = [p.t for p in view.probes("functional") if p.ok and fault.applied_at < p.t <= following]
        intervals.append((fault.applied_at, max(answers) if answers else following))
    return intervals


def declared(view):
    """Intervals of holds and observations."""
    windows = [(p.t, p.t + p.detail["seconds"]) for p in view.phases("observe")]
    for fault in view.faults():
        if "hold" in fault.steps:
            began = fault.steps["hold"]["t"]
            windows.append((began, began + fault.steps["hold"]["detail"]["seconds"]))
    return windows


def covered(intervals):
    """Seconds that at least one interval covers."""
    total, end = 0.0, 0.0
    for since, until in sorted(intervals):
        total += max(0.0, until - max(since, end))
        end = max(end, until)
    return total
