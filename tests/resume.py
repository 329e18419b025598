"""A long session that was cut short goes on where it was: ``python -m pytest -p tests.resume``.

A test that passed is remembered on disk as soon as it did, for this code, these manifests, packages and arguments, and is not
run again in the next session of the same. One that came to its end, green or not, is forgotten as a whole: the next begins anew.
"""

import contextlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from chaos.paths import state_dir
from chaos.stack.images import cache

ROOT = Path(__file__).parents[1]
# Node identifiers of those that passed in an earlier part.
EARLIER = pytest.StashKey[frozenset[str]]()
_PHASES = 3  # set-up, call, tear-down


def digest(root: Path, words: Iterable[str]) -> str:
    """Of all that a result depends on: what other code passed is worth nothing."""
    files = [root / "requirements.lock", root / "pyproject.toml"]
    for folder in ("chaos", "manifests", "tests"):
        files += [path for path in (root / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return cache.key(list(words), {str(path.relative_to(root)): cache.file_digest(path) for path in files})


class Resume:
    """The plugin: one file, a line for each test that passed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._passed: Counter[str] = Counter()
        self._ended: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what passed; a line that a kill has torn names no test."""
        remembered = set(self.path.read_text().splitlines()) if self.path.exists() else set()
        out = [item for item in items if item.nodeid in remembered]
        config.stash[EARLIER] = frozenset(item.nodeid for item in out)
        if out:
            items[:] = [item for item in items if item.nodeid not in remembered]
            config.hook.pytest_deselected(items=out)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Only what passed with set-up and tear-down has passed."""
        self._passed[report.nodeid] += report.passed
        if report.when != "teardown":
            return
        self._ended.add(report.nodeid)
        if self._passed[report.nodeid] == _PHASES:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as remembered:
                remembered.write(f"{report.nodeid}\n")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Forget, unless something is left to do or it isn't known what was to be done."""
        if EARLIER in session.config.stash and {item.nodeid for item in session.items} <= self._ended:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """How much of the whole was done before."""
        if earlier := config.stash.get(EARLIER, frozenset()):
            terminalreporter.write_line(
                f"passed in an earlier part of this session: {len(earlier)} tests ({self.path})"
            )


def pytest_configure(config: pytest.Config) -> None:
    """Begin, or go on."""
    words = [str(word) for word in config.invocation_params.args if not str(word).startswith("--basetemp")]
    key = digest(ROOT, words)
    config.pluginmanager.register(Resume(state_dir() / "tests" / key))
