"""pytest-xdist: what its worker processes and the one that controls them tell each other.

The controller gives the run one name, and each worker is a `Member` of it (`chaos.sharing`): it has the stack together with
the others, runs one experiment at a time, and writes a folder of its own. When it ends it sends what it came to; from that
the controller makes the closing table and the exit code. Of a worker that can't say any more the folder is read.

pytest-xdist need not be installed: nothing of it is imported.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from chaos.paths import state_dir
from chaos.sharing import Member, runs
from chaos.signals import pause
from chaos.verdict import Verdict

_KEY = "kuberay_chaos"
# Undoing, writing the results and letting the stack go. After that the workers are killed, and what they left is healed.
_ENDING_SECONDS = 180.0
_LOOK_EVERY = 0.1


@dataclass(frozen=True)
class Told:
    """What a worker came to."""

    member: str
    verdicts: list[Verdict]
    unjudged: bool  # an experiment failed where nothing judges it
    failed_otherwise: bool  # a test that is no experiment failed
    left_out: list[str]  # what is not run, and why, a line each
    ended: str = ""  # what ended the worker before its time
    exit_code: int = 0  # of that


# --- in a worker --------------------------------------------------------------------------------------------------------


def member(config: pytest.Config) -> Member | None:
    """What this process is to the run; None when it is no worker."""
    given = getattr(config, "workerinput", {}).get(_KEY)
    return Member(**given) if given else None


def seed(config: pytest.Config) -> int:
    """The same in all workers of a run, unless one was given."""
    uid: str = config.workerinput["testrunuid"]  # type: ignore[attr-defined]
    return int(hashlib.sha256(uid.encode()).hexdigest()[:8], 16)


def tell(config: pytest.Config, told: Told) -> None:
    """Send it to the controller, at this process's end."""
    output: dict[str, Any] = config.workeroutput  # type: ignore[attr-defined]
    output[_KEY] = json.dumps(asdict(told))
    if told.ended:  # xdist then ends the others too, and doesn't take this one for crashed
        output |= {"shouldstop": told.ended, "exitstatus": told.exit_code}


# --- in the controller --------------------------------------------------------------------------------------------------


class Workers:
    """The workers of a run, as the controller knows them."""

    def __init__(self, results: Path) -> None:
        self.run = ""
        self.told: list[Told] = []
        self._silent = False  # whether one ended without a word
        self._results = results
        self._nodes: list[Any] = []

    def prepare(self, node: Any) -> None:
        """Tell a worker that is about to start who it is."""
        uid, name = node.workerinput["testrunuid"], node.workerinput["workerid"]
        if not self.run:
            self.run = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{hashlib.sha256(uid.encode()).hexdigest()[:4]}"
        node.workerinput[_KEY] = asdict(Member(self.run, name, os.getpid()))
        self._nodes.append(node)

    def down(self, node: Any) -> None:
        """Hear what a worker came to."""
        text = getattr(node, "workeroutput", {}).get(_KEY)
        if text is None:
            self._silent = True
        elif node.workerinput["workerid"] not in {told.member for told in self.told}:
            fields = json.loads(text)
            self.told.append(Told(**{**fields, "verdicts": [Verdict.from_json(each) for each in fields["verdicts"]]}))

    def interrupt(self, number: int) -> None:
        """Pass a signal on, and wait until what the workers hold has been let go: xdist itself gives them 10 s."""
        if not self.run:
            return
        for node in self._nodes:
            with suppress(OSError):  # it has ended
                os.kill(node.gateway._rinfo().pid, number)
        ends = time.monotonic() + _ENDING_SECONDS
        while runs(state_dir() / "locks", self.run) and time.monotonic() < ends:
            pause(_LOOK_EVERY)

    @property
    def lost(self) -> bool:
        """Whether an experiment may have gone with a worker that ended without a word."""
        return self._silent and bool(self.folders)

    @property
    def folders(self) -> list[Path]:
        """Where their results are."""
        return sorted(self._results.glob(f"{self.run}-*")) if self.run else []

    @property
    def verdicts(self) -> list[Verdict]:
        """All of them, by what was told; of those that could not tell, by what they wrote."""
        heard = [verdict for told in self.told for verdict in told.verdicts]
        silent = [folder for folder in self.folders if not self._has_told(folder)]
        return heard + [verdict for folder in silent for verdict in _written(folder)]

    def _has_told(self, folder: Path) -> bool:
        return any(folder.name == f"{self.run}-{told.member}" for told in self.told)


def _written(folder: Path) -> Sequence[Verdict]:
    try:
        return [Verdict.from_json(entry) for entry in json.loads((folder / "verdicts.json").read_text())]
    except (OSError, ValueError):
        return ()
