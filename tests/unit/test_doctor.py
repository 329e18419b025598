"""The doctor: each lack of a machine is told with what to do, and a machine that lacks nothing passes."""

import dataclasses
import io
import json
import subprocess
import sys
import time

import pytest

from chaos import doctor, kernel
from chaos.console import Console
from chaos.doctor import GIB, Status
from chaos.errors import DoctorError
from chaos.machine import LocalMachine
from chaos.process import Executed
from chaos.settings import Settings, Source, Versions

ALL_CAPABILITIES = "000001ffffffffff"
WITHOUT_SYS_RESOURCE = "000001fffeffffff"

INFO = {
    "ServerVersion": "27.5.1",
    "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
    "CgroupVersion": "2",
    "DockerRootDir": "/var/lib/docker",
    "DefaultRuntime": "runc",
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
    "MemTotal": 32 * GIB,
    "NCPU": 8,
}
# What a client prints besides its error when no daemon answers.
EMPTY_INFO = {"ServerVersion": "", "MemTotal": 0, "NCPU": 0, "SecurityOptions": None}

OPTIONS = [way.option for feature in kernel.FEATURES for way in feature.ways]


def status_file(capabilities=ALL_CAPABILITIES):
    return f"Name:\tx\nCapEff:\t{capabilities}\nCapBnd:\t{capabilities}\nCapAmb:\t0000000000000000\n"


def limits_file(files="1048576"):
    return f"Limit            Soft Limit  Hard Limit  Units\nMax open files   1024        {files:11} files\n"


class FakeMachine:
    """A Linux server with Docker, on which nothing is wrong; tests take things away."""

    def __init__(self):
        self.system, self.architecture, self.kernel, self.uid, self.cpus = "Linux", "x86_64", "6.1.0-1-amd64", 1000, 8
        self.files = {
            "/etc/os-release": 'PRETTY_NAME="Debian"\nID=debian\n',
            "/proc/self/status": status_file(),
            "/proc/self/limits": limits_file(),
            "/proc/meminfo": "MemTotal:       33554432 kB\nMemAvailable:   25165824 kB\n",
            "/proc/sys/fs/inotify/max_user_instances": "512\n",
            "/proc/sys/fs/inotify/max_user_watches": "524288\n",
            "/sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
            "/proc/config.gz": "".join(f"CONFIG_{option}=y\n" for option in OPTIONS),
        }
        self.programs = {"docker", "apt-get", "dockerd", "go", "mmdebstrap"}
        self.environment = {}
        self.info = Executed(0, json.dumps(INFO).encode(), b"")
        self.clusters = ""
        self.go = "go version go1.26.3 linux/amd64"
        self.free = {"/var/lib/docker": (1, 100 * GIB)}
        self.free_elsewhere = (1, 100 * GIB)
        self.refused = {}

    def read(self, path):
        return self.files.get(path)

    def exists(self, path):
        return path in self.files

    def which(self, program):
        return f"/usr/bin/{program}" if program in self.programs else None

    def run(self, argv, *, timeout):
        match argv[:2]:
            case ["docker", "info"]:
                return self.info
            case ["docker", "ps"]:
                return Executed(0, self.clusters.encode(), b"")
            case ["go", "version"]:
                return Executed(0, self.go.encode(), b"")
        raise AssertionError(argv)

    def variable(self, name):
        return self.environment.get(name)

    def free_bytes(self, path):
        return self.free.get(path, self.free_elsewhere)

    def refuses_files(self, path):
        return self.refused.get(path, "")

    # --- what may be wrong

    def docker_says(self, **changes):
        self.info = Executed(0, json.dumps({**INFO, **changes}).encode(), b"")

    def no_daemon(
        self, words="Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", *, old_client=False
    ):
        if old_client:
            self.info = Executed(0, json.dumps({**EMPTY_INFO, "ServerErrors": [words]}).encode(), b"")
        else:
            self.info = Executed(1, json.dumps(EMPTY_INFO).encode(), words.encode())


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBERAY_CHAOS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("KUBERAY_CHAOS_CACHE", "/cache")
    return tmp_path / "state"


