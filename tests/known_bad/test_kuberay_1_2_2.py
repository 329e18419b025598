"""KubeRay 1.2.2: a submitter that was replaced is refused by Ray, and how fault tolerance is asked for since 1.3 is pruned.

The harness must report exactly that.
"""

import argparse
import json

import pytest

from chaos import paths
from chaos.audit.command import audit
from chaos.diagnose.command import diagnose
from chaos.experiments import test_retries
from chaos.snapshot import bundle, take
from chaos.stack import redis
from chaos.stack.images import catalogue
from chaos.stack.manifest import render
from chaos.stack.ray import RayClusterHandle

EXPERIMENT = test_retries.test_submitter_deleted


@pytest.mark.level("full")
def test_a_replaced_submitter_is_reported_as_failing_its_rayjob(chaos_run, elsewhere):
    with chaos_run.operator("1.2.2"):
        lab = elsewhere.begin("known_bad_1_2_2", EXPERIMENT)
        EXPERIMENT(lab)
        verdict = elsewhere.defect(lab, "OP-6", "ray-project/kuberay#2154")
    assert "SubmissionFailed" in verdict.reason


@pytest.fixture
def applied(chaos_run):
    """A cluster that asks for fault tolerance, applied by kubectl to an operator that does not know how; Ready."""
    with chaos_run.operator("1.2.2"):
        lab, ray = chaos_run.lab, chaos_run.settings.versions.ray
        try:
            handle = RayClusterHandle(lab.namespace("pruned"), "ray", ft=True, workers=1)
            values = {
                "NAMESPACE": handle.namespace, "NAME": handle.name, "IMAGE": catalogue.ray_image(ray), "RAY_VERSION": ray,
                "WORKERS": handle.workers, "REDIS_ADDRESS": redis.SENTINEL_ADDRESS,
            }  # fmt: skip
            [document] = render(paths.manifests() / "raycluster.yaml", values)
            # By itself kubectl refuses what it doesn't find in the schema. Helm and all who talk to the API don't.
            kubectl = lab.cluster.run_kubectl(
                ["apply", "--validate=warn", "-f", "-"], stdin=json.dumps(document).encode(), timeout=60
            )
            kubectl.require("kubectl apply")
            lab.ready(handle)
            yield lab, handle
        finally:
            lab.close()


@pytest.mark.level("full")
def test_options_that_are_pruned_are_named_by_audit_and_diagnose(applied, tmp_path):
    lab, handle = applied
    assert "gcsFaultToleranceOptions" not in lab.raycluster(handle)["spec"]
    head = lab.head(handle)
    [container] = head["spec"]["containers"]
    assert "RAY_REDIS_ADDRESS" not in {variable["name"] for variable in container["env"]}

    asked = argparse.Namespace(
        paths=[], context=None, kubeconfig=lab.cluster.kubeconfig, redis=False, measured=None, state_outside=None,
        kuberay=None, format="json",
    )  # fmt: skip
    report, code = audit(asked)
    subject = f"RayCluster {handle.namespace}/{handle.name}"
    [told] = [f for f in json.loads(report) if (f["subject"], f["item"]) == (subject, "ft-requirements")]
    assert code == 1
    assert told["verdict"] == "broken"
    assert "pruned in silence" in told["reason"]

    file = tmp_path / "bundle.tar.gz"
    bundle.write(take.whole(lab.cluster, [handle.namespace]), file)
    words = [str(file), f"{handle.namespace}/{handle.name}"]
    report, code = diagnose(argparse.Namespace(words=words, context=None, kubeconfig=None, format="json"))
    [cause] = json.loads(report)
    assert code == 1
    assert cause["cause"] == "ft-not-applied"
    assert "pruned in silence" in cause["reason"]
