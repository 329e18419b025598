"""A cluster's next pods are kept from Redis by a label that its head template lacks."""

import copy

import pytest

from chaos.errors import NoEffect
from chaos.faults.shut_out import ShutOut
from chaos.faults.undo import Undo, perform
from chaos.stack import redis

CLUSTER = {
    "metadata": {"namespace": "ns", "name": "c", "uid": "uid-1"},
    "spec": {"headGroupSpec": {"template": {"metadata": {"labels": {redis.CLIENT_LABEL: "true", "other": "1"}}}}},
}
UNDO = Undo("redis-client", {"namespace": "ns", "cluster": "c", "uid": "uid-1"})


class Server:
    """One RayCluster, or none; ``deaf``: it takes a patch and changes nothing."""

    def __init__(self):
        self.found = copy.deepcopy(CLUSTER)
        self.deaf = False

    @property
    def labels(self):
        return self.found["spec"]["headGroupSpec"]["template"]["metadata"]["labels"]

    def get(self, resource, namespace, name):
        return self.found

    def patch(self, resource, namespace, name, body):
        if self.deaf:
            return
        for key, value in body["spec"]["headGroupSpec"]["template"]["metadata"]["labels"].items():
            self.labels.pop(key, None)
            if value is not None:
                self.labels[key] = value


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def inject(server, injector):
    injector.reach = type(injector.reach)(server, injector.reach.writer)
    return injector


def test_the_label_is_away_until_the_undo(server, inject):
    with inject(ShutOut.of(CLUSTER)):
        assert server.labels == {"other": "1"}
    assert server.labels == {"other": "1", redis.CLIENT_LABEL: "true"}


def test_a_label_that_stays_is_no_effect(server, inject):
    server.deaf = True
    with pytest.raises(NoEffect), inject(ShutOut.of(CLUSTER)):
        pass


def test_a_cluster_without_the_label_can_not_be_shut_out(server, inject):
    del server.labels[redis.CLIENT_LABEL]
    with pytest.raises(NoEffect), inject(ShutOut.of(CLUSTER)):
        pass


def test_the_cluster_may_go_meanwhile(server, inject):
    with inject(ShutOut.of(CLUSTER)):
        server.found = None
    perform(server, UNDO)


def test_a_namesake_is_not_touched(server):
    server.labels.pop(redis.CLIENT_LABEL)
    server.found["metadata"]["uid"] = "uid-2"
    perform(server, UNDO)
    assert redis.CLIENT_LABEL not in server.labels
