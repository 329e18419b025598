"""What a stack looks like to whoever cares what a fault left behind, and how two looks differ.

Compared are rules, routes and queueing disciplines (of every node and of the pods on the stage), stopped processes, labels,
taints, roles, definitions, policies, replica counts and the rest of what workloads were asked to be, the settings of Redis,
and Docker's containers and networks. Left out is what changes by itself: counters, what Kubernetes and its network plugin
keep in chains of their own (``KUBE-…``, ``CNI-…``) for the pods that come and go, and statuses.
"""

from __future__ import annotations

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from chaos.errors import NotReached
from chaos.faults.hold_deletion import FINALIZER as HELD
from chaos.faults.inside import in_sandbox
from chaos.stack import redis
from chaos.stack.cluster import Cluster, Object
from chaos.stack.engine import STACK_LABEL
from chaos.stack.kind import CLUSTER_LABEL
from chaos.stack.ray import is_ready
from chaos.stack.stack import Stack
from chaos.waiting import until

Snapshot = dict[str, Any]

_NETWORK = """
echo '@@ rules'; iptables-save
echo '@@ IPv6 rules'; ip6tables-save
echo '@@ policy routing'; ip rule show
echo '@@ routes'; ip -4 route show table all
echo '@@ queueing'; tc qdisc show
true  # a node without one of the programs is still looked at
"""
_PROCESSES = """
echo '@@ stopped'
for status in $(grep -lE '^State:[[:space:]]+[Tt]' /proc/[0-9]*/status); do sed -n 's/^Name:[[:space:]]*//p' "$status"; done
echo '@@ outside pods'
for process in $(grep -LE 'kubepods|kubelet-' /proc/[0-9]*/cgroup); do cat "${process%/cgroup}/comm"; done
true  # processes end while they are looked at
"""
_OF_POD = """
uid=$(echo "$0" | tr - _)
for process in $(grep -lE "$0|$uid" /proc/[0-9]*/cgroup); do cat "${process%/cgroup}/comm"; done
"""
# By behaviour where the setting itself is a secret: the password in the environment must still be the one that is asked for.
_REDIS = """
redis-cli ping
redis-cli role | head -n 1
for setting in maxmemory maxmemory-policy min-replicas-to-write min-replicas-max-lag replica-read-only appendonly save; do
  redis-cli config get "$setting" | tr '\\n' ' '; echo
done
"""
_SECTION = re.compile(r"^@@ (.*)$", re.MULTILINE)
_KEPT_BY_OTHERS = re.compile(r"\b(KUBE|CNI)-|CNI_")
# Docker's resolver in a node listens on other ports whenever the node was started.
_DOCKERS_PORTS = re.compile(r"(?<=127\.0\.0\.11:)\d+|(?<=--sport )\d+")
# The kernel's own choice for a device, whichever that is.
_DEFAULT_QDISC = re.compile(r"^qdisc (noqueue|pfifo_fast|fq_codel|fq|mq|pfifo) ")


