"""Published programs: verified before they are kept, fetched once, and never half there."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from chaos.errors import ImageError
from chaos.paths import cache_dir
from chaos.stack.images import downloads
from chaos.stack.images.downloads import Published

PROGRAM = b"\x7fELF" + bytes(3_000_000)
CHECKSUM = f"{hashlib.sha256(PROGRAM).hexdigest()}  kind-linux-amd64\n".encode()


class Publisher:
    """Serves bytes by path; a length of its own makes it break off early."""

    def __init__(self):
        self.files = {"/kind": PROGRAM, "/kind.sha256sum": CHECKSUM}
        self.declared = {}
        self.asked = []
        self.dropped = 0  # how many connections to cut before the first answer
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                publisher.asked.append(self.path)
                if publisher.dropped:
                    publisher.dropped -= 1
                    return
                if self.path not in publisher.files:
                    self.send_error(404)
                    return
                content = publisher.files[self.path]
                self.send_response(200)
                self.send_header("Content-Length", publisher.declared.get(self.path, len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def item(self):
        url = f"http://127.0.0.1:{self.server.server_port}/kind"
        return Published("kind", "0.30.0", url, f"{url}.sha256sum")

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def publisher(monkeypatch):
    monkeypatch.setattr(downloads._answer.retry, "sleep", lambda seconds: None)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    serving = Publisher()
    yield serving
    serving.close()


def kept():
    folder = cache_dir() / "programs"
    return [path.name for path in folder.iterdir() if not path.name.endswith(".lock")] if folder.exists() else []


def test_it_is_fetched_once_verified_and_can_be_run(publisher):
    path = downloads.fetch(publisher.item())
    assert path.read_bytes() == PROGRAM
    assert path.stat().st_mode & 0o111
    assert downloads.fetch(publisher.item()) == path
    assert publisher.asked == ["/kind.sha256sum", "/kind"]


@pytest.mark.parametrize(
    "changes",
    [{"/kind": PROGRAM[:-1] + b"!"}, {"/kind": b""}, {"/kind.sha256sum": b"0" * 64 + b"  kind\n"}],
    ids=["one byte", "empty", "another checksum"],
)
def test_what_is_not_what_the_publisher_says_is_refused_and_not_kept(publisher, changes):
    publisher.files |= changes
    with pytest.raises(ImageError, match="is not what its publisher's checksum file says"):
        downloads.fetch(publisher.item())
    assert kept() == []


@pytest.mark.parametrize("content", [b"", b"\n", b"<html>not found</html>", b"\xff\xfe"])
def test_a_checksum_file_that_is_none_is_told_as_such(publisher, content):
    publisher.files["/kind.sha256sum"] = content
    with pytest.raises(ImageError, match="sha256sum"):
        downloads.fetch(publisher.item())
    assert kept() == []


def test_a_download_that_breaks_off_is_an_error_and_not_kept(publisher):
    publisher.declared["/kind"] = len(PROGRAM) + 10
    with pytest.raises(ImageError, match="can't be fetched"):
        downloads.fetch(publisher.item())
    assert kept() == []


@pytest.mark.parametrize("missing", ["/kind", "/kind.sha256sum"])
def test_what_is_not_published_is_told_with_what_to_do(publisher, missing):
    del publisher.files[missing]
    with pytest.raises(ImageError, match="404") as failed:
        downloads.fetch(publisher.item())
    assert "--images" in failed.value.fix


def test_a_connection_that_is_dropped_is_tried_again(publisher):
    publisher.dropped = 2
    assert downloads.fetch(publisher.item()).read_bytes() == PROGRAM


def test_a_publisher_that_does_not_answer_is_told(publisher):
    publisher.dropped = 3
    with pytest.raises(ImageError, match="can't be fetched"):
        downloads.fetch(publisher.item())
    assert len(publisher.asked) == 3