@pytest.fixture
def machine():
    return FakeMachine()


def examine(machine, *, cold=None, **changes):
    return doctor.examine(Settings(**changes), machine=machine, cold=cold)


def one(diagnoses, name):
    (found,) = [d for d in diagnoses if d.name == name]
    return found


def test_a_machine_that_lacks_nothing_passes(machine):
    diagnoses = examine(machine, source=Source.BUILD)
    assert {d.status for d in diagnoses} == {Status.OK}
    doctor.require(diagnoses)


def test_whatever_is_not_fine_comes_with_a_fix(machine):
    machine.files.clear()
    machine.no_daemon()
    machine.free_elsewhere = machine.free["/var/lib/docker"] = (1, 0)
    diagnoses = examine(machine)
    assert len({d.name for d in diagnoses if d.status is not Status.OK}) > 5
    assert all(d.fix for d in diagnoses if d.status is not Status.OK)


# --- Docker


def test_no_docker_as_root_on_debian_will_be_installed(machine):
    machine.programs -= {"docker", "dockerd"}
    machine.uid = 0
    found = one(examine(machine), "docker")
    assert (found.status, found.found) == (Status.OK, "no engine runs; it will be installed and started")


@pytest.mark.parametrize("lack", ["root", "debian", "apt"])
def test_no_docker_elsewhere_is_one_clear_failure(machine, lack):
    machine.programs -= {"docker", "dockerd"}
    machine.uid = 1000 if lack == "root" else 0
    if lack == "debian":
        machine.files["/etc/os-release"] = "ID=fedora\nID_LIKE=debian\n"
    if lack == "apt":
        machine.programs.discard("apt-get")
    found = one(examine(machine), "docker")
    assert found.status is Status.FAIL
    assert "root on Debian or Ubuntu" in found.fix


@pytest.mark.parametrize("old_client", [False, True])
def test_a_dead_daemon(machine, old_client):
    machine.no_daemon(old_client=old_client)
    found = one(examine(machine), "docker")
    assert found.status is Status.FAIL
    assert "Cannot connect" in found.found
    assert "systemctl start docker" in found.fix
    machine.uid = 0
    assert one(examine(machine), "docker").found == "no engine runs; it will be started"


@pytest.mark.parametrize("old_client", [False, True])
def test_no_permission_on_the_socket_is_told_apart_even_from_root(machine, old_client):
    machine.no_daemon("permission denied while trying to connect to the Docker daemon socket", old_client=old_client)
    found = one(examine(machine), "docker")
    assert found.status is Status.FAIL
    assert "usermod -aG docker" in found.fix


def test_a_hanging_daemon_is_told_apart(machine):
    machine.info = Executed(None, b"", b"\nno end within 2 s")
    machine.uid = 0
    found = one(examine(machine), "docker")
    assert found.status is Status.FAIL
    assert "does not answer" in found.found


def test_a_dead_remote_engine_is_never_replaced_by_one_of_ours(machine):
    machine.uid = 0
    machine.environment["DOCKER_HOST"] = "tcp://10.0.0.1:2376"
    machine.no_daemon()
    found = one(examine(machine), "docker")
    assert found.status is Status.FAIL
    assert "tcp://10.0.0.1:2376" in found.found


# --- privileged containers


def test_missing_sys_resource_is_adapted_to_when_the_engine_will_be_ours(machine):
    machine.files["/proc/self/status"] = status_file(WITHOUT_SYS_RESOURCE)
    machine.no_daemon()
    machine.uid = 0
    found = one(examine(machine), "privileged")
    assert found.status is Status.OK
    assert "CAP_SYS_RESOURCE is missing" in found.found


def test_missing_sys_resource_fails_under_a_plain_running_engine(machine):
    machine.files |= {
        "/var/run/docker.pid": "77",
        "/proc/77/comm": "dockerd\n",
        "/proc/77/status": status_file(WITHOUT_SYS_RESOURCE),
    }
    assert one(examine(machine), "privileged").status is Status.FAIL
    machine.docker_says(DefaultRuntime="without-sys-resource")
    assert one(examine(machine), "privileged").status is Status.OK
    machine.docker_says(DefaultRuntime="crun")
    assert one(examine(machine), "privileged").status is Status.WARN


