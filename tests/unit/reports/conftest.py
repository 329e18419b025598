from __future__ import annotations

import pytest

from chaos.checks import (
    actor_process_kept,
    functional_twice,
    head_recovery,
    one_submitter_job,
    same_job_reused,
    workers_lost,
    workers_survived,
)
from chaos.judge import judge
from chaos.versions.table import Table

WHERE = {"namespace": "ns", "cluster": "c1"}
RUN = {
    "versions": {"kuberay": "1.6.2", "ray": "2.60.0", "kubernetes": "1.34.4", "redis": "8.2.1"},
    "seed": 20270115,
    "command": "kuberay-chaos run --seed 20270115 test_head_deletion test_operator_kill test_head_loss_without_ft",
    "started": 1_800_000_000,
    "finished": 1_800_000_400,
    "interrupted": False,
}


class Realistic:
    """A run of three experiments: one that holds, one with a new finding, one whose control did not bite."""

    def __init__(self, story):
        story.chapter("test_head_deletion", 0)
        story.head_loss(("FT-2", "delete, force"), ("FT-4", "actor on a worker"))
        for number in range(3):
            story.pod(1, f"redis-{number}", f"uid-redis-{number}", "redis", "ADDED")
        checks = [
            workers_survived(**WHERE),
            head_recovery(**WHERE, within=60),
            functional_twice(**WHERE),
        ]
        story.add("expect", 129, claim="FT-2", arm="delete, force", checks=[c.as_json() for c in checks], control=None)
        kept = [actor_process_kept(**WHERE, actor="counter").as_json()]
        story.add("expect", 129.1, claim="FT-4", arm="actor on a worker", checks=kept, control=None)

        story.chapter("test_operator_kill", 140)
        story.operator_kill()
        story.pod(
            20.1, "job1-s4x2p", "uid-submitter", "submitter", "ADDED", phase="Pending", ready=False, container=None
        )
        story.pod(22, "job1-s4x2p", "uid-submitter", "submitter")
        story.pod(
            70, "job1-s4x2p", "uid-submitter", "submitter", phase="Succeeded", ready=False, container="terminated"
        )
        story.job(41, "uid-job-2", name="job1-again")
        reuse = [one_submitter_job(namespace="ns", rayjob="job1"), same_job_reused(namespace="ns", rayjob="job1")]
        story.add("expect", 99, claim="OP-2", arm="kill", checks=[c.as_json() for c in reuse], control=None)

        story.chapter("test_head_loss_without_ft", 250)
        story.head_loss(("FT-1", "delete"), ("FT-2", "delete"))
        story.pod(22.9, "w1", "uid-w1", "worker", ready=False)
        story.pod(69, "w1", "uid-w1", "worker", ready=False, container="terminated", exit_code=1)
        story.pod(70, "w1", "uid-w1", "worker", ready=False, restarts=1, exit_code=1)
        story.pod(81, "w1", "uid-w1", "worker", restarts=1, exit_code=1)
        story.step("partition", "record", 89, undo=["pod-chain"])
        story.step("partition", "apply", 90)
        story.step("partition", "undone", 105)
        survived = [workers_survived(**WHERE).as_json()]
        control = {"arm": "with fault tolerance", "checks": [functional_twice(**WHERE).as_json()]}
        lost = [workers_lost(**WHERE).as_json()]
        story.add("expect", 128, claim="FT-1", arm="delete", checks=lost, control=control)
        story.add("expect", 129, claim="FT-2", arm="delete", checks=survived, control=None)
        self.story = story

    @property
    def history(self):
        return self.story.all()

    @property
    def verdicts(self):
        return judge(self.history, table=Table.load(), versions=RUN["versions"])


@pytest.fixture
def run():
    return dict(RUN)


@pytest.fixture
def realistic(story):
    return Realistic(story)
