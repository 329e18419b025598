"""Redis' password is on no command line of ours and in nothing that is kept; credentials are for their owner alone.

KubeRay's start command hands the password to ``ray start``, and Ray passes it on to its own programs: those are the
exceptions of docs/security.md, by name.
"""

import re
import stat
import threading
from pathlib import Path

import pytest

from chaos.paths import state_dir
from chaos.stack import redis

# Programs that Ray and KubeRay start with the password on their command lines, inside their pods.
THEIRS = re.compile(
    r"ray|ray::.*|gcs_server|raylet|dashboard\.py|agent\.py|main\.py|monitor\.py|log_monitor\.py|default_worker\.py"
    r"|setup_worker\.py|runtime_env_agent\.py"
)
# A private key, as it is and as a kubeconfig encodes it; programs and API descriptions have only the words in them.
KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\n|LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,8}UFJJVkFURSBLRV")
_EVERY_SECONDS = 0.05  # a kubectl call lasts longer


class CommandLines:
    """Looks at every process of the machine, those in containers included, until the block ends."""

    def __init__(self, secrets):
        self._secrets = [secret.encode() for secret in secrets]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.programs = set()  # with a secret on the command line
        self.seen = set()  # all

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stopping.set()
        self._thread.join()

    def _look(self):
        while not self._stopping.wait(_EVERY_SECONDS):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = path.read_bytes()
                except OSError:  # it has just ended
                    continue
                self.seen.add(program(line))
                if any(secret in line for secret in self._secrets):
                    self.programs.add(program(line))


def program(line):
    """What a command line runs: of an interpreter, the script."""
    words = [word.decode(errors="replace") for word in line.split(b"\0") if word] or [""]
    name = Path(words[0]).name
    if name.startswith("python"):
        name = next((Path(word).name for word in words[1:] if not word.startswith("-")), name)
    return name.split(" ")[0]


def holding(folder, secrets):
    """Files below the folder that hold a secret, by name."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(secret.encode() in path.read_bytes() for secret in secrets)
    ]


@pytest.mark.level("core")
def test_the_password_is_on_no_command_line_of_ours_and_in_nothing_that_is_kept(chaos_run, lab):
    secrets = redis.passwords(chaos_run.stack.cluster)
    assert len(secrets) == 2, "as it is, and as Kubernetes encodes it"
    with CommandLines(secrets) as lines:
        # Whatever of ours has to do with Redis.
        cluster = lab.ray_cluster("secrets", ft=True)
        lab.single_redis("secrets-single")
        lab.hold_connection(lab.witness(cluster.namespace), lab.redis_primary(), "secrets")
        lab.ready(cluster)
        lab.start_actor(cluster, "counter")
        lab.functional(cluster, "counter")
        lab.record_redis()
    assert "kubectl" in lines.seen, "commands of ours were seen"
    assert "gcs_server" in lines.programs, "the password would have been seen: Ray's own program has it"
    assert {name for name in lines.programs if not THEIRS.fullmatch(name)} == set()
    assert holding(chaos_run.settings.results, secrets) == []
    assert holding(state_dir(), secrets) == []
    logs = "".join(path.name for path in (chaos_run.folder / "logs").glob("*"))
    assert cluster.namespace in logs, "logs of Ray, which knows the password, were among what was looked at"


def test_credentials_are_for_their_owner_alone(chaos_run):
    folder = chaos_run.stack.folder
    assert stat.S_IMODE(folder.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.kubeconfig.stat().st_mode) == 0o600
    for path in state_dir().rglob("*"):
        if path.is_file() and KEY.search(path.read_bytes()):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