def take(stack: Stack, pods: list[Object]) -> Snapshot:
    """How the stack and these pods look now; a pod that is gone is left out."""
    cluster = stack.cluster
    with ThreadPoolExecutor(8) as pool:
        nodes = {name: pool.submit(_node, cluster, name) for name in stack.kind.running_nodes()}
        members = {member: pool.submit(_member, cluster, member) for member in redis.MEMBERS}
        on_stage = {pod["metadata"]["name"]: pool.submit(_pod, cluster, pod) for pod in pods}
        docker, objects = pool.submit(_docker, stack), pool.submit(_objects, cluster)
        asked = {name: future.result() for name, future in members.items()}
        roles = sorted(answer.pop("role") for answer in asked.values())  # which is which, a fail-over changes
        return {
            "node": {name: future.result() for name, future in nodes.items()},
            "pod": {name: look for name, future in on_stage.items() if (look := future.result())},
            "Redis": asked | {"roles": roles},
            "Docker": docker.result(),
            **objects.result(),
        }


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """How ``after`` differs, a sentence each."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key in sorted({*before, *after}, key=str):
            inner = f"{where} {key}".strip()
            if key not in after:
                found.append(f"{inner} is gone: {_brief(before[key])}")
            elif key not in before:
                found.append(f"{inner} was not there: {_brief(after[key])}")
            elif (
                key == "processes"
            ):  # a client may end, and helpers of the runtime come and go: only what is new counts
                found += [f"{inner}: {name} was not there" for name in _without(after[key], before[key])]
            else:
                found += differences(before[key], after[key], inner)
        return found
    if isinstance(before, list) and isinstance(after, list) and before != after:
        lost, new = _without(before, after), _without(after, before)
        said = [f"{where} lacks {_brief(item)}" for item in lost] + [f"{where} has {_brief(item)}" for item in new]
        return said or [f"{where}: the order changed"]
    return [] if before == after else [f"{where} was {_brief(before)} and is {_brief(after)}"]


def settled(stack: Stack, pods: list[Object], before: Snapshot, seconds: float) -> list[str]:
    """The differences that are left once the stack's own controllers have had so long to restore what is theirs."""
    left: list[str] = []
    # A pod that a fault took away is not restored, and nothing of it can be left.
    there = {pod["metadata"]["name"] for pod in pods if _current(stack.cluster, pod)}
    expected = before | {"pod": {name: look for name, look in before["pod"].items() if name in there}}

    def same() -> bool:
        left[:] = differences(expected, take(stack, pods))
        return not left

    try:
        until(same, what="no difference", deadline=seconds, every=1)
    except NotReached:
        return left
    return []


def _without(some: list[Any], others: list[Any]) -> list[Any]:
    rest = list(others)
    left = []
    for item in some:
        if item in rest:
            rest.remove(item)
        else:
            left.append(item)
    return left


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 200 else text[:200] + " …"


# --- looking --------------------------------------------------------------------------------------------------------


def sections(text: str) -> dict[str, list[str]]:
    """The lines below each heading ``@@ name``."""
    _, *parts = _SECTION.split(text)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: [line.rstrip() for line in lines.splitlines() if line.strip()] for name, lines in pairs}


def rules(saved: list[str]) -> list[str]:
    """What ``iptables-save`` says, without counters, what others keep, and tables in which there is nothing.

    Sorted, since the network plugin moves its own rules to the front at every event.
    """
    found, table = [], ""
    for line in saved:
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":"):
            chain, policy, *_ = line[1:].split()
            if policy != "ACCEPT":  # a built-in chain that accepts is as good as none
                found.append(f"{table} chain {chain} {policy}")
        elif line.startswith("-"):
            found.append(f"{table} {_DOCKERS_PORTS.sub('*', line) if ' DOCKER_' in line else line}")
    return sorted(line for line in found if not _KEPT_BY_OTHERS.search(line))


def network(text: str) -> dict[str, list[str]]:
    """What a network namespace does to packets."""
    found = sections(text)
    return found | {
        "rules": rules(found["rules"]),
        "IPv6 rules": rules(found["IPv6 rules"]),
        "routes": sorted(found["routes"]),
        "queueing": sorted(line for line in found["queueing"] if not _DEFAULT_QDISC.match(line)),
    }


def _node(cluster: Cluster, node: str) -> Snapshot:
    seen = cluster.node_exec(node, ["sh", "-c", _NETWORK])
    seen.require(f"looking at the network of {node}")
    listed = cluster.node_exec(node, ["sh", "-c", _PROCESSES])
    listed.require(f"looking at the processes of {node}")
    processes = sections(listed.text)
    return network(seen.text) | {
        "stopped": sorted(processes["stopped"]),
        "processes": sorted({name for name in processes["outside pods"] if not name.startswith("containerd-shim")}),
    }


