"""Side by side with KubeRay's own Go test of the same subject, in one run on one cluster.

`TestRayClusterGCSFaultTolerance` from the operator's module kills gcs_server by SIGTERM, deletes the head pod, deletes the
cluster and looks whether Redis is empty. Here the same three actions are done through the harness, with its assertions: worker
UIDs and restart counts, the actor's process and counter, and the cluster's own keys. Declared windows, of which that test has
none, are taken off and shown.
"""

import os
import subprocess
import time

from benchmarks.figure import Figure
from chaos.checks.actors import actor_process_kept
from chaos.checks.workers_survived import workers_survived
from chaos.errors import StackError
from chaos.experiment import Declaration
from chaos.history.reader import History
from chaos.lab import cluster_target
from chaos.run import Run
from chaos.settings import Level, Settings
from chaos.stack import redis
from chaos.stack.images import cache, catalogue, golang
from chaos.stack.images.build import KUBERAY_MODULE
from chaos.verdict import Outcome

TEST = "TestRayClusterGCSFaultTolerance"
REDIS_OF_TEST = "docker.io/library/redis:7.4"
LIMIT = 1.0


def measure(console):
    settings = Settings()
    with Run(settings, console) as run:
        theirs = go_test(run, console)
        ours, windows = same_actions(run)
    return [
        Figure(
            "our three actions against KubeRay's own test", (ours - windows) / theirs, LIMIT, "×",
            f"{ours:.0f} s less {windows:.0f} s of declared windows, against {theirs:.0f} s",
        )
    ]  # fmt: skip


def go_test(run, console):
    """Seconds that KubeRay's test takes, compiled before."""
    version = run.settings.versions.kuberay
    module = golang.module_folder(KUBERAY_MODULE, version)

    def build(result, progress):
        subprocess.run(
            [golang.toolchain(), "test", "-c", "-o", result, "./test/e2e"], cwd=module, check=True, capture_output=True
        )

    with console.step("compiling KubeRay's test", expect=90):
        program = cache.cached("programs", f"kuberay-e2e-{version}", build)
    for node in run.stack.kind.nodes():
        # Their test names a Redis image of its own; what is on the nodes serves under that name as well.
        run.stack.engine.exec(
            node, ["ctr", "-n", "k8s.io", "images", "tag", "--force", catalogue.REDIS_IMAGE, REDIS_OF_TEST]
        )
    environment = {
        **os.environ,
        "KUBECONFIG": str(run.stack.folder.kubeconfig),
        "KUBERAY_TEST_RAY_IMAGE": catalogue.ray_image(run.settings.versions.ray),
        "KUBERAY_TEST_RAY_VERSION": run.settings.versions.ray,
        "KUBERAY_TEST_TIMEOUT_MEDIUM": "5m",
        "KUBERAY_TEST_TIMEOUT_LONG": "10m",
    }
    with console.step(f"KubeRay's {TEST}", expect=140):
        began = time.monotonic()
        done = subprocess.run(
            [program, "-test.run", f"^{TEST}$", "-test.v"], cwd=module / "test" / "e2e", env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - began
    if done.returncode != 0:
        raise StackError(f"KubeRay's own test failed here:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
    return seconds


def same_actions(run):
    """Seconds of the same actions here, and of the declared windows in them."""
    lab = run.begin("rival", Declaration((("FT-2", "rival"), ("FT-4", "rival")), Level.SMOKE, 300))
    began = time.monotonic()
    ft = lab.ray_cluster("rival", ft=True)
    lab.ready(ft)
    lab.start_actor(ft, "counter")
    lab.steady({ft: ["counter"]})
    with lab.inject(lab.terminate_gcs(ft)) as quiet:
        lab.seen(
            lambda e: e["what"] == "object" and e.get("uid") == quiet.fault.uid
            and e["object"]["status"]["containerStatuses"][0]["restartCount"] == 1,
            what="the head's container restarted", deadline=120, since=quiet.began,
        )  # fmt: skip
        lab.functional_again({ft: ["counter"]})
    lab.look_twice({ft: ["counter"]})
    with lab.inject(lab.delete_head(ft)) as head:
        lab.functional_again({ft: ["counter"]})
    lab.settle({ft: ["counter"]})
    uid = ft.get(lab.cluster)["metadata"]["uid"]
    # A fault as well, so that what the deletion does is not of the head's window.
    with lab.inject(lab.delete_cluster(ft)) as deletion:
        lab.seen(
            lambda e: e["what"] == "object" and e.get("uid") == uid and e["change"] == "DELETED",
            what="the RayCluster gone", deadline=120, since=deletion.began,
        )  # fmt: skip
    left = keys_of(lab, uid)
    seconds = time.monotonic() - began
    a = cluster_target(ft)
    # After the quiet death the head is the same pod; a settled look at the workers comes with the second fault's window.
    lab.expect("FT-2", "rival", workers_survived(**a).during(head.group))
    lab.expect(
        "FT-4", "rival", actor_process_kept(**a, actor="counter").during(quiet.group),
        actor_process_kept(**a, actor="counter").during(head.group),
    )  # fmt: skip
    verdicts = run.end(lab)
    bad = [v for v in verdicts if v.verdict is not Outcome.HOLDS]
    if bad or left:
        raise StackError(f"the same actions did not end well here: {[v.reason for v in bad]} {left} keys left")
    view = History(run.writer.entries()).experiment("rival")
    windows = sum(phase.detail["seconds"] for phase in view.phases("observe"))
    return seconds, windows


def keys_of(lab, uid):
    """How many keys of a cluster are left in Redis."""
    primary = lab.redis_primary_pod()["metadata"]["name"]
    count = ["sh", "-c", 'redis-cli --scan --pattern "$0" | wc -l', f"RAY{uid}*"]
    return int(lab.cluster.exec(redis.NAMESPACE, primary, count, container="redis", timeout=15).stdout)
