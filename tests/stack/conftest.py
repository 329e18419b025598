"""What tests of the stack share."""

import pytest


@pytest.fixture
def cluster(chaos_run):
    return chaos_run.stack.cluster
