"""Another way to delay what a pod sends, where the kernel has no netem: a program on the node that holds the packets.

A chain of ours in the pod's packet filter hands what leaves the pod to a queue, and the program (`chaos.faults.late_packets`)
gives each packet back later. It works on packets, as netem does: open connections are delayed too, and none breaks when the
delay ends. Without the program the chain lets everything pass. The program is told from everything else by a marker among its
arguments, and ends by itself when the pod does.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from chaos.errors import FeatureMissing, StackError
from chaos.faults.chain import PodChain, new_name
from chaos.faults.inside import in_sandbox
from chaos.faults.nodes import runs
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

_PROGRAM = Path(__file__).with_name("late_packets.py")
# The rules come last: before the program is there, nothing is to wait for it.
_BEGIN = 'python3 -c "$@" && exec iptables-restore -w --noflush'
# Whole arguments that equal the marker, which itself comes by standard input and so is in no other command line.
_FIND = r"""
for file in $(grep -l -z -x -F -f - /proc/[0-9]*/cmdline 2>/dev/null); do
  process=${file#/proc/}; process=${process%/cmdline}
  echo "$process"
  [ "$1" = end ] && kill -KILL "$process"
done
exit 0
"""
_END_SECONDS = 10


@dataclass(frozen=True)
class UserQueue:
    """The queue of one pod, and the program that empties it."""

    node: str
    uid: str
    chain: str = field(default_factory=new_name)
    marker: str = field(default_factory=lambda: f"kuberay-chaos-delay-{secrets.token_hex(8)}")
    number: int = field(default_factory=lambda: 1 + secrets.randbelow(0xFFFF))

    by: ClassVar[str] = "a program on the node"

    @property
    def _chain(self) -> PodChain:
        return PodChain(self.node, self.uid, self.chain)

    @property
    def undo(self) -> list[Undo]:
        """End the program, once no rule hands it anything any more."""
        return [Undo("late-packets", {"node": self.node, "marker": self.marker}), self._chain.undo]

    def require(self, cluster: Cluster) -> None:
        """Raises FeatureMissing when the node can't run the program: official images of kind nodes have no Python."""
        if not cluster.node_exec(self.node, ["sh", "-c", "command -v python3"]).ok:
            raise FeatureMissing(f"delay needs netem in the kernel, or Python on {self.node}, and neither is there")

    def begin(self, cluster: Cluster, milliseconds: int, jitter: int) -> None:
        """The program, and then the rules."""
        rules = self._chain.made([f"-o eth0 -j NFQUEUE --queue-num {self.number} --queue-bypass"])
        arguments = [_PROGRAM.read_text(), self.marker, str(self.number), str(milliseconds), str(jitter)]
        done = in_sandbox(cluster, self.node, self.uid, _BEGIN, *arguments, stdin=rules)
        if done is None:
            raise StackError(f"there is no sandbox of pod {self.uid} on {self.node}")
        done.require("delaying packets in the pod's namespace")

    def require_gone(self, cluster: Cluster) -> None:
        """Raises StackError when the program or anything of the chain is left."""
        if left := _programs(cluster, self.node, self.marker):
            raise StackError(f"the program that delays packets still runs on {self.node}: {', '.join(left)}")
        self._chain.require_gone(cluster)


def _programs(cluster: Cluster, node: str, marker: str, *, end: bool = False) -> list[str]:
    """The processes of the node that bear the marker, each killed with ``end``; none of a node that doesn't run."""
    found = cluster.node_exec(node, ["sh", "-c", _FIND, "sh", "end" if end else "look"], stdin=f"{marker}\n".encode())
    if not found.ok and not runs(cluster, node):
        return []
    return found.require(f"processes of {node}").decode().split()


@undoer("late-packets", node=str, marker=str)
def _end_program(cluster: Cluster, what: dict[str, Any]) -> None:
    until(
        lambda: not _programs(cluster, what["node"], what["marker"], end=True),
        what=f"the end of {what['marker']}", deadline=_END_SECONDS, every=0.1, error=StackError,
    )  # fmt: skip
