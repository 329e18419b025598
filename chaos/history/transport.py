"""Raw GET requests whose answer is read as it arrives, on connections of their own.

The official client is used for where the server is, for TLS and for who we are; not for decoding, which would cost ten
times the CPU, nor for its retries, which would hide an outage that the history must show.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from urllib.parse import urlencode

import urllib3
from kubernetes.client import ApiClient, rest

_CHUNK = 64 * 1024


class Transport:
    """Connections to the API server that a ``kubernetes.client.ApiClient`` points at. Thread-safe."""

    def __init__(self, api_client: ApiClient) -> None:
        # A pool of our own: streams that last for minutes must not crowd out the requests of whoever made the client,
        # and more streams than the pool's default are usual (one a running container).
        configuration = copy.copy(api_client.configuration)
        configuration.connection_pool_maxsize = 256
        self._configuration = configuration
        self._pool: urllib3.PoolManager = rest.RESTClientObject(configuration).pool_manager
        self._agent: str = api_client.default_headers.get("User-Agent", "kuberay-chaos")

    def get(self, path: str, query: Mapping[str, str], *, connect: float, read: float) -> urllib3.HTTPResponse:
        """The answer, its body unread, whatever its status.

        ``connect`` and ``read`` are in seconds; ``read`` bounds each silence, not the whole. Raises
        urllib3.exceptions.HTTPError or OSError.
        """
        headers = {"Accept": "application/json, */*", "User-Agent": self._agent}
        # Asked for each time, since the client may renew a token that expires.
        if token := self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization"):
            headers["Authorization"] = token
        url = f"{self._configuration.host}{path}"
        if query:
            url = f"{url}?{urlencode(query)}"
        response = self._pool.request(
            "GET",
            url,
            headers=headers,
            preload_content=False,
            redirect=False,
            retries=False,
            timeout=urllib3.Timeout(connect=connect, read=read),
        )
        assert isinstance(response, urllib3.HTTPResponse)
        return response

    def close(self) -> None:
        """Close idle connections."""
        self._pool.clear()


def lines(response: urllib3.HTTPResponse, *, longest: int | None = None) -> Iterator[bytes]:
    """The body's lines, each with its newline, as they arrive.

    What follows the last newline comes last, without one. With ``longest``, a longer line comes in pieces, of which
    only the last has a newline. Raises as `Transport.get` when the connection breaks.
    """
    buffer = bytearray()
    while chunk := response.read1(_CHUNK, decode_content=False):
        searched = len(buffer)
        buffer += chunk
        begin = 0
        while (end := buffer.find(b"\n", max(begin, searched))) >= 0:
            yield bytes(buffer[begin : end + 1])
            begin = end + 1
        del buffer[:begin]
        if longest is not None and len(buffer) > longest:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


def abort(response: urllib3.HTTPResponse) -> None:
    """Make a read of ``response`` that blocks in another thread end now. Does nothing when it has already ended."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        response.shutdown()
