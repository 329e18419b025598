"""The digest lock: fetched digests bind, a first use is recorded and binds from then on."""

import json

import pytest

from chaos.errors import ImageError
from chaos.stack.images.lock import DigestLock

RAY, REDIS = "docker.io/rayproject/ray:2.60.0", "docker.io/library/redis:7.0.15"


@pytest.fixture
def lock(tmp_path):
    return DigestLock(tmp_path / "state" / "image-digests.json")


def test_a_first_use_is_recorded_and_must_stay_the_same(lock):
    assert lock.accept(RAY, "sha256:a")
    assert lock.accept(RAY, "sha256:a")
    assert not lock.accept(RAY, "sha256:b")
    assert lock.entries() == {RAY: {"digest": "sha256:a", "how": "first use"}}


def test_what_was_fetched_binds_and_replaces_what_was_only_recorded(lock):
    lock.accept(RAY, "sha256:a")
    lock.accept(REDIS, "sha256:r")
    lock.bind({RAY: "sha256:b"})
    assert lock.accept(RAY, "sha256:b")
    assert not lock.accept(RAY, "sha256:a")
    assert lock.accept(REDIS, "sha256:r"), "other names stay"
    assert lock.describe() == "1 locked, 1 recorded at first use"


def test_a_refused_digest_does_not_change_the_lock(lock):
    lock.bind({RAY: "sha256:a"})
    before = lock.path.read_bytes()
    lock.accept(RAY, "sha256:b")
    assert lock.path.read_bytes() == before


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({RAY: "sha256:a"})])
def test_a_lock_that_cannot_be_read_is_an_error_and_never_an_empty_one(lock, content):
    lock.path.parent.mkdir()
    lock.path.write_text(content)
    with pytest.raises(ImageError, match=r"image-digests\.json"):
        lock.accept(RAY, "sha256:a")
    assert lock.path.read_text() == content
