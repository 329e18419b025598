"""Manifests of a user's on the real cluster: what KubeRay takes is made and works, and what it doesn't take leaves no trace."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.errors import UsageError
from chaos.own.accepted import require_accepted
from chaos.own.file import Kind, read
from chaos.stack import ray
from chaos.stack.images import catalogue
from chaos.workloads import probes

EXAMPLES = Path(__file__).parents[1] / "unit/own"
KINDS = pytest.mark.parametrize("kind", Kind)


@pytest.fixture
def image(chaos_run):
    return catalogue.ray_image(chaos_run.settings.versions.ray)


@pytest.fixture
def ask(chaos_run, image):
    """Whether the API server takes an object of the user's."""

    def call(own):
        require_accepted(chaos_run.stack.cluster, own, ray.fitted(own, image, chaos_run.settings.versions.ray))

    return call


def example(kind):
    return read(EXAMPLES / f"{kind.lower()}.yaml", kind)


@KINDS
def test_what_is_given_is_taken_and_so_is_what_it_becomes(chaos_run, ask, image, kind):
    own = example(kind)
    ask(own)
    ask(replace(own, document=ray.fitted(own, image, chaos_run.settings.versions.ray).document))


@KINDS
@pytest.mark.parametrize(
    ("field", "value", "said"),
    [("headGroupSpecs", {}, 'unknown field "spec.*headGroupSpecs"'), ("workerGroupSpecs", [{}], "Required value")],
)
def test_what_kuberay_does_not_take_is_refused_and_nothing_is_made(chaos_run, ask, kind, field, value, said):
    own = example(kind)
    document = deepcopy(own.document)
    spec = document["spec"] if kind is Kind.RAYCLUSTER else document["spec"]["rayClusterSpec"]
    spec[field] = value
    with pytest.raises(UsageError, match=said):
        ask(replace(own, document=document))
    for resource in ("rayclusters", "rayjobs", "secrets"):
        assert chaos_run.stack.cluster.list(resource, "default") == []


@pytest.mark.level("core")
def test_a_ray_cluster_of_the_users_works(chaos_run, lab, image):
    own, namespace = example(Kind.RAYCLUSTER), lab.namespace("own")
    handle = ray.create_ray_cluster(
        lab.cluster, namespace, "ray", ft=True, image=image, ray_version=chaos_run.settings.versions.ray, own=own
    )
    handle.wait_ready(lab.cluster)
    probes.start_counter(lab.cluster, handle)
    answer = probes.functional(lab.cluster, handle)
    assert answer["ok"], answer
    assert len(answer["nodes"]) == 3
