"""What the user gave stays as it is but for what the stack or an experiment can't do without, and nothing is changed unlisted."""

import copy
import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.estate.resource import Resource
from chaos.own.beside import lacking, references
from chaos.own.edit import differences
from chaos.own.file import Kind, Own
from chaos.own.fit import AS_ASKED, fit
from chaos.stack import ray

IMAGE, RAY = "docker.io/rayproject/ray:2.60.0", "2.60.0"
THEIRS = "registry.example.com/team/ray:2.46.0"
PROBE = {"exec": {"command": ["ray", "status"]}, "timeoutSeconds": 9}


def ours(kind=Kind.RAYCLUSTER, workers=2):
    if kind is Kind.RAYCLUSTER:
        return ray.raycluster("ns", "ray", IMAGE, RAY, workers=workers)
    return ray.rayjob("ns", "job", IMAGE, RAY, entrypoint="python /chaos/ledger_job.py", ledger="/ledger/x")


def made(document, *others, workers=2):
    kind = Kind(document["kind"])
    resources = tuple(Resource(each, "mine.yaml") for each in others)
    return fit(Own(Path("mine.yaml"), kind, document, resources), ours(kind, workers))


def pod(**more):
    container = {"name": "main", "image": THEIRS, "resources": {"limits": {"cpu": "4", "memory": "16Gi"}}}
    return {"spec": {"containers": [container], **more}}


def cluster(*groups, **more):
    head = {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": pod()}
    workers = [{"groupName": name, "rayStartParams": {}, "replicas": 3, "template": pod()} for name in groups or ("a",)]
    spec = {"rayVersion": "2.46.0", "headGroupSpec": head, "workerGroupSpecs": workers, **more}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "mine"}, "spec": spec}


def job(**more):
    spec = {"entrypoint": "python theirs.py", "rayClusterSpec": cluster()["spec"], **more}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "mine"}, "spec": spec}


def head(document):
    spec = document["spec"]
    return spec.get("rayClusterSpec", spec)["headGroupSpec"]


def main(group):
    return group["template"]["spec"]["containers"][0]


def groups(document):
    spec = document["spec"]
    spec = spec.get("rayClusterSpec", spec)
    return [spec["headGroupSpec"], *spec.get("workerGroupSpecs", [])]


def listed(fitted):
    return {change.path: (change.before, change.after) for change in fitted.changes}


# --- Ray clusters ---------------------------------------------------------------------------------------------------


def test_what_the_user_tests_is_kept():
    document = cluster()
    for group in groups(document):
        main(group).update(
            readinessProbe=PROBE, livenessProbe=PROBE, startupProbe=PROBE, lifecycle={"preStop": {"sleep": {"seconds": 2}}},
            env=[{"name": "RAY_gcs_rpc_server_reconnect_timeout_s", "value": "77"}], command=["sh", "-c", "true"],
            securityContext={"runAsUser": 1000},
        )  # fmt: skip
        group["rayStartParams"] |= {"metrics-export-port": "8080", "min-worker-port": "10002"}
        group["template"]["metadata"] = {"labels": {"team": "t"}, "annotations": {"a": "b"}}
        group["template"]["spec"] |= {"restartPolicy": "Always", "securityContext": {"fsGroup": 100}}
    document["metadata"] |= {"labels": {"team": "t"}, "annotations": {"ray.io/overwrite-container-cmd": "true"}}
    document["spec"] |= {"headServiceAnnotations": {"x": "y"}, "upgradeStrategy": {"type": "Recreate"}}
    result = made(document).document
    for before, after in zip(groups(document), groups(result), strict=True):
        for key in ("readinessProbe", "livenessProbe", "startupProbe", "lifecycle", "command", "securityContext"):
            assert main(after)[key] == main(before)[key]
        assert main(before)["env"][0] in main(after)["env"]
        assert before["rayStartParams"].items() <= after["rayStartParams"].items()
        assert before["template"]["metadata"]["labels"].items() <= after["template"]["metadata"]["labels"].items()
        assert after["template"]["metadata"]["annotations"] == {"a": "b"}
        for key in ("restartPolicy", "securityContext"):
            assert after["template"]["spec"][key] == before["template"]["spec"][key]
    assert result["metadata"]["labels"] == {"team": "t"}
    assert result["metadata"]["annotations"] == {"ray.io/overwrite-container-cmd": "true"}
    assert result["spec"]["headServiceAnnotations"] == {"x": "y"}
    assert result["spec"]["upgradeStrategy"] == {"type": "Recreate"}


