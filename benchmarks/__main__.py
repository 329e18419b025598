"""``python -m benchmarks [NAME…]``: how fast and how heavy, as ratios where possible, against the limits we set ourselves.

Figures are printed with their limits and written to ``results/bench.json``. Exit code 1 when a limit is exceeded.

``standup`` makes and removes clusters of its own, so a stack that is up only slows it down. ``rival`` uses the stack that is up,
or stands one up, and leaves it; the others need one, and ``overhead`` and the harness' memory are those of the last run.
"""

import argparse
import json
import sys
from pathlib import Path

from benchmarks import detection, footprint, overhead, rival, standup
from chaos.console import Console
from chaos.errors import ChaosError
from chaos.stack import engine as docker_engine
from chaos.stack.engine import Engine
from chaos.stack.stack import stop_unused_engine

BENCHES = {
    "standup": standup.measure,
    "rival": rival.measure,
    "detection": detection.measure,
    "overhead": overhead.measure,
    "footprint": footprint.measure,
}


def main():
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[*BENCHES, []], help=f"which of {', '.join(BENCHES)}; all by default"
    )
    names = parser.parse_args().names or list(BENCHES)
    console = Console()
    figures = []
    try:
        for name in names:
            figures += BENCHES[name](console)
    except ChaosError as problem:
        console.fail(problem)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130
    finally:
        if docker_engine.reachable().ok:
            stop_unused_engine(Engine(), console)
    for figure in figures:
        console.info(str(figure))
    Path("results").mkdir(exist_ok=True)
    Path("results/bench.json").write_text(json.dumps([figure.__dict__ for figure in figures], indent=2) + "\n")
    return 1 if any(not figure.within for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
