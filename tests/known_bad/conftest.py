"""An experiment under another version than the run's, whose defect it must report."""

import pytest

from chaos.experiment import Declaration
from chaos.plugin import MARKER
from chaos.verdict import Judgement, Outcome, Role


class Elsewhere:
    """Begins experiments and ends them. Their verdicts are of other versions, so the run keeps none of them."""

    def __init__(self, run):
        self._run = run
        self._before = list(run.verdicts)
        self._labs = []

    def begin(self, name, declared):
        """``declared`` is an experiment, or a Declaration of its own."""
        if not isinstance(declared, Declaration):
            [declared] = [mark.args[0] for mark in declared.pytestmark if mark.name == MARKER]
        lab = self._run.begin(name, declared)
        self._labs.append(lab)
        return lab

    def defect(self, lab, claim, reference):
        """End it, and give the one verdict on a claim, which must report this known defect."""
        [verdict] = [each for each in self._run.end(lab) if each.role is Role.CLAIM]
        assert verdict.claim == claim
        assert verdict.verdict is Outcome.BROKEN, verdict.reason
        assert verdict.judgement is Judgement.KNOWN_DEFECT
        assert verdict.reference == reference
        return verdict

    def close(self):
        """Leave nothing of those that did not come to their end."""
        for lab in self._labs:
            lab.close()
        self._run.verdicts[:] = self._before


@pytest.fixture
def elsewhere(chaos_run):
    made = Elsewhere(chaos_run)
    yield made
    made.close()