def test_image_and_version_are_the_stacks_and_how_to_have_ones_own_is_told():
    fitted = made(cluster())
    assert {main(group)["image"] for group in groups(fitted.document)} == {IMAGE}
    [version] = [change for change in fitted.changes if change.path == "spec.rayVersion"]
    assert (version.before, version.after) == ("2.46.0", RAY)
    assert "--ray 2.46.0" in version.why


@pytest.mark.parametrize(
    ("given", "requests", "limits"),
    [
        (None, {"memory": "1Gi"}, {"memory": "2Gi"}),
        ({"limits": {"cpu": "8", "memory": "64Gi"}}, {"cpu": "100m", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"}),
        ({"requests": {"cpu": "8"}}, {"cpu": "100m", "memory": "1Gi"}, {"memory": "2Gi"}),
        ({"requests": {"cpu": "50m", "memory": "512Mi"}, "limits": {"cpu": 1, "memory": "1G"}},
         {"cpu": "50m", "memory": "512Mi"}, {"cpu": 1, "memory": "1G"}),
        ({"limits": {"cpu": "50m", "memory": "500Mi", "nvidia.com/gpu": 8, "example.com/fpga": "1", "hugepages-2Mi": "1Gi"}},
         {}, {"cpu": "50m", "memory": "500Mi"}),
        ({"limits": {"cpu": "much"}}, {"memory": "1Gi"}, {"cpu": "much", "memory": "2Gi"}),
    ],
)  # fmt: skip
def test_sizes_are_as_large_as_ours_at_most(given, requests, limits):
    document = cluster()
    main(head(document))["resources"] = given
    if given is None:
        del main(head(document))["resources"]
    result = main(head(made(document).document))["resources"]
    assert result.get("requests", {}) == requests
    assert result["limits"] == limits


@pytest.mark.parametrize(
    ("names", "asked", "shares"),
    [
        (("a",), 2, [2]),
        (("a", "b"), 2, [1, 1]),
        (("a", "b"), 1, [1, 0]),
        (("a", "b", "c"), 5, [2, 2, 1]),
        (("a",), 0, [0]),
    ],
)
def test_workers_are_shared_out_among_the_groups(names, asked, shares):
    result = made(cluster(*names), workers=asked).document
    counts = [[group[key] for key in ("replicas", "minReplicas", "maxReplicas")] for group in groups(result)[1:]]
    assert counts == [[share] * 3 for share in shares]


def test_that_workers_are_as_asked_is_listed_also_where_they_are_as_many_already():
    document = cluster()
    document["spec"]["workerGroupSpecs"][0]["replicas"] = 2
    assert listed(made(document))["spec.workerGroupSpecs[a].replicas"] == ("2", AS_ASKED)


def test_a_cluster_without_workers_gets_a_group_of_ours():
    document = cluster()
    del document["spec"]["workerGroupSpecs"]
    [group] = groups(made(document).document)[1:]
    assert group == ours()["spec"]["workerGroupSpecs"][0]
    no_job = job()
    del no_job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert groups(made(no_job).document)[1:] == []


def test_a_group_of_several_hosts_or_one_that_waits_becomes_an_ordinary_one():
    document = cluster(suspend=True, managedBy="kueue.x-k8s.io/multikueue")
    document["spec"]["workerGroupSpecs"][0] |= {
        "numOfHosts": 4, "suspend": True, "scaleStrategy": {"workersToDelete": ["x"]}, "idleTimeoutSeconds": 60,
    }  # fmt: skip
    result = made(document).document["spec"]
    [group] = result["workerGroupSpecs"]
    assert group["numOfHosts"] == 1
    assert group["idleTimeoutSeconds"] == 60
    assert not {"suspend", "scaleStrategy"} & group.keys()
    assert not {"suspend", "managedBy"} & result.keys()


def test_the_head_takes_no_work_wherever_that_is_said():
    assert head(made(cluster()).document)["rayStartParams"]["num-cpus"] == "0"
    document = cluster()
    head(document)["resources"] = {"CPU": "4", "GPU": "1", "shard": "2"}
    head(document)["rayStartParams"]["num-cpus"] = "4"
    result = head(made(document).document)
    assert result["resources"] == {"CPU": "0", "shard": "2"}
    assert "num-cpus" not in result["rayStartParams"]


def test_what_ray_is_told_to_take_of_the_machine_is_left_to_it_where_it_is_more_than_there_is():
    document = cluster()
    head(document)["rayStartParams"] |= {"memory": "64000000000", "object-store-memory": "20000000000", "num-gpus": "2"}
    document["spec"]["workerGroupSpecs"][0]["rayStartParams"] = {
        "memory": "1000000000",
        "object-store-memory": "500000000",
    }
    first, second = groups(made(document).document)
    assert first["rayStartParams"].keys() == {"dashboard-host", "num-cpus"}
    assert second["rayStartParams"] == {"memory": "1000000000", "object-store-memory": "500000000"}


def test_fault_tolerance_is_ours_whichever_way_theirs_was_asked_for():
    document = cluster(gcsFaultToleranceOptions={"redisAddress": "theirs:6379", "externalStorageNamespace": "theirs"})
    document["metadata"]["annotations"] = {
        "ray.io/ft-enabled": "true",
        "ray.io/external-storage-namespace": "t",
        "a": "b",
    }
    head(document)["rayStartParams"] |= {"redis-password": "p", "redis-username": "u"}
    names = ("RAY_REDIS_ADDRESS", "REDIS_PASSWORD", "REDIS_USERNAME", "RAY_external_storage_namespace", "KEPT")
    main(head(document))["env"] = [{"name": name, "value": "x"} for name in names]
    fitted = made(document)
    result = fitted.document
    assert result["spec"]["gcsFaultToleranceOptions"] == ours()["spec"]["gcsFaultToleranceOptions"]
    assert listed(fitted)["spec.gcsFaultToleranceOptions"][1] == AS_ASKED
    assert result["metadata"]["annotations"] == {"a": "b"}
    assert not [key for key in head(result)["rayStartParams"] if key.startswith("redis")]
    assert {entry["name"] for entry in main(head(result))["env"]} == {"KEPT", "RAY_USAGE_STATS_ENABLED"}
    assert head(result)["template"]["metadata"]["labels"] == head(ours())["template"]["metadata"]["labels"]


def test_the_autoscaler_stays_on_with_an_image_and_a_size_that_is_here():
    options = {"image": "x/autoscaler", "upscalingMode": "Default", "version": "v2", "idleTimeoutSeconds": 30,
               "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
               "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}  # fmt: skip
    result = made(cluster(enableInTreeAutoscaling=True, autoscalerOptions=options)).document["spec"]
    assert result["enableInTreeAutoscaling"]
    assert result["autoscalerOptions"] == {
        "image": IMAGE, "imagePullPolicy": "IfNotPresent", "upscalingMode": "Default", "version": "v2",
        "idleTimeoutSeconds": 30, "env": [{"name": "A", "value": "b"}],
        "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "200Mi"}},
    }  # fmt: skip
    by_itself = made(cluster(enableInTreeAutoscaling=True)).document["spec"]["autoscalerOptions"]
    assert "image" not in by_itself
    assert "autoscalerOptions" not in made(cluster(enableInTreeAutoscaling=False)).document["spec"]


def test_nothing_listens_outside_of_the_cluster():
    document = cluster()
    service = {"spec": {"type": "NodePort"}, "metadata": {"name": "h"}}
    head(document).update(serviceType="LoadBalancer", headService=service)
    main(head(document))["ports"] = [{"name": "dashboard", "containerPort": 8265, "hostPort": 8265}]
    head(document)["template"]["spec"]["hostNetwork"] = True
    result = head(made(document).document)
    assert result["serviceType"] == "ClusterIP"
    assert result["headService"] == {"spec": {"type": "ClusterIP"}, "metadata": {"name": "h"}}
    assert main(result)["ports"] == [{"name": "dashboard", "containerPort": 8265}]
    assert "hostNetwork" not in result["template"]["spec"]


def test_what_speaks_of_nodes_and_accounts_of_elsewhere_is_taken_out():
    document = cluster()
    fields = {
        "nodeSelector": {"a": "b"}, "affinity": {"nodeAffinity": {}}, "tolerations": [{"operator": "Exists"}],
        "topologySpreadConstraints": [{"topologyKey": "zone"}], "priorityClassName": "p", "schedulerName": "volcano",
        "runtimeClassName": "nvidia", "serviceAccountName": "mine", "imagePullSecrets": [{"name": "r"}],
        "resourceClaims": [{"name": "gpu"}], "dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"]},
    }  # fmt: skip
    for group in groups(document):
        group["template"]["spec"] |= copy.deepcopy(fields)
        main(group)["resources"]["claims"] = [{"name": "gpu"}]
    fitted = made(document)
    for group in groups(fitted.document):
        assert not fields.keys() & group["template"]["spec"].keys()
        assert "claims" not in main(group)["resources"]
    assert {f"spec.headGroupSpec.template.spec.{field}" for field in fields} <= listed(fitted).keys()


def test_containers_of_the_same_image_stay_and_others_go():
    document = cluster()
    spec = head(document)["template"]["spec"]
    spec["initContainers"] = [
        {"name": "wait", "image": "busybox"},
        {"name": "prepare", "image": THEIRS, "command": ["true"]},
    ]
    spec["containers"] += [
        {"name": "logs", "image": "fluent-bit"},
        {"name": "monitor", "image": THEIRS, "imagePullPolicy": "Always", "resources": {"limits": {"memory": "8Gi"}}},
        {"name": "bare", "image": THEIRS},
    ]
    fitted = made(document)
    result = head(fitted.document)["template"]["spec"]
    assert result["initContainers"] == [{"name": "prepare", "image": IMAGE, "command": ["true"]}]
    first, *rest = result["containers"]
    assert first["name"] == "main"
    assert rest == [
        {"name": "monitor", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
         "resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "200Mi"}}},
        {"name": "bare", "image": IMAGE},
    ]  # fmt: skip
    assert {
        "spec.headGroupSpec.template.spec.initContainers[wait]",
        "spec.headGroupSpec.template.spec.containers[logs]",
    } <= {change.path for change in fitted.changes if not change.after}


def test_volumes_that_can_not_be_had_are_empty_folders_and_all_mounts_stay():
    document = cluster()
    volumes = [
        {"name": "shm", "emptyDir": {"medium": "Memory"}}, {"name": "pvc", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "host", "hostPath": {"path": "/data"}}, {"name": "csi", "csi": {"driver": "d"}},
        {"name": "known", "configMap": {"name": "known"}}, {"name": "unknown", "secret": {"secretName": "unknown"}},
        {"name": "maybe", "configMap": {"name": "unknown", "optional": True}},
        {"name": "both", "projected": {"sources": [{"configMap": {"name": "known"}}, {"secret": {"name": "unknown"}}]}},
        {"name": "me", "downwardAPI": {"items": []}}, {"name": "ledger", "emptyDir": {}},
    ]  # fmt: skip
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}s"} for each in volumes]
    head(document)["template"]["spec"]["volumes"] = copy.deepcopy(volumes)
    main(head(document))["volumeMounts"] = mounts
    main(head(document))["volumeDevices"] = [{"name": "block", "devicePath": "/dev/x"}]
    fitted = made(document, {"kind": "ConfigMap", "metadata": {"name": "known"}, "data": {"a": "b"}})
    spec = head(fitted.document)["template"]["spec"]
    kept = {each["name"]: each for each in spec["volumes"]}
    assert [name for name in kept if kept[name] == {"name": name, "emptyDir": {}}] == [
        "pvc", "host", "csi", "unknown", "both", "ledger",
    ]  # fmt: skip
    assert all(kept[each["name"]] == each for each in volumes if each["name"] in {"shm", "known", "maybe", "me"})
    assert main({"template": {"spec": spec}})["volumeMounts"][: len(mounts)] == mounts
    assert "volumeDevices" not in spec["containers"][0]
    assert {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"][len(mounts) :]} == {
        "/chaos",
        "/ledger",
    }
    assert {mount["name"] for mount in spec["containers"][0]["volumeMounts"]} <= kept.keys()
    assert [each["metadata"]["name"] for each in fitted.beside] == ["known"]


def test_what_mounts_something_where_ours_is_gives_way():
    document = cluster()
    main(head(document))["volumeMounts"] = [{"name": "x", "mountPath": "/chaos"}]
    head(document)["template"]["spec"]["volumes"] = [{"name": "x", "emptyDir": {}}]
    fitted = made(document)
    at = [mount for mount in main(head(fitted.document))["volumeMounts"] if mount["mountPath"] == "/chaos"]
    assert [mount["name"] for mount in at] == ["chaos-workloads"]
    assert any(change.path.endswith("volumeMounts[/chaos]") and change.before for change in fitted.changes)


def test_what_the_api_server_wrote_is_not_sent_back():
    document = cluster() | {"status": {"state": "ready"}}
    document["metadata"] |= {
        "uid": "u", "resourceVersion": "7", "managedFields": [], "finalizers": ["x"], "ownerReferences": [],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }  # fmt: skip
    result = made(document).document
    assert result["metadata"] == {"name": "mine", "namespace": "ns", "annotations": {}}
    assert "status" not in result


# --- RayJobs --------------------------------------------------------------------------------------------------------


def test_of_a_rayjob_everything_stays_but_what_belongs_to_its_entrypoint():
    kept = {
        "submissionMode": "HTTPMode", "backoffLimit": 3, "ttlSecondsAfterFinished": 30, "shutdownAfterJobFinishes": True,
        "submitterConfig": {"backoffLimit": 1}, "preRunningDeadlineSeconds": 300, "metadata": {"a": "b"},
    }  # fmt: skip
    of_entrypoint = {
        "entrypointNumCpus": 4, "entrypointNumGpus": 1, "entrypointResources": "{}", "runtimeEnvYAML": "pip: [x]",
        "activeDeadlineSeconds": 10, "jobId": "fixed", "suspend": True, "managedBy": "kueue.x-k8s.io/multikueue",
    }  # fmt: skip
    fitted = made(job(**kept, **of_entrypoint))
    spec = fitted.document["spec"]
    assert kept.items() <= spec.items()
    assert not of_entrypoint.keys() & spec.keys()
    assert {f"spec.{key}" for key in of_entrypoint} <= listed(fitted).keys()
    assert spec["entrypoint"] == "python /chaos/ledger_job.py"
    assert head(fitted.document)["rayStartParams"]["num-cpus"] == "1"
    assert [group["replicas"] for group in groups(fitted.document)[1:]] == [0]
    assert {"name": "CHAOS_LEDGER", "value": "/ledger/x"} in main(head(fitted.document))["env"]


def test_a_rayjob_that_waits_for_a_person_is_submitted():
    assert made(job(submissionMode="InteractiveMode")).document["spec"]["submissionMode"] == "K8sJobMode"
    assert "submissionMode" not in made(job()).document["spec"]


def test_a_submitter_of_the_users_submits_our_entrypoint_and_stays_as_it_is_otherwise():
    template = pod(restartPolicy="OnFailure", nodeSelector={"a": "b"})
    template["metadata"] = {"labels": {"role": "submitter"}}
    template["spec"]["containers"][0] |= {"command": ["ray", "job", "submit"], "args": ["x"], "livenessProbe": PROBE}
    result = made(job(submitterPodTemplate=template)).document["spec"]["submitterPodTemplate"]
    assert result["metadata"] == template["metadata"]
    assert result["spec"]["restartPolicy"] == "OnFailure"
    assert "nodeSelector" not in result["spec"]
    [container] = result["spec"]["containers"]
    assert not {"command", "args"} & container.keys()
    assert container["livenessProbe"] == PROBE
    assert container["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "100m", "memory": "200Mi"},
    }


def test_without_a_submitter_of_the_users_it_is_ours_unless_there_can_be_none():
    assert made(job()).document["spec"]["submitterPodTemplate"] == ours(Kind.RAYJOB)["spec"]["submitterPodTemplate"]
    assert "submitterPodTemplate" not in made(job(submissionMode="SidecarMode")).document["spec"]


# --- all that they have in common -----------------------------------------------------------------------------------

SIDECARS = [{"name": "logs", "image": "fluent-bit"}, {"name": "twin", "image": THEIRS, "env": []}]
FEATURES = {
    "devices": lambda group: main(group)["resources"]["limits"].update({"nvidia.com/gpu": "2"}),
    "sidecars": lambda group: group["template"]["spec"]["containers"].extend(copy.deepcopy(SIDECARS)),
    "init": lambda group: group["template"]["spec"].update(initContainers=copy.deepcopy(SIDECARS)),
    "account": lambda group: group["template"]["spec"].update(
        serviceAccountName="mine", automountServiceAccountToken=True
    ),
    "registry": lambda group: group["template"]["spec"].update(imagePullSecrets=[{"name": "registry"}]),
    "claim": lambda group: (
        group["template"]["spec"].update(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        main(group).update(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
    ),
    "env": lambda group: main(group).update(
        env=[
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "there", "key": "k"}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "elsewhere", "key": "k"}}},
        ],
        envFrom=[{"secretRef": {"name": "there"}}, {"secretRef": {"name": "elsewhere"}}],
    ),
    "placement": lambda group: group["template"]["spec"].update(nodeSelector={"a": "b"}, tolerations=[{"key": "a"}]),
    "bare": lambda group: (main(group).pop("resources"), group.pop("rayStartParams")),
    "probes": lambda group: main(group).update(livenessProbe=PROBE, lifecycle={"preStop": PROBE}),
}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there"}, "stringData": {"k": "v"}}


