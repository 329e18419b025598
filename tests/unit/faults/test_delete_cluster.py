"""The deletion of a RayCluster counts when the watch tells of it, for exactly this UID."""

import pytest

from chaos.errors import NoEffect
from chaos.faults import delete_cluster
from chaos.faults.base import Reach
from chaos.faults.delete_cluster import DeleteCluster
from chaos.history.entry import What

FAULT = DeleteCluster.of({"metadata": {"namespace": "ns", "name": "c", "uid": "uid-1"}})


def tell(writer, uid, change="MODIFIED", **metadata):
    obj = {"metadata": {"name": "c", "namespace": "ns", "uid": uid, **metadata}}
    writer.write(
        What.OBJECT, change=change, resource="rayclusters", uid=uid, namespace="ns", name="c", rv="1", listed=False,
        object=obj,
    )  # fmt: skip


class Server:
    def delete(self, resource, namespace, name, *, uid=None):
        self.asked = (resource, namespace, name, uid)


def test_it_is_deleted_by_its_uid(writer):
    server = Server()
    FAULT.apply(Reach(server, writer))
    assert server.asked == ("rayclusters", "ns", "c", "uid-1")


@pytest.mark.parametrize("told", [{"deletionTimestamp": "2027-01-15T08:00:00Z"}, {"change": "DELETED"}])
def test_a_deletion_that_began_is_proof(writer, told):
    tell(writer, "uid-1", **told)
    assert "deletion_seen" in FAULT.prove(Reach(Server(), writer), since=0)


def test_another_clusters_deletion_is_none(writer, monkeypatch):
    monkeypatch.setattr(delete_cluster, "_SEEN_SECONDS", 0.2)
    tell(writer, "uid-1")
    tell(writer, "uid-2", change="DELETED")
    with pytest.raises(NoEffect):
        FAULT.prove(Reach(Server(), writer), since=0)