def test_a_stale_pid_file_is_not_taken_for_the_engine(machine):
    machine.files |= {
        "/var/run/docker.pid": "77",
        "/proc/77/comm": "sshd\n",
        "/proc/77/status": status_file(WITHOUT_SYS_RESOURCE),
    }
    assert one(examine(machine), "privileged").status is Status.OK


def test_missing_sys_resource_here_says_nothing_of_an_engine_out_of_sight(machine):
    machine.files["/proc/self/status"] = status_file(WITHOUT_SYS_RESOURCE)
    assert one(examine(machine), "privileged").status is Status.WARN


@pytest.mark.parametrize(("version", "status"), [("1", Status.FAIL), ("2", Status.WARN)])
def test_a_rootless_engine(machine, version, status):
    machine.docker_says(SecurityOptions=["name=seccomp", "name=rootless"], CgroupVersion=version)
    assert one(examine(machine), "privileged").status is status


# --- cgroup, limits


@pytest.mark.parametrize(
    ("cgroup", "kubernetes", "status"),
    [
        ("1", "1.34.4", Status.OK),
        ("1", "1.35.0", Status.FAIL),
        ("1", "1.36.1", Status.FAIL),
        ("2", "1.36.1", Status.OK),
    ],
)
def test_cgroup_v1_and_kubernetes(machine, cgroup, kubernetes, status):
    machine.docker_says(CgroupVersion=cgroup)
    found = one(examine(machine, versions=Versions(kubernetes=kubernetes)), "cgroup")
    assert found.status is status
    assert ("--kubernetes 1.34.4" in found.fix) is (status is Status.FAIL)


def test_the_cgroup_version_is_seen_without_an_engine(machine):
    machine.no_daemon()
    assert one(examine(machine), "cgroup").found == "v2"
    del machine.files["/sys/fs/cgroup/cgroup.controllers"]
    assert one(examine(machine), "cgroup").found == "v1"


def test_inotify_is_counted_by_clusters(machine):
    machine.files["/proc/sys/fs/inotify/max_user_instances"] = "128\n"
    assert one(examine(machine), "inotify").status is Status.OK
    machine.clusters = "other\nother\n"
    found = one(examine(machine), "inotify")
    assert found.status is Status.WARN
    assert "sudo sysctl fs.inotify.max_user_instances=512" in found.fix


def test_few_inotify_watches(machine):
    machine.files["/proc/sys/fs/inotify/max_user_watches"] = "8192\n"
    assert one(examine(machine), "inotify").status is Status.WARN


@pytest.mark.parametrize(("files", "status"), [("unlimited", Status.OK), ("20000", Status.OK), ("4096", Status.WARN)])
def test_open_files(machine, files, status):
    machine.files["/proc/self/limits"] = limits_file(files)
    assert one(examine(machine), "open files").status is status


# --- kernel


def without(machine, option):
    machine.files["/proc/config.gz"] = machine.files["/proc/config.gz"].replace(
        f"CONFIG_{option}=y", f"# CONFIG_{option} is not set"
    )


def test_a_kernel_that_cannot_delay_packets_costs_only_that_kind_of_fault(machine):
    without(machine, "NET_SCH_NETEM")
    assert "netem_or_nfqueue" in one(examine(machine), "kernel").found
    without(machine, "NETFILTER_XT_TARGET_NFQUEUE")
    found = one(examine(machine), "kernel: netem_or_nfqueue")
    assert found.status is Status.WARN
    assert "delay" in found.found


def test_a_kernel_without_ipset_cannot_carry_a_stack(machine):
    without(machine, "IP_SET")
    assert one(examine(machine), "kernel: ipset").status is Status.FAIL