@st.composite
def documents(draw):
    """A RayCluster or RayJob with some of what people have in theirs."""
    names = draw(st.sampled_from([("a",), ("a", "b"), ("a", "b", "c")]))
    document = cluster(*names)
    if draw(st.booleans()):
        document["spec"]["enableInTreeAutoscaling"] = True
    if draw(st.booleans()):
        document["spec"]["gcsFaultToleranceOptions"] = {"redisAddress": "theirs:6379"}
    for group in groups(document):
        for feature in draw(st.permutations(sorted(FEATURES)))[: draw(st.integers(0, 4))]:
            if feature != "devices" or "resources" in main(group):
                FEATURES[feature](group)
    if draw(st.booleans()):
        document = job(rayClusterSpec=document["spec"], **draw(st.sampled_from([{}, {"submitterPodTemplate": pod()}])))
    return document


@given(documents(), st.integers(0, 4))
def test_no_change_is_unlisted_and_the_given_document_stays_as_it_is(document, workers):
    before = json.dumps(document)
    fitted = made(document, SECRET, workers=workers)
    assert json.dumps(document) == before
    paths = [change.path for change in fitted.changes]
    for change in differences(document, fitted.document):
        assert any(path.startswith(change.path) or change.path.startswith(path) for path in paths), change
    assert all(change.why for change in fitted.changes)


