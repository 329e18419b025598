"""The catalogue: every claim's identifier and its sentence.

A claim never leaves the catalogue. One that can't be tested on a given stack reports ``unknown`` with the reason; one
that a version doesn't offer is listed as not applicable.
"""

from __future__ import annotations

CLAIMS: dict[str, str] = {
    # Operator restart, RayJob
    "OP-1": "A restarted operator carries on from spec, status and existing objects; nothing in its memory matters.",
    "OP-2": "Killed after creating the submitter Job and before recording it, the operator uses that Job again.",
    "OP-3": "When the answer to a create is lost, a second create is refused and the existing object is read.",
    "OP-4": "An operator restart is no failure of the job and opens no new attempt.",
    "OP-5": "Only spec.backoffLimit opens a new attempt, with a new cluster, a new submitter Job and new names.",
    "OP-6": "submitterConfig.backoffLimit retries the submitter alone; the Ray job keeps its identity and runs once.",
    "OP-7": "jobDeploymentStatus and jobStatus are two things and may disagree for a while.",
    "OP-8": "Ray refuses a submission ID that it already has a record of.",
    "OP-9": "The refusal lasts only as long as the record: for the outside world nothing runs exactly once.",
    "OP-10": "Deleting a RayJob asks Ray to stop the job and doesn't wait until it has stopped.",
    "OP-11": "Deleting a RayJob takes everything it owns with it; restarting the operator deletes nothing.",
    "OP-12": "Losing a RayJob's head, driver or worker is for Ray or the user to recover from, not for its status.",
    "OP-13": "Two operators never act at the same time.",
    "OP-14": "Another operator version, CRDs first, neither restarts nor recreates a pod.",
    # GCS fault tolerance
    "FT-1": "Without GCS fault tolerance, losing the head costs every worker; losing workers never costs the cluster.",
    "FT-2": "With GCS fault tolerance, the workers survive the loss of the head.",
    "FT-3": "Cluster metadata comes back from Redis: actor names, key-value store, job table, placement groups, nodes.",
    "FT-4": "A detached actor on a worker lives on because its process did, not because its state was saved.",
    "FT-5": "An actor's in-memory state is not recovered: it starts anew, or stays dead.",
    "FT-6": "A driver on the head is not recovered; a submission job pinned to the head ends as failed.",
    "FT-7": "Once the GCS is gone the head exits after its reconnect time-out, and the workers wait longer.",
    "FT-8": "KubeRay gives workers a reconnect time-out of 600 s and leaves the head at 60 s.",
    "FT-9": "Workers whose reconnect time-out is shorter than the outage die, fault tolerance or not.",
    "FT-10": "Recovery of the head is measured, from its deletion to Ready and to functional.",
    "FT-11": "A single Redis without persistence only moves the single point of failure.",
    "FT-12": "With highly available Redis, losing the primary is survived.",
    "FT-13": "Redis outages and partitions are survived by the workers, and all is functional after healing.",
    "FT-14": "A wrong Redis password, address or network policy makes the head crash-loop, and the cause can be named.",
    "FT-15": "Deleting a fault-tolerant cluster removes its keys from Redis, and only its own.",
    "FT-16": "When that clean-up fails the cluster goes all the same and its keys stay behind.",
    "FT-17": "Redis needs authentication and a network policy, and both keep strangers out.",
    "FT-18": "Fault tolerance shortens the outage by the workers' start-up; the autoscaler comes back with the head.",
    # Before adoption, and when something is wrong
    "CK-1": "The audit command judges whether a cluster is fit for GCS fault tolerance.",
    "CK-2": "The diagnose command names the cause of a fault-tolerance problem, with evidence and the fix.",
    "CK-3": "The diagnose command says where a RayJob is, what disagrees and what the operator will do next.",
}


def sentence(claim: str) -> str:
    """The claim's sentence, or an empty string for an identifier that the catalogue doesn't have."""
    return CLAIMS.get(claim, "")