def test_either_form_of_iptables_will_do(machine):
    without(machine, "IP_NF_IPTABLES")
    assert "iptables" in one(examine(machine), "kernel").found
    without(machine, "NFT_COMPAT")
    assert one(examine(machine), "kernel: iptables").status is Status.FAIL


@pytest.mark.parametrize(
    ("files", "answer"),
    [
        ({}, False),  # a module by configuration, and no folder to load it from
        ({"/proc/modules": "sch_netem 20480 0 - Live 0x0\n"}, True),
        ({"/lib/modules/6.1.0-1-amd64/modules.dep": "kernel/net/sched/sch_netem.ko.xz:\n"}, True),
        ({"/lib/modules/6.1.0-1-amd64/modules.dep": "kernel/net/sched/sch_netem2.ko:\n"}, False),
    ],
)
def test_a_feature_built_as_a_module(machine, files, answer):
    machine.files["/proc/config.gz"] = "CONFIG_NET_SCH_NETEM=m\n"
    machine.files |= files
    assert kernel.offers(machine, kernel.NETEM) is answer


def test_a_kernel_that_tells_nothing_is_a_warning_never_a_pass(machine):
    del machine.files["/proc/config.gz"]
    assert one(examine(machine), "kernel: ipset").status is Status.WARN
    machine.files["/boot/config-6.1.0-1-amd64"] = "CONFIG_IP_SET=m\n"
    machine.files["/lib/modules/6.1.0-1-amd64/modules.dep"] = "kernel/net/netfilter/ipset/ip_set.ko:\n"
    assert "ipset" in one(examine(machine), "kernel").found


# --- room


@pytest.mark.parametrize(
    ("free", "cold", "status"),
    [(24, True, Status.FAIL), (26, True, Status.OK), (13, False, Status.OK), (11, False, Status.FAIL)],
)
def test_a_full_disk(machine, free, cold, status):
    if not cold:
        machine.files["/cache"] = ""
    machine.free_elsewhere = machine.free["/var/lib/docker"] = (1, free * GIB)
    assert one(examine(machine), "disk").status is status
    assert one(examine(machine, cold=cold), "disk").status is status


def test_docker_and_the_cache_on_two_disks_are_told_apart(machine):
    machine.free["/var/lib/docker"] = (2, 13 * GIB)
    machine.free["/cache"] = (1, 5 * GIB)
    diagnoses = [d for d in examine(machine) if d.name == "disk"]
    assert {(d.status, "/cache" in d.found) for d in diagnoses} == {(Status.OK, False), (Status.FAIL, True)}


def test_memory(machine):
    machine.files["/proc/meminfo"] = "MemTotal:       33554432 kB\nMemAvailable:   4194304 kB\n"
    assert one(examine(machine), "memory").status is Status.WARN
    machine.docker_says(MemTotal=4 * GIB)
    assert one(examine(machine), "memory").status is Status.FAIL


def test_a_stack_that_is_up_has_taken_its_memory_already(machine, state):
    (state / "stacks" / "kuberay-chaos").mkdir(parents=True)
    machine.clusters = "kuberay-chaos\n"
    machine.files["/proc/meminfo"] = "MemTotal:       33554432 kB\nMemAvailable:   4194304 kB\n"
    assert one(examine(machine), "memory").status is Status.OK


def test_one_processor(machine):
    machine.docker_says(NCPU=1)
    assert one(examine(machine), "processors").status is Status.WARN


# --- systems that nobody tried


def test_a_mac_is_named_as_not_tried_and_spared_what_cannot_be_seen(machine):
    machine.system, machine.architecture, machine.files = "Darwin", "arm64", {}
    machine.docker_says(OperatingSystem="Docker Desktop", MemTotal=12 * GIB)
    diagnoses = examine(machine)
    found = one(diagnoses, "system")
    assert (found.status, "not tried" in found.found) == (Status.WARN, True)
    assert not {"inotify", "open files", "kernel"} & {d.name for d in diagnoses}
    doctor.require(diagnoses)


def test_another_processor_is_named_as_not_tried(machine):
    machine.architecture = "aarch64"
    assert one(examine(machine), "system").status is Status.WARN


# --- programs, clusters, leftovers


