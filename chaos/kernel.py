"""What the kernel must be able to do, by what needs it, and whether it can: looked up, never tried out.

The evidence, best first: the feature is there now (a file under /proc, a loaded module); the kernel's configuration
(/proc/config.gz or /boot/config-RELEASE) says built in, module or neither; a module of that name lies in /lib/modules.
Without any evidence the answer is None: it can't be told. No module is loaded to find out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from chaos.machine import Machine


@dataclass(frozen=True)
class Way:
    """One way for a kernel to offer something: the option of its configuration, the module, a file that proves it."""

    option: str
    module: str
    proof: str = ""


@dataclass(frozen=True)
class Feature:
    """Something the kernel must be able to do; any one of the ways will do."""

    name: str
    needed_for: str
    ways: tuple[Way, ...]
    required: bool  # no stack without it; otherwise only that kind of fault is `unknown`


NETEM = Way("NET_SCH_NETEM", "sch_netem")
NFQUEUE = Way("NETFILTER_XT_TARGET_NFQUEUE", "xt_NFQUEUE")

FEATURES = (
    Feature("overlay", "file systems of containers", (Way("OVERLAY_FS", "overlay"),), required=True),
    Feature("bridge", "the stack's network", (Way("BRIDGE", "bridge", "/sys/module/bridge"),), required=True),
    Feature("veth", "the pods' network", (Way("VETH", "veth", "/sys/module/veth"),), required=True),
    Feature(
        "iptables",
        "services, and the fault kind partition",
        (
            Way("IP_NF_IPTABLES", "ip_tables", "/proc/net/ip_tables_names"),
            Way("NFT_COMPAT", "nft_compat"),  # iptables in its nf_tables form
        ),
        required=True,
    ),
    Feature(
        "reject",
        "partitions that refuse or reset, and sealing",
        (Way("IP_NF_TARGET_REJECT", "ipt_REJECT"), Way("NFT_REJECT_IPV4", "nft_reject_ipv4")),
        required=True,
    ),
    Feature(
        "conntrack",
        "services",
        (Way("NF_CONNTRACK", "nf_conntrack", "/proc/sys/net/netfilter/nf_conntrack_max"),),
        required=True,
    ),
    Feature("ipset", "NetworkPolicy", (Way("IP_SET", "ip_set"),), required=True),
    Feature("nf_tables", "iptables in its nf_tables form", (Way("NF_TABLES", "nf_tables"),), required=False),
    Feature("statistic", "the fault kind loss", (Way("NETFILTER_XT_MATCH_STATISTIC", "xt_statistic"),), required=False),
    Feature("netem_or_nfqueue", "the fault kind delay", (NETEM, NFQUEUE), required=False),
)


def has(machine: Machine, feature: Feature) -> bool | None:
    """Whether the kernel offers it; None when nothing tells."""
    answers = [offers(machine, way) for way in feature.ways]
    if True in answers:
        return True
    return None if None in answers else False


def offers(machine: Machine, way: Way) -> bool | None:
    """Whether the kernel offers it in this way; None when nothing tells."""
    if way.proof and machine.exists(way.proof):
        return True
    if re.search(rf"^{way.module} ", machine.read("/proc/modules") or "", re.MULTILINE):
        return True
    configuration = machine.read("/proc/config.gz") or machine.read(f"/boot/config-{machine.kernel}")
    module = _lies_in_lib_modules(machine, way.module)
    if configuration is None:
        return module
    match = re.search(rf"^CONFIG_{way.option}=([ym])$", configuration, re.MULTILINE)
    if match is None:
        return False
    # Configured as a module, but a kernel without its modules' folder cannot load it.
    return match[1] == "y" or bool(module)


def _lies_in_lib_modules(machine: Machine, module: str) -> bool | None:
    folder = f"/lib/modules/{machine.kernel}"
    lists = [machine.read(f"{folder}/modules.builtin"), machine.read(f"{folder}/modules.dep")]
    if lists == [None, None]:
        return None
    pattern = re.compile(rf"(^|/){module.replace('_', '[_-]')}\.ko", re.MULTILINE)
    return any(pattern.search(text or "") for text in lists)
