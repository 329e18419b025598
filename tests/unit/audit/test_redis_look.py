"""What runs in the head's pod and asks Redis, against a server that answers as Redis does."""

import json
import os
import socketserver
import subprocess
import sys
import threading

import pytest

from chaos.audit.redis_look import SCRIPT

PASSWORD = "s3cret"


class Server(socketserver.ThreadingTCPServer):
    """A Redis that knows what is asked of it; ``said`` is by command, ``password`` what it wants."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, said, password):
        super().__init__(("127.0.0.1", 0), Client)
        self.said, self.password, self.asked = said, password, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.server_address[1]}"


class Client(socketserver.StreamRequestHandler):
    def handle(self):
        allowed = not self.server.password
        while line := self.rfile.readline():
            words = []
            for _ in range(int(line[1:])):
                length = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(length + 2)[:-2].decode())
            self.server.asked.append(words[0])
            if words[0] == "AUTH":
                allowed = allowed or words[-1] == self.server.password
                answer = "+OK" if words[-1] == self.server.password else "-WRONGPASS invalid username-password pair"
            elif not allowed:
                answer = "-NOAUTH Authentication required."
            else:
                answer = self.server.said.get(
                    " ".join(words[:2]), self.server.said.get(words[0], "-ERR unknown command")
                )
            self.wfile.write(encoded(answer))


def encoded(answer):
    if isinstance(answer, list):
        return b"*%d\r\n" % len(answer) + b"".join(encoded(item) for item in answer)
    if answer[:1] in {"+", "-", ":"}:
        return answer.encode() + b"\r\n"
    return b"$%d\r\n%s\r\n" % (len(answer.encode()), answer.encode())


GOOD = {
    "PING": "+PONG",
    "INFO SENTINEL": "",
    "INFO CLUSTER": "# Cluster\r\ncluster_enabled:0\r\n",
    "INFO REPLICATION": "role:master\r\nconnected_slaves:2\r\n",
    "INFO PERSISTENCE": "aof_enabled:1\r\nrdb_saves:0\r\n",
    "CONFIG": ["save", ""],
    "SCAN": ["0", ["RAYuid-1@KV", "RAYuid-1@JOB", "RAYuid-2@KV"]],
}
WHOLE = {
    "open": False,
    "shards": 1,
    "replicas": 2,
    "aof": True,
    "snapshots": False,
    "namespaces": {"uid-1": 2, "uid-2": 1},
}


@pytest.fixture
def redis():
    made = []

    def make(said=(), password=PASSWORD):
        made.append(Server({**GOOD, **dict(said)}, password))
        return made[-1]

    yield make
    for server in made:
        server.shutdown()
        server.server_close()


def look(address, password=PASSWORD):
    env = {"PATH": os.environ["PATH"], "RAY_REDIS_ADDRESS": address, "REDIS_PASSWORD": password}
    done = subprocess.run(
        [sys.executable, "-"], input=SCRIPT.read_bytes(), env=env, capture_output=True, timeout=30, check=True
    )
    return json.loads(done.stdout)


def test_all_that_it_says(redis):
    server = redis()
    assert look(server.address) == WHOLE
    assert set(server.asked) <= {"PING", "AUTH", "INFO", "CONFIG", "SCAN", "CLUSTER", "SENTINEL"}


def test_a_server_without_a_password_is_open(redis):
    assert look(redis(password="").address)["open"] is True


def test_shards_are_counted_in_cluster_mode(redis):
    said = {"INFO CLUSTER": "cluster_enabled:1\r\n", "CLUSTER": "cluster_state:ok\r\ncluster_size:3\r\n"}
    assert look(redis(said).address)["shards"] == 3


def test_where_configuration_may_not_be_read_the_saves_that_were_made_tell(redis):
    said = {"CONFIG": "-NOPERM no", "INFO PERSISTENCE": "aof_enabled:0\r\nrdb_saves:4\r\n"}
    answer = look(redis(said).address)
    assert (answer["aof"], answer["snapshots"]) == (False, True)


def test_behind_a_sentinel_the_primary_is_asked(redis):
    primary = redis()
    host, port = primary.address.split(":")
    named = ["name", "ray", "ip", host, "port", port]
    sentinel = redis({"INFO SENTINEL": "sentinel_masters:1\r\n", "SENTINEL": [named], "SCAN": "-ERR not here"})
    assert look(sentinel.address) == WHOLE


@pytest.mark.parametrize(
    ("address", "password", "words"), [("", PASSWORD, "no RAY_REDIS_ADDRESS"), ("127.0.0.1:1", "x", "refused")]
)
def test_no_answer_is_an_error(address, password, words):
    assert words in look(address, password)["error"]


def test_a_wrong_password_is_an_error_and_is_not_told(redis):
    answer = look(redis().address, "another")
    assert "WRONGPASS" in answer["error"]
    assert "another" not in json.dumps(answer)