@pytest.mark.parametrize(
    ("go", "said"), [("go version go1.26.3", "from this machine"), ("go version go1.22.2", "PyPI"), (None, "PyPI")]
)
def test_who_brings_go(machine, go, said):
    machine.go = go
    if go is None:
        machine.programs.discard("go")
    assert said in one(examine(machine, source=Source.BUILD), "go").found


def test_only_a_build_needs_tools_to_build(machine):
    machine.programs.discard("mmdebstrap")
    assert one(examine(machine, source=Source.BUILD), "mmdebstrap").status is Status.FAIL
    assert not any(d.name == "mmdebstrap" for d in examine(machine, source=Source.REGISTRY))
    machine.uid = 0
    assert one(examine(machine, source=Source.BUILD), "mmdebstrap").status is Status.OK


def test_an_occupied_name(machine, state):
    machine.clusters = "kuberay-chaos\nother\n"
    found = one(examine(machine), "clusters")
    assert found.status is Status.FAIL
    assert "--name" in found.fix
    (state / "stacks" / "kuberay-chaos").mkdir(parents=True)
    found = one(examine(machine), "clusters")
    assert (found.status, "other" in found.found) == (Status.OK, True)


def test_what_a_killed_run_left_is_told(machine, state):
    script = """
import os, signal, sys
from pathlib import Path
from chaos.locks import hold
with hold(Path(sys.argv[1]), who="run-a"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script, str(state / "locks" / "old.lock")], check=False, timeout=30)
    found = one(examine(machine), "leftovers")
    assert found.status is Status.WARN
    assert "run-a" in found.found
    assert found.fix == "kuberay-chaos heal --name old"


# --- what is made of the diagnoses


def test_require_lists_every_failure_with_its_fix(machine):
    machine.programs.discard("docker")
    machine.free_elsewhere = machine.free["/var/lib/docker"] = (1, 0)
    diagnoses = examine(machine)
    with pytest.raises(DoctorError) as refused:
        doctor.require(diagnoses)
    failures = [d for d in diagnoses if d.status is Status.FAIL]
    assert len(failures) == 2
    assert all(d.found in str(refused.value) and d.fix in str(refused.value) for d in failures)
    assert refused.value.exit_code == 4


def test_a_single_failure_is_one_message_with_one_fix(machine):
    machine.programs.discard("docker")
    with pytest.raises(DoctorError) as refused:
        doctor.require(examine(machine))
    assert refused.value.fix
    assert str(refused.value).count("what to do") == 1


def test_warnings_stop_nothing(machine):
    without(machine, "NETFILTER_XT_MATCH_STATISTIC")
    doctor.require(examine(machine))


def test_rendering_shows_what_matters(machine):
    without(machine, "NETFILTER_XT_MATCH_STATISTIC")
    out = io.StringIO()
    doctor.render(examine(machine), Console(out), least=Status.WARN)
    (first, second) = out.getvalue().splitlines()
    assert first.startswith("warn  kernel: statistic  missing")
    assert second.strip().startswith("what to do: ")
    doctor.render(examine(machine), Console(out))
    assert "ok    docker" in out.getvalue()


def test_this_machine_is_examined_in_time_and_without_an_exception():
    began = time.monotonic()
    diagnoses = doctor.examine(Settings(source=Source.BUILD), machine=LocalMachine())
    assert time.monotonic() - began < 5
    assert {"system", "user", "docker"} <= {d.name for d in diagnoses}


def test_diagnoses_are_data():
    assert dataclasses.asdict(doctor.Diagnosis("x", Status.OK, "y"))["status"] == "ok"


def test_a_folder_that_nothing_can_be_written_to_is_named_with_its_variable(machine, monkeypatch):
    monkeypatch.setenv("KUBERAY_CHAOS_STATE", "/proc/x")
    machine.refused = {"/proc/x": "No such file or directory"}
    found = one(examine(machine), "folders")
    assert found.status is Status.FAIL
    assert "/proc/x" in found.found
    assert "KUBERAY_CHAOS_STATE" in found.fix
