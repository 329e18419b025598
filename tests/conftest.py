"""What all tests share."""

import hypothesis
import pytest

pytest_plugins = ["pytester"]

# How long one example takes depends on what else the machine does; that is no property of the code under test.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def cluster(chaos_run):
    """The stack's cluster, which this stands up where there is none."""
    return chaos_run.stack.cluster
