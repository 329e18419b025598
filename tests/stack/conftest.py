"""What tests make on the stack goes with them."""

import pytest


@pytest.fixture
def lab(chaos_run):
    """The session's lab; afterwards its namespaces go: later tests need the room, and nodes without its pods."""
    yield chaos_run.lab
    chaos_run.lab.close()