@given(documents(), st.integers(0, 4))
def test_nothing_is_left_that_can_not_be_here(document, workers):
    fitted = made(document, SECRET, workers=workers)
    pods = [group["template"] for group in groups(fitted.document)]
    if "submitterPodTemplate" in fitted.document["spec"]:
        pods.append(fitted.document["spec"]["submitterPodTemplate"])
    for spec in (each["spec"] for each in pods):
        containers = [*spec["containers"], *spec.get("initContainers", [])]
        assert {container["image"] for container in containers} == {IMAGE}
        for container in containers:
            for sizes in (container.get("resources") or {}).values():
                assert sizes.keys() <= {"cpu", "memory"}
        assert not {"nodeSelector", "tolerations", "serviceAccountName", "imagePullSecrets"} & spec.keys()
        assert spec["terminationGracePeriodSeconds"] <= 5
        assert not lacking(spec, {("Secret", "there"), ("ConfigMap", "chaos-workloads")})
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        assert all({m["name"] for m in container.get("volumeMounts", [])} <= volumes for container in containers)
    replicas = sum(group["replicas"] for group in groups(fitted.document)[1:])
    assert replicas == (workers if document["kind"] == "RayCluster" else 0)
    goes_along = any(each.name == "there" for spec in pods for each in references(spec))
    assert [each["metadata"]["name"] for each in fitted.beside] == (["there"] if goes_along else [])


@given(documents())
def test_what_fits_is_not_changed_again(document):
    once = made(document, SECRET)
    again = made(once.document, SECRET)
    assert json.loads(json.dumps(again.document)) == json.loads(json.dumps(once.document))


JUNK = [None, 7, "x", [], {}, ["x"], [7], [None], {"a": "b"}, True, -1, [{}], [[]]]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(documents(), st.integers(0, 10_000), st.sampled_from(JUNK))
def test_what_is_of_another_shape_is_left_to_the_api_server(document, seed, junk):
    """Whatever stands in the place of any part of it."""
    chance = random.Random(seed)
    node = document["spec"]
    while isinstance(node, dict | list) and node:
        key = chance.choice(sorted(node) if isinstance(node, dict) else range(len(node)))
        if chance.random() < 0.3 or not isinstance(node[key], dict | list) or not node[key]:
            node[key] = copy.deepcopy(junk)
            break
        node = node[key]
    made(document, SECRET)
