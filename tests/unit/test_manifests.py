"""The manifests: placeholders are complete and safe, and what the stack relies on is in them."""

import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from chaos import paths, workloads
from chaos.stack import kuberay, manifest, ray, redis
from chaos.stack.cluster import Cluster

VALUES: dict[str, dict[str, str | int]] = {
    "kube-router.yaml": {"IMAGE": "router:1"},
    "storage.yaml": {"IMAGE": "provisioner:1", "HELPER_IMAGE": "helper:1"},
    "redis-ha.yaml": {"IMAGE": "redis:1"},
    "redis-single.yaml": {"IMAGE": "redis:1", "NAMESPACE": "ns"},
    "redis-sharded.yaml": {"IMAGE": "redis:1", "NAMESPACE": "ns"},
    "raycluster.yaml": {
        "IMAGE": "ray:1",
        "NAMESPACE": "ns",
        "NAME": "c",
        "RAY_VERSION": "2.60.0",
        "WORKERS": 2,
        "REDIS_ADDRESS": "redis:6379",
    },
    "rayjob.yaml": {
        "IMAGE": "ray:1",
        "NAMESPACE": "ns",
        "NAME": "j",
        "RAY_VERSION": "2.60.0",
        "REDIS_ADDRESS": "redis:6379",
        "ENTRYPOINT": "python /chaos/ledger_job.py",
        "LEDGER": "/ledger/r/j.jsonl",
    },
}


def documents(name: str) -> list[dict[str, Any]]:
    return manifest.render(paths.manifests() / name, VALUES[name])


def pod_specs(name: str) -> list[dict[str, Any]]:
    """Every pod spec in a manifest, wherever it is."""
    found = []

    def search(node: Any) -> None:
        if isinstance(node, dict):
            if "containers" in node:
                found.append(node)
            for value in node.values():
                search(value)
        elif isinstance(node, list):
            for value in node:
                search(value)

    search(documents(name))
    return found


