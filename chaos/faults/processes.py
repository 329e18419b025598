"""Processes of pods and containers as their node sees them: independent of what the image holds, and of the pod's own word.

What belongs to a pod or to one container is told by the control group's path, which names the pod's UID and the container's
ID. A process is its number *and* its start time: a number that was given out again is never signalled.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from chaos.errors import StackError
from chaos.faults.nodes import runs
from chaos.stack.cluster import Cluster

# The size of a page, /proc/PID/stat of each, a NUL, and FILE:ARGUMENT of each argument of each, with a NUL after it.
# systemd writes a UID with underscores. Few programs for many processes: nodes share a machine with what is measured.
_LIST = r"""
set -- $(grep -l -F -e "$1" -e "$(printf %s "$1" | tr - _)" /proc/[0-9]*/cgroup 2>/dev/null | sed 's/cgroup$//')
[ $# -gt 0 ] || exit 0
getconf PAGESIZE
cat $(printf '%sstat ' "$@") 2>/dev/null
printf '\0'
grep -a -z -H '' $(printf '%scmdline ' "$@") 2>/dev/null
exit 0
"""
# In stat, what follows the name in parentheses begins with the third field; the start time is the 22nd.
_SIGNAL = r"""
signal=$1; shift
while [ $# -ge 2 ]; do
  started=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20)
  [ "$started" = "$2" ] && kill "-$signal" "$1"
  shift 2
done
exit 0
"""
_STAT = re.compile(r"(\d+) \((.*)\) (\S) (.*)")
_ARGUMENT = re.compile(r"/proc/(\d+)/cmdline:(.*)", re.DOTALL)
_TICKS_A_SECOND = 100  # what the kernel tells programs on every architecture that Kubernetes runs on


@dataclass(frozen=True)
class Process:
    """One process, at the time it was looked at."""

    pid: int  # as the node numbers it
    name: str
    state: str  # as in `ps`: R, S, D, T (stopped), Z …
    parent: int
    started: int  # in the kernel's ticks since it booted
    cpu_seconds: float
    resident_kib: int
    command: str


def processes(cluster: Cluster, node: str, owner: str) -> list[Process]:
    """All of a pod, by its UID, or of one container, by its ID; none when it is gone, be it with its node."""
    listed = cluster.node_exec(node, ["sh", "-c", _LIST, "sh", owner])
    if not listed.ok and not runs(cluster, node):
        return []
    return parse(listed.require(f"the processes of {owner} on {node}").decode(errors="replace"))


def started_by(wall: float) -> int:
    """The kernel's ticks at a time of the clock, in seconds since 1970; for nodes that this machine carries."""
    ago = time.time() - wall
    return int((time.clock_gettime(time.CLOCK_BOOTTIME) - ago) * _TICKS_A_SECOND)


def parse(listed: str) -> list[Process]:
    """What the script printed. A process that ended meanwhile is left out, or has no command."""
    stats, _, arguments = listed.partition("\0")
    commands: dict[int, list[str]] = {}
    for match in filter(None, map(_ARGUMENT.fullmatch, arguments.split("\0"))):
        commands.setdefault(int(match[1]), []).append(match[2])
    page, *lines = stats.split("\n")
    found = []
    for match in filter(None, map(_STAT.fullmatch, lines)):
        fields = match[4].split()  # from the fourth field of stat on
        found.append(
            Process(
                pid=int(match[1]),
                name=match[2],
                state=match[3],
                parent=int(fields[0]),
                started=int(fields[18]),
                cpu_seconds=(int(fields[10]) + int(fields[11])) / _TICKS_A_SECOND,
                resident_kib=int(fields[20]) * int(page) // 1024,
                command=" ".join(commands.get(int(match[1]), [])),
            )
        )
    return found


def signal(cluster: Cluster, node: str, name: str, targets: Iterable[Process]) -> None:
    """Send a signal, named as in `kill`, to processes as they were seen; one that has gone meanwhile is passed over."""
    which = [str(value) for process in targets for value in (process.pid, process.started)]
    if which:
        done = cluster.node_exec(node, ["sh", "-c", _SIGNAL, "sh", name, *which])
        if not done.ok:
            raise StackError(f"no signal could be sent on {node}: {done.error_text.strip()}")
