from pathlib import Path

import pytest

from chaos.own.file import Kind, read
from chaos.stack import ray

IMAGE, RAY = "docker.io/rayproject/ray:2.60.0", "2.60.0"


@pytest.fixture
def own():
    """The examples beside the tests, by their kind."""
    return lambda kind: read(Path(__file__).parent / f"{kind.lower()}.yaml", Kind(kind))


@pytest.fixture
def fitted(own):
    return lambda kind: ray.fitted(own(kind), IMAGE, RAY)
