"""One Redis server in a pod: asked and set up through the pod, which holds the password in its environment.

No password is on a command line, in the undo log or in an answer: `redis-cli` takes it from ``REDISCLI_AUTH`` of the
container. What is set at run time lasts until the server starts anew, since the pod writes its configuration then; so a pod
or container that was replaced has nothing left to undo.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from chaos.errors import NoEffect, StackError
from chaos.faults.base import Fault, Reach, Scope
from chaos.faults.undo import Undo, undoer
from chaos.stack.cluster import Cluster
from chaos.waiting import until

CONTAINER = "redis"
# Within the pod the command bounds itself, so that none is left behind when a stopped server never answers.
_ANSWER_SECONDS, _EXEC_SECONDS = 5, 15.0
_BITE_SECONDS = 10.0
# A server that is just being started anew answers when its container runs and its data is loaded.
RESTORE_SECONDS = 60.0
# Gone within a millisecond where writes are accepted, so that a probe leaves nothing behind.
_WRITE = ("set", "kuberay-chaos:write-probe", "1", "px", "1")


def run_in(cluster: Cluster, namespace: str, pod: str, script: str) -> str:
    """What a shell script of ours prints in the server's container. Raises StackError when it fails."""
    bounded = ["timeout", str(2 * _ANSWER_SECONDS), "sh", "-c", script]
    done = cluster.exec(namespace, pod, bounded, container=CONTAINER, timeout=_EXEC_SECONDS)
    return done.require(f"Redis in {pod}").decode(errors="replace").strip()


def ask(cluster: Cluster, namespace: str, pod: str, *words: str, port: int = 6379) -> str:
    """The server's answer to one command, its refusals included. Raises StackError when it gives none."""
    bounded = ["timeout", str(_ANSWER_SECONDS), "redis-cli", "-p", str(port), *words]
    done = cluster.exec(namespace, pod, bounded, container=CONTAINER, timeout=_EXEC_SECONDS)
    return done.require(f"Redis in {pod}").decode(errors="replace").strip()


def there(cluster: Cluster, namespace: str, pod: str, uid: str) -> bool:
    """Whether it is still this very pod; members keep their names when they are replaced."""
    found = cluster.get("pods", namespace, pod)
    return found is not None and found["metadata"]["uid"] == uid


@dataclass(frozen=True)
class RedisFault(Fault):
    """A fault on the Redis server of one pod, of the stack's Redis or of a single one."""

    namespace: str
    pod: str
    uid: str

    scope: ClassVar[Scope] = Scope.CLUSTER  # the stack's Redis serves the Ray clusters of every namespace

    @classmethod
    def of(cls, pod: dict[str, Any]) -> Self:
        """Of a pod as the API server describes it."""
        metadata = pod["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"])

    @property
    def target(self) -> dict[str, str]:
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid}

    @property
    def place(self) -> dict[str, Any]:
        """Where the server is, for undo data."""
        return {"namespace": self.namespace, "pod": self.pod, "uid": self.uid}

    def require_pod(self, reach: Reach) -> None:
        """Raises StackError when the pod has been replaced: its successor must not be hit."""
        if not there(reach.cluster, self.namespace, self.pod, self.uid):
            raise StackError(f"pod {self.namespace}/{self.pod} is not the one it was")

    def ask(self, reach: Reach, *words: str) -> str:
        """The server's answer to one command."""
        return ask(reach.cluster, self.namespace, self.pod, *words)


@dataclass(frozen=True)
class WritesRefused(RedisFault):
    """The server is set up so that it refuses writes, and reads go on. Other members are as they were."""

    refusal: ClassVar[str]  # how its answer to a write begins

    @property
    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Names of `CONFIG SET` and what they are set to."""

    def undo(self, reach: Reach) -> list[Undo]:
        """Put the settings back to what they are now."""
        self.require_pod(reach)
        # CONFIG GET answers with a name and its value on alternate lines, in an order of its own.
        words = self.ask(reach, "config", "get", *self.settings).splitlines()
        before = dict(zip(words[::2], words[1::2], strict=False))
        if before.keys() != self.settings.keys():
            raise StackError(f"Redis in {self.pod} does not tell its settings: {' '.join(words)}")
        return [Undo("redis-settings", {**self.place, "settings": before})]

    def apply(self, reach: Reach) -> None:
        self.require_pod(reach)
        _configure(reach.cluster, self.place, self.settings)

    def prove(self, reach: Reach, since: int) -> dict[str, Any]:
        """A write must be refused, for this very reason."""
        answer = until(
            lambda: self._refused(reach), what=f"a write to {self.pod} refused with {self.refusal}",
            deadline=_BITE_SECONDS, error=NoEffect,
        )  # fmt: skip
        return {"write": answer}

    def relieved(self, reach: Reach) -> dict[str, Any]:
        """A write must be taken, unless the member has become a replica meanwhile, which takes none."""

        def taken() -> str:
            if not there(reach.cluster, self.namespace, self.pod, self.uid):
                return "the pod is gone"
            answer = self.ask(reach, *_WRITE)
            if answer != "OK" and not answer.startswith("READONLY"):
                raise StackError(answer)
            return answer

        answer = until(taken, what=f"a write to {self.pod}", deadline=_BITE_SECONDS, error=StackError)
        return {"write": answer}

    def _refused(self, reach: Reach) -> str | None:
        answer = self.ask(reach, *_WRITE)
        return answer if answer.startswith(self.refusal) else None


@undoer("redis-settings", namespace=str, pod=str, uid=str, settings=dict)
def _restore(cluster: Cluster, what: dict[str, Any]) -> None:
    def restored() -> bool:
        if there(cluster, what["namespace"], what["pod"], what["uid"]):
            _configure(cluster, what, what["settings"])
        return True

    until(restored, what=f"settings of Redis in {what['pod']}", deadline=RESTORE_SECONDS, every=1, error=StackError)


def _configure(cluster: Cluster, place: dict[str, Any], settings: dict[str, str]) -> None:
    """All settings in one command: the server takes all of them or none."""
    words = [word for setting in settings.items() for word in setting]
    answer = ask(cluster, place["namespace"], place["pod"], "config", "set", *words)
    if answer != "OK":
        raise StackError(f"Redis in {place['pod']} refused new settings: {answer}")