class FakeCluster:
    """Records what would be created."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []

    def create(self, resource: str, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        self.created.append(body)
        return body


def create_in(cluster: FakeCluster, **asked: Any) -> None:
    ray.create_ray_cluster(cluster, "ns", "c", image="ray:1", ray_version="2.60.0", **asked)  # type: ignore[arg-type]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "m.yaml"
    path.write_text(text, "utf-8")
    return path


def test_every_manifest_is_tested_here() -> None:
    assert {path.name for path in paths.manifests().glob("*.yaml")} == VALUES.keys()


@pytest.mark.parametrize("name", VALUES)
def test_every_document_can_be_applied(name: str) -> None:
    for document in documents(name):
        assert document["apiVersion"]
        assert document["kind"]
        assert document["metadata"]["name"]


@pytest.mark.parametrize("name", VALUES)
def test_every_placeholder_is_explained_to_who_applies_by_hand(name: str) -> None:
    text = (paths.manifests() / name).read_text("utf-8")
    comments = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    explained = comments + ("raycluster.yaml" in comments) * (paths.manifests() / "raycluster.yaml").read_text("utf-8")
    for placeholder in VALUES[name]:
        assert f"${{{placeholder}}}" in explained


@pytest.mark.parametrize("name", VALUES)
def test_images_come_from_the_caller_and_are_never_pulled_when_present(name: str) -> None:
    for spec in pod_specs(name):
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            assert container["image"] in VALUES[name].values()
            assert container["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("placeholder", ["IMAGE", "SURPLUS"])
def test_missing_and_surplus_values_are_refused(name: str, placeholder: str) -> None:
    values: dict[str, str | int] = {**VALUES[name], "SURPLUS": "x"} if placeholder == "SURPLUS" else {}
    with pytest.raises(ValueError, match=r"\$\{|SURPLUS"):
        manifest.render(paths.manifests() / name, values)


def test_a_value_cannot_change_the_structure(tmp_path: Path) -> None:
    hostile = 'x"\nother: {injected: true} # ${B}'
    [document] = manifest.render(written(tmp_path, "a: ${A}\nb:\n- p-${A}\n"), {"A": hostile})
    assert document == {"a": hostile, "b": [f"p-{hostile}"]}


def test_a_lone_placeholder_keeps_its_type(tmp_path: Path) -> None:
    [document] = manifest.render(written(tmp_path, "n: ${N}\ns: x${N}\n"), {"N": 2})
    assert document == {"n": 2, "s": "x2"}


def test_shell_variables_are_not_placeholders(tmp_path: Path) -> None:
    [document] = manifest.render(written(tmp_path, "run: echo $HOME ${lower} ${X:-y}\n"))
    assert document == {"run": "echo $HOME ${lower} ${X:-y}"}


def test_redis_scripts_are_valid_shell() -> None:
    scripts = next(d for d in documents("redis-ha.yaml") if d["kind"] == "ConfigMap")["data"]
    assert scripts
    for script in scripts.values():
        subprocess.run([shutil.which("sh") or "sh", "-n"], input=script.encode(), check=True)


def test_no_password_is_on_a_command_line_or_in_a_manifest() -> None:
    for name in VALUES:
        assert not [d for d in documents(name) if d["kind"] == "Secret"]
        text = (paths.manifests() / name).read_text("utf-8")
        assert "redis-cli -a" not in text
        assert "--requirepass" not in text


def test_redis_can_lose_one_node_and_lets_only_our_heads_in() -> None:
    by_kind = {d["kind"]: d for d in documents("redis-ha.yaml")}
    [spec] = pod_specs("redis-ha.yaml")
    [rule] = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    assert by_kind["PodDisruptionBudget"]["spec"]["minAvailable"] == 2
    [ingress] = by_kind["NetworkPolicy"]["spec"]["ingress"]
    members, heads = ingress["from"]
    assert "namespaceSelector" not in members
    assert heads["namespaceSelector"]["matchLabels"] == ray.OWNED
    head = documents("raycluster.yaml")[0]["spec"]["headGroupSpec"]["template"]
    assert heads["podSelector"]["matchLabels"].items() <= head["metadata"]["labels"].items()


def test_names_in_code_and_manifests_agree() -> None:
    stateful_set = next(d for d in documents("redis-ha.yaml") if d["kind"] == "StatefulSet")
    assert stateful_set["metadata"] == {"name": "redis", "namespace": redis.NAMESPACE}
    assert len(redis.MEMBERS) == stateful_set["spec"]["replicas"]
    scripts = next(d for d in documents("redis-ha.yaml") if d["kind"] == "ConfigMap")["data"]
    assert f'members="{" ".join(redis.MEMBERS)}"' in scripts["lib.sh"]
    assert f"sentinel monitor {redis.SERVICE_NAME} " in scripts["join.sh"]
    for name in ("raycluster.yaml", "rayjob.yaml"):
        text = (paths.manifests() / name).read_text("utf-8")
        assert f"name: {workloads.CONFIG_MAP}\n" in text
        assert f"mountPath: {workloads.MOUNT}\n" in text
        assert f"name: {redis.SECRET}\n" in text


@pytest.mark.parametrize("ft", [True, False])
def test_fault_tolerance_and_environment_are_as_asked(ft: bool) -> None:
    cluster = FakeCluster()
    create_in(cluster, ft=ft, worker_env={"ONLY_WORKERS": "1"})
    [created] = cluster.created
    assert ("gcsFaultToleranceOptions" in created["spec"]) is ft
    [head] = created["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    [worker] = created["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    assert "ONLY_WORKERS" not in {variable["name"] for variable in head["env"]}
    assert {"name": "ONLY_WORKERS", "value": "1"} in worker["env"]


def test_fault_tolerance_can_be_asked_for_by_annotation() -> None:
    cluster = FakeCluster()
    create_in(cluster, ft=True, annotated=True)
    [created] = cluster.created
    assert created["metadata"]["annotations"] == {"ray.io/ft-enabled": "true"}
    assert "gcsFaultToleranceOptions" not in created["spec"]
    head = created["spec"]["headGroupSpec"]
    environment = {each["name"]: each for each in head["template"]["spec"]["containers"][0]["env"]}
    assert environment["RAY_REDIS_ADDRESS"]["value"] == redis.SENTINEL_ADDRESS
    assert environment["REDIS_PASSWORD"]["valueFrom"] == {"secretKeyRef": {"name": redis.SECRET, "key": "password"}}
    assert head["rayStartParams"]["redis-password"] == "$REDIS_PASSWORD"
    [worker] = created["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    assert "REDIS_PASSWORD" not in {variable["name"] for variable in worker["env"]}


def test_a_rayjobs_workers_do_the_work_and_reach_the_ledger() -> None:
    cluster = FakeCluster()
    handle = ray.create_rayjob(
        cluster,  # type: ignore[arg-type]
        "ns",
        "j",
        ft=False,
        image="ray:1",
        ray_version="2.60.0",
        entrypoint="python /chaos/ledger_job.py",
        ledger="/ledger/r/j.jsonl",
        workers=2,
    )
    spec = cluster.created[0]["spec"]["rayClusterSpec"]
    assert spec["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    [group] = spec["workerGroupSpecs"]
    assert [group[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [2, 2, 2]
    [head], [worker] = (each["template"]["spec"]["containers"] for each in (spec["headGroupSpec"], group))
    assert {"name": "CHAOS_LEDGER", "value": handle.ledger} in worker["env"]
    assert worker["volumeMounts"] == head["volumeMounts"]
    assert (worker["name"], "ports" in worker, "ports" in head) == ("ray-worker", False, True)


def test_the_external_storage_namespace_is_kuberays_choice_unless_given() -> None:
    cluster = FakeCluster()
    for storage in ("", "own"):
        create_in(cluster, ft=True, storage=storage)
    default, own = (created["spec"]["gcsFaultToleranceOptions"] for created in cluster.created)
    assert "externalStorageNamespace" not in default
    assert own["externalStorageNamespace"] == "own"


@pytest.mark.parametrize("most_workers", [0, 3])
def test_an_autoscaler_is_there_when_it_has_something_to_do(most_workers: int) -> None:
    cluster = FakeCluster()
    create_in(cluster, ft=True, workers=1, most_workers=most_workers)
    [created] = cluster.created
    [group] = created["spec"]["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (1, most_workers or 1)
    assert created["spec"].get("enableInTreeAutoscaling", False) is bool(most_workers)
    assert created["spec"].get("autoscalerOptions", {}).get("version") == ("v2" if most_workers else None)


def test_a_ray_clusters_spec_can_be_changed_in_parts() -> None:
    cluster = FakeCluster()
    password = {"valueFrom": None, "value": "another"}
    create_in(
        cluster,
        ft=True,
        spec={"gcsFaultToleranceOptions": {"redisPassword": password}, "upgradeStrategy": {"type": "None"}},
    )
    [created] = cluster.created
    options = created["spec"]["gcsFaultToleranceOptions"]
    assert options == {"redisAddress": redis.SENTINEL_ADDRESS, "redisPassword": {"value": "another"}}
    assert created["spec"]["upgradeStrategy"] == {"type": "None"}
    assert created["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_a_change_gets_into_every_group_of_workers() -> None:
    cluster = FakeCluster()
    selector = {"kubernetes.io/hostname": "n1"}
    create_in(cluster, ft=True, spec={"workerGroupSpecs": {"template": {"spec": {"nodeSelector": selector}}}})
    [created] = cluster.created
    [group] = created["spec"]["workerGroupSpecs"]
    assert group["groupName"] == "workers"
    assert group["template"]["spec"]["nodeSelector"] == selector
    assert group["template"]["spec"]["containers"]
    assert "nodeSelector" not in created["spec"]["headGroupSpec"]["template"]["spec"]


def test_a_rayjobs_spec_can_be_changed() -> None:
    cluster = FakeCluster()
    handle = ray.create_rayjob(
        cluster,  # type: ignore[arg-type]
        "ns",
        "j",
        ft=False,
        image="ray:1",
        ray_version="2.60.0",
        entrypoint="python /chaos/ledger_job.py",
        ledger="/ledger/r/j.jsonl",
        spec={"backoffLimit": 2},
    )
    [created] = cluster.created
    assert created["spec"]["backoffLimit"] == 2
    assert created["spec"]["entrypoint"] == "python /chaos/ledger_job.py"
    [head] = created["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    assert {"name": "CHAOS_LEDGER", "value": handle.ledger} in head["env"]


class Serving:
    """A cluster whose definitions are served from the second look on."""

    def __init__(self, statuses: list[object]) -> None:
        self.statuses = statuses

    def apply(self, documents: object) -> None:
        """Takes anything."""

    def get(self, resource: str, namespace: str | None, name: str) -> dict[str, object]:
        return {"status": self.statuses.pop(0)}


def test_a_definition_whose_status_has_no_conditions_yet_is_waited_for() -> None:
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    serving = Serving([{"conditions": None}, {}, established])
    kuberay.ensure_definitions(cast(Cluster, serving), [{"metadata": {"name": "rayjobs.ray.io"}}])
    assert serving.statuses == []