def _pod(cluster: Cluster, pod: Object) -> Snapshot | None:
    current = _current(cluster, pod)
    seen = in_sandbox(cluster, pod["spec"]["nodeName"], pod["metadata"]["uid"], _NETWORK) if current else None
    if current is None or seen is None:
        return None
    seen.require(f"looking at the network of {pod['metadata']['name']}")
    count = cluster.node_exec(pod["spec"]["nodeName"], ["sh", "-c", _OF_POD, pod["metadata"]["uid"]])
    labels = current["metadata"].get("labels") or {}
    return network(seen.text) | {"ready": is_ready(current), "labels": labels, "processes": sorted(count.text.split())}


def _current(cluster: Cluster, pod: Object) -> Object | None:
    found = cluster.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    if found is None or found["metadata"]["uid"] != pod["metadata"]["uid"]:
        return None
    return None if "deletionTimestamp" in found["metadata"] else found


def _member(cluster: Cluster, member: str) -> Snapshot:
    answer = cluster.exec(redis.NAMESPACE, member, ["sh", "-c", _REDIS], container=redis.CONTAINER, timeout=20)
    lines = answer.text.splitlines()
    if not answer.ok or len(lines) < 2:
        return {"role": "none", "ping": answer.error_text.strip() or answer.text.strip(), "settings": []}
    return {"ping": lines[0], "role": lines[1], "settings": [line.strip() for line in lines[2:]]}


def _docker(stack: Stack) -> Snapshot:
    engine, name = stack.engine, stack.kind.name
    nodes = json.loads(engine.docker("container", "inspect", *stack.kind.nodes()).stdout)
    listed = engine.docker("ps", "--all", "--filter", f"label={STACK_LABEL}={name}", "--format", "{{.Names}}")
    networks = engine.docker("network", "ls", "--filter", f"label={STACK_LABEL}={name}", "--format", "{{.Name}}")
    return {
        f"the nodes by {CLUSTER_LABEL}": {
            node["Name"].lstrip("/"): {
                "status": node["State"]["Status"],
                "networks": {net: of["IPAddress"] for net, of in node["NetworkSettings"]["Networks"].items()},
            }
            for node in nodes
        },
        "other containers": sorted(listed.text.split()),
        "networks": sorted(networks.text.split()),
    }


def _objects(cluster: Cluster) -> Snapshot:
    found: Snapshot = {
        "Node": {
            _name(item): {
                "labels": item["metadata"].get("labels") or {},
                "taints": item["spec"].get("taints") or [],
                "unschedulable": item["spec"].get("unschedulable", False),
            }
            for item in cluster.list("nodes")
        },
        "Namespace": {
            _name(item): item["metadata"].get("labels") or {}
            for item in cluster.list("namespaces")
            if "deletionTimestamp" not in item["metadata"]
        },
    }
    for item in cluster.list("rayclusters"):
        template = item["spec"]["headGroupSpec"]["template"]
        # Of those alone that are not as our manifest has them: a cluster that is gone left nothing behind.
        if template["spec"].get("schedulingGates") or redis.CLIENT_LABEL not in template["metadata"].get("labels", {}):
            found[f"head template of {_name(item)}"] = template
        if HELD in (item["metadata"].get("finalizers") or []):
            found[f"hold on {_name(item)}"] = HELD
    found["customresourcedefinitions"] = {
        _name(item): hashlib.sha256(json.dumps(item["spec"], sort_keys=True).encode()).hexdigest()
        for item in cluster.list("customresourcedefinitions")
    }
    for resource in ("clusterroles", "roles"):
        found[resource] = {_name(item): item.get("rules") or [] for item in cluster.list(resource)}
    for resource in ("networkpolicies", "deployments", "statefulsets", "daemonsets"):
        found[resource] = {_name(item): item["spec"] for item in cluster.list(resource)}
    return found


def _name(item: Object) -> str:
    where = item["metadata"].get("namespace")
    return f"{where}/{item['metadata']['name']}" if where else str(item["metadata"]["name"])
