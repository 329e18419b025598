"""The harness is killed between any two of its steps, and healing leaves the stack as it was before.

The pairs of a fault and a point are drawn from a seed (``--chaos-seed``, always the same by default): a sample at every level,
all of them at level `full`.
"""

import time

import pytest

from chaos.faults.undo import UndoLog, heal
from chaos.settings import Level
from chaos.stack import kuberay, redis
from chaos.stack.components import wait_for_nodes
from chaos.stack.images import catalogue
from tests.crash import snapshot
from tests.crash.kinds import KINDS, missing_feature
from tests.crash.pairs import DEFAULT_SEED, SAMPLE, WHOLE, draw
from tests.crash.parent import run_to_death
from tests.crash.points import BEFORE_RECORD, IN_FORCE, PENDING, TORN_RECORD, Orders
from tests.crash.stage import Stage

# What healing may take on a live stack, and what the stack's own controllers may take to restore a restarted container.
HEAL_SECONDS = 10
SETTLE_SECONDS = 60
# A stopped node has to start and be Ready, and what ran on it elsewhere too; drained pods and a new primary as well.
HEAVY_SECONDS = 240

OFFERED = [kind for kind, row in KINDS.items() if not missing_feature(row)]


def read(path):
    return path.read_bytes() if path.exists() else b""


def seed_of(config):
    return config.getoption("chaos_seed") or DEFAULT_SEED


def pytest_generate_tests(metafunc):
    if "pair" in metafunc.fixturenames:
        count = WHOLE if metafunc.config.getoption("chaos_level") == Level.FULL else SAMPLE
        pairs = draw(seed_of(metafunc.config), count, OFFERED)
        metafunc.parametrize("pair", pairs, ids=[f"{n:03d} {pair}" for n, pair in enumerate(pairs)])


@pytest.fixture
def stage(chaos_run, namespace, stand_in):
    image = catalogue.ray_image(chaos_run.settings.versions.ray)
    made = Stage(chaos_run.stack.cluster, namespace, image, chaos_run.stack.operator, stand_in)
    yield made
    made.close()


def test_a_killed_harness_leaves_nothing_behind_once_healed(chaos_run, stage, crash_report, tmp_path, pair):
    stack, row = chaos_run.stack, KINDS[pair.kind]
    fault = row.build(stage)
    before = snapshot.take(stack, stage.pods)

    orders = Orders(
        fault, pair.point, stack.settings.name, stack.folder.kubeconfig, str(stack.kind.cluster.kubectl_path), tmp_path
    )
    run_to_death(orders)
    if row.undone and not row.heavy and pair.point in IN_FORCE:
        assert snapshot.differences(before, snapshot.take(stack, stage.pods)), "the snapshot must see the fault"

    began = time.monotonic()
    healed, failed = heal(stack.cluster, UndoLog(orders.undo_log))
    took = time.monotonic() - began
    assert failed == []
    assert took <= (HEAVY_SECONDS if row.heavy else HEAL_SECONDS)
    if pair.point in (BEFORE_RECORD, TORN_RECORD) or not row.undone:
        assert healed == []
    elif pair.point in PENDING:
        assert healed
    # Once more, before the look: what it changed would be a difference too.
    content = read(orders.undo_log)
    assert heal(stack.cluster, UndoLog(orders.undo_log)) == ([], [])
    assert read(orders.undo_log) == content
    settle = HEAVY_SECONDS if row.heavy else SETTLE_SECONDS
    assert snapshot.settled(stack, stage.pods, before, settle) == []
    if row.heavy:
        wait_for_nodes(stack.cluster, count=len(stack.kind.nodes()), deadline=HEAVY_SECONDS)
        stack.cluster.wait_rolled_out("deployments", kuberay.NAMESPACE, kuberay.DEPLOYMENT, HEAVY_SECONDS)
        redis.wait_agreed(stack.cluster, HEAVY_SECONDS)
    crash_report.passed += 1
