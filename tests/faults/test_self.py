"""The harness tested on itself: a fault that does nothing must never end green."""

from dataclasses import dataclass

import pytest

from chaos.checks.workers_survived import workers_survived
from chaos.errors import NoEffect
from chaos.experiment import Declaration
from chaos.faults.delete_pod import DeletePod
from chaos.settings import Level
from chaos.verdict import Outcome, exit_code


@dataclass(frozen=True)
class DoesNothing(DeletePod):
    """Says that it deletes a pod, and doesn't."""

    def apply(self, reach):
        return


def test_a_fault_without_effect_is_unknown_and_exits_2(chaos_run, stand_in):
    pod = stand_in("untouched")
    metadata = pod["metadata"]
    before = list(chaos_run.verdicts)
    lab = chaos_run.begin("self_no_effect", Declaration((("FT-2", "self"),), Level.SMOKE, 30))
    with pytest.raises(NoEffect), lab.inject(DoesNothing.of(pod)):
        pass
    lab.expect("FT-2", "self", workers_survived(namespace=metadata["namespace"], cluster="none"))
    verdicts = chaos_run.end(lab)
    chaos_run.verdicts[:] = before  # not a verdict on the stack
    assert [v.verdict for v in verdicts] == [Outcome.UNKNOWN]
    assert verdicts[0].reason.startswith("no effect")
    assert exit_code(verdicts) == 2
