"""Where a RayJob stands: four steps in order, disagreements marked, and what the operator will do next."""

import pytest

from chaos.diagnose.rayjob import standing

from .conftest import NS, World, pod  # type: ignore[import-not-found]


class Attempt(World):
    """A RayJob in its second attempt, running, everything in accord."""

    def __init__(self):
        super().__init__()
        self.cluster["metadata"]["name"] = "train-b"
        self.cluster["metadata"]["ownerReferences"] = [{"uid": "uid-train", "name": "train"}]
        for member in [self.head, *self.workers]:
            member["metadata"]["labels"]["ray.io/cluster"] = "train-b"
            member["metadata"]["labels"]["ray.io/originated-from-cr-name"] = "train"
        self.status = {
            "jobDeploymentStatus": "Running",
            "jobStatus": "RUNNING",
            "rayClusterName": "train-b",
            "jobId": "train-2",
            "failed": 1,
        }
        self.rayjob = {
            "metadata": {"name": "train", "namespace": NS, "uid": "uid-train"},
            "spec": {"backoffLimit": 2, "rayClusterSpec": {}},
            "status": self.status,
        }
        env = [{"name": "RAY_JOB_SUBMISSION_ID", "value": "train-2"}]
        self.submitter = {
            "metadata": {
                "name": "train",
                "namespace": NS,
                "uid": "uid-submitter",
                "ownerReferences": [{"uid": "uid-train"}],
            },
            "spec": {"template": {"spec": {"containers": [{"env": env}]}}},
            "status": {"active": 1},
        }
        self.job = {"submission_id": "train-2", "status": "RUNNING", "message": ""}
        self.objects["rayjobs"] = [self.rayjob]
        self.objects["jobs"] = [self.submitter]
        self.ray = {(NS, "train-b"): {"jobs": [self.job], "actors": []}}

    def standing(self):
        snapshot = self.snapshot()
        estate = snapshot.estate()
        [rayjob] = estate.of("RayJob")
        return standing(rayjob, estate, snapshot)

    def submitter_ended(self, kind):
        self.submitter["status"] = {"conditions": [{"type": kind, "status": "True"}]}


@pytest.fixture
def attempt():
    return Attempt()


def test_the_steps_come_in_order_and_nothing_disagrees(attempt):
    found = attempt.standing()
    assert not found.disagrees
    assert [step.title for step in found.steps] == [
        "The attempt that the status names",
        "Kubernetes' objects of that attempt",
        "Ray's record of the job",
        "What earlier attempts left outside",
    ]
    text = str(found)
    assert "cluster train-b, submission ID train-2" in text
    assert "attempt 2 of at most 3; 1 failed" in text
    assert "asks Ray every 3 s" in found.next


def gone_cluster(a):
    a.cluster = None


def another_jobs_submitter(a):
    a.submitter["metadata"]["ownerReferences"] = [{"uid": "uid-older"}]


def submits_another_id(a):
    a.submitter["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = "train-1"


def ray_is_ahead(a):
    a.job["status"] = "SUCCEEDED"


def ray_has_forgotten(a):
    a.ray[NS, "train-b"]["jobs"] = []


def an_older_cluster_is_left(a):
    a.objects["rayclusters"] = [
        {
            "metadata": {
                "name": "train-a",
                "namespace": NS,
                "ownerReferences": [{"uid": "uid-train"}],
                "deletionTimestamp": "2026-11-30T10:00:00Z",
                "finalizers": ["ray.io/gcs-ft-redis-cleanup-finalizer"],
            }
        }
    ]


def an_older_pod_is_left(a):
    labels = {"ray.io/cluster": "train-a", "ray.io/originated-from-cr-name": "train", "ray.io/node-type": "worker"}
    a.objects["pods"] = [pod("train-a-worker", labels)]


def two_submissions(a):
    a.ray[NS, "train-b"]["jobs"].append({"submission_id": "train-x", "status": "RUNNING"})


def false_failure(a):
    a.status |= {"jobDeploymentStatus": "Failed", "reason": "SubmissionFailed", "failed": 3}


def no_head(a):
    a.head = None


DISAGREEMENTS = {
    gone_cluster: (1, "no RayCluster train-b"),
    another_jobs_submitter: (1, "belongs to another object"),
    submits_another_id: (1, "submits train-1, the status says train-2"),
    ray_is_ahead: (2, "Ray says SUCCEEDED, jobStatus still says RUNNING"),
    ray_has_forgotten: (2, "Ray knows nothing of it"),
    an_older_cluster_is_left: (3, "held by ray.io/gcs-ft-redis-cleanup-finalizer"),
    an_older_pod_is_left: (3, "train-a-worker"),
    two_submissions: (2, "train-x RUNNING"),
    false_failure: (0, "what failed is not Ray's job"),
    no_head: (1, "no head is"),
}


@pytest.mark.parametrize("fact", DISAGREEMENTS, ids=lambda fact: fact.__name__)
def test_what_disagrees_is_marked_in_its_step(attempt, fact):
    fact(attempt)
    step, words = DISAGREEMENTS[fact]
    found = attempt.standing()
    assert any(words in said for said in found.steps[step].disagreements)
    assert f"   !! {found.steps[step].disagreements[0]}" in str(found)
    assert not any(s.disagreements for s in found.steps[:step])


def phase(name, **more):
    def alter(a):
        a.status |= {"jobDeploymentStatus": name, **more}

    return alter


def no_submitter(a):
    a.objects["jobs"] = []
    phase("Initializing", jobStatus="")(a)


def submitter_found(a):
    phase("Initializing", jobStatus="")(a)


def cluster_not_ready(a):
    phase("Initializing", jobStatus="")(a)
    a.cluster["status"]["state"] = ""


def submitter_failed(a):
    a.submitter_ended("Failed")


def submitter_failed_for_good(a):
    a.submitter_ended("Failed")
    a.status["failed"] = 2


def done(a):
    a.job["status"] = "SUCCEEDED"
    a.submitter_ended("Complete")


def http_and_lost(a):
    a.rayjob["spec"]["submissionMode"] = "HTTPMode"
    ray_has_forgotten(a)


def being_deleted(a):
    a.rayjob["metadata"]["deletionTimestamp"] = "2026-11-30T10:00:00Z"


NEXT = {
    phase("", rayClusterName="", jobId=""): "writes them, and goes to Initializing",
    cluster_not_ready: "waits for RayCluster train-b",
    no_submitter: "makes the submitter Job",
    submitter_found: "makes no other, and goes to Running",
    gone_cluster: "again, empty",
    submitter_failed: "to Retrying in the same write",
    submitter_failed_for_good: "no retry is left",
    ray_is_ahead: "waits for the submitter to end",
    done: "goes to Complete with jobStatus SUCCEEDED",
    http_and_lost: "executed a second time",
    phase("Retrying"): "deletes the RayCluster and the submitter Job",
    phase("Complete", jobStatus="SUCCEEDED"): "the cluster stays",
    being_deleted: "asks Ray once to stop the job",
}


@pytest.mark.parametrize("fact", NEXT, ids=lambda fact: fact.__name__)
def test_what_the_operator_will_do_next(attempt, fact):
    fact(attempt)
    assert NEXT[fact] in attempt.standing().next
