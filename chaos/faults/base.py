"""What a fault is: parameters, what undoes it, how it is applied, and the probes that prove its effect and its end.

A fault has no verdict, and it keeps no state: what undo needs is data, written before anything is touched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from chaos.faults.undo import Undo
from chaos.history.store import HistoryWriter
from chaos.stack.cluster import Cluster


class Scope(StrEnum):
    """How far a fault reaches; on a cluster that isn't ours only the first goes without being allowed by name."""

    NAMESPACE = "namespace"  # objects and pods of one namespace
    CLUSTER = "cluster"  # cluster-wide objects, or what every namespace relies on
    NODE = "node"  # a node, or processes and packets on it


@dataclass(frozen=True)
class Reach:
    """What a fault may touch and look at."""

    cluster: Cluster
    writer: HistoryWriter


class Fault(ABC):
    """What is done to the stack. Implementations are frozen dataclasses: their fields are the fault's parameters."""

    name: ClassVar[str]
    scope: ClassVar[Scope] = Scope.NAMESPACE
    needs: ClassVar[tuple[str, ...]] = ()  # names of `chaos.kernel.FEATURES`

    @property
    @abstractmethod
    def target(self) -> dict[str, str]:
        """Names of what is hit, for the history: namespace, pod, uid …"""

    def undo(self, reach: Reach) -> list[Undo]:
        """What will have to be undone; reads only. Nothing when the stack's own controllers restore what was hit."""
        return []

    @abstractmethod
    def apply(self, reach: Reach) -> None:
        """Do it. Raises StackError when it can't be done."""

    @abstractmethod
    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """What an independent probe saw, looking at history entries from number ``since`` on; raises NoEffect."""

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """After the undo: what shows that the effect has ended. Raises StackError when it goes on.

        Content when the target is gone: it may have been deleted meanwhile. Not asked of faults that have nothing to undo.
        """
        return {}
