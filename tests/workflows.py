"""Lints the workflows of this repository: ``python -m tests.workflows``. Says nothing when all is well.

actionlint is a Go program without a wheel, so it is built from its module like every other Go program here.
"""

import subprocess
import sys
from pathlib import Path

from chaos.errors import ChaosError
from chaos.stack.images import golang

VERSION = "1.7.7"
PACKAGE = "github.com/rhysd/actionlint/cmd/actionlint"


def main() -> int:
    """The linter's exit code, or that of the error that kept it from running."""
    workflows = sorted((Path(__file__).parents[1] / ".github" / "workflows").glob("*.y*ml"))
    try:
        program = golang.program("actionlint", PACKAGE, VERSION)
    except ChaosError as problem:
        print(problem, file=sys.stderr)  # noqa: T201
        return problem.exit_code
    return subprocess.run([program, *workflows], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
