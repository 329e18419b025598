"""Published programs, fetched and verified against the publisher's checksum file that is fetched with them."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests
import tenacity

from chaos.errors import ImageError
from chaos.stack.images import cache

_TIMEOUT = (10, 60)  # seconds to connect, seconds without a byte
_CHUNK = 1 << 20


def architecture() -> str:
    """This machine's architecture, as publishers of Go programs name it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


@dataclass(frozen=True)
class Published:
    """One published program. The checksum file's first word is the sha256 of the program, in hex."""

    name: str
    version: str
    url: str
    checksum_url: str


def kind(version: str) -> Published:
    url = f"https://github.com/kubernetes-sigs/kind/releases/download/v{version}/kind-linux-{architecture()}"
    return Published("kind", version, url, f"{url}.sha256sum")


def kubectl(version: str) -> Published:
    url = f"https://dl.k8s.io/release/v{version}/bin/linux/{architecture()}/kubectl"
    return Published("kubectl", version, url, f"{url}.sha256")


def fetch(item: Published) -> Path:
    """The program on this disk; downloaded once."""

    def make(result: Path, progress: cache.Progress) -> None:
        expected = _checksum(item)
        digest = hashlib.sha256()
        with _get(item.url, stream=True) as answer, result.open("wb") as file:
            for chunk in _chunks(answer):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != expected:
            raise ImageError(
                f"{item.url} is not what its publisher's checksum file says: sha256 {digest.hexdigest()}, expected {expected}",
                fix="nothing was kept; try again, and if it stays so, find out who answers under that address",
            )
        result.chmod(0o755)

    return cache.cached("programs", f"{item.name}-{item.version}-linux-{architecture()}", make)


@tenacity.retry(
    retry=tenacity.retry_if_exception_type((requests.ConnectionError, requests.Timeout)),
    stop=tenacity.stop_after_attempt(3),
    wait=tenacity.wait_exponential(max=5),
    reraise=True,
)
def _answer(url: str, stream: bool) -> requests.Response:
    return requests.get(url, stream=stream, timeout=_TIMEOUT)


def _get(url: str, *, stream: bool = False) -> requests.Response:
    try:
        answer = _answer(url, stream)
        answer.raise_for_status()
    except requests.RequestException as problem:
        raise _failed(url, problem) from problem
    return answer


def _chunks(answer: requests.Response) -> Iterator[bytes]:
    try:
        yield from answer.iter_content(_CHUNK)
    except requests.RequestException as problem:
        raise _failed(answer.url, problem) from problem


def _checksum(item: Published) -> str:
    word = (_get(item.checksum_url).text.split() or [""])[0].lower()
    if re.fullmatch(r"[0-9a-f]{64}", word) is None:
        raise ImageError(
            f"{item.checksum_url} holds no sha256",
            fix="find out who answers under that address; a proxy may ask for a login",
        )
    return word


def _failed(url: str, problem: requests.RequestException) -> ImageError:
    return ImageError(
        f"{url} can't be fetched: {problem}",
        fix="check the connection; without internet use `--images build` or `--images archive`",
    )
