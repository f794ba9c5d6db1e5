"""One endpoint's pooled connections: a body goes out, an answer comes back or a kind of failure.

aiohttp, because its parser is compiled: a call takes a quarter of the CPU that a pure-Python
client takes. Nothing is read without a bound, and no redirect is followed, since it would
take the key along.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from io import BytesIO
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError
from yarl import URL

from peerage.providers import CallError
from peerage.providers.wire.completions import MAX_REPLY_BYTES
from peerage.types import Usage

CONNECT_TIMEOUT_S = 30.0  # the whole of a call is timed by whoever makes it
KEEP_ALIVE_S = 30.0
LARGE_BYTES = 2**20  # aiohttp asks for a file from here on, to write it piece by piece
UNSENT = Usage(0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: its whole body, or the pieces of an event stream still to come."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    pieces: AsyncGenerator[bytes, None] | None = None


class Wire:
    """The connections to one URL."""

    def __init__(self, url: str) -> None:
        self.url = URL(url)
        self.place = str(self.url.origin())
        self._session: aiohttp.ClientSession | None = None
        self._proxy: str | None = None

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        session = self._session or self._open()
        data = body if len(body) < LARGE_BYTES else BytesIO(body)
        try:
            response = await session.post(
                self.url, data=data, headers=headers, allow_redirects=False, proxy=self._proxy
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._failure(error) from None
        if response.status < 400 and response.content_type == "text/event-stream":
            return Answer(response.status, response.headers, pieces=self._pieces(response))
        try:
            return Answer(response.status, response.headers, await _bounded(response))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._failure(error) from None
        finally:
            response.close()  # once the body was read to its end this is nothing

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        """The session, made inside the loop that uses it."""
        proxy = getproxies().get(self.url.scheme)
        self._proxy = None if proxy_bypass(self.url.host or "") else proxy
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the limiter decides how many
                keepalive_timeout=KEEP_ALIVE_S,
                ssl=_trust() if self.url.scheme == "https" else True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        )
        return self._session

    async def _pieces(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        try:
            async for data in response.content.iter_any():
                yield data
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._failure(error) from None
        finally:
            response.close()

    def _failure(self, error: Exception) -> CallError:
        if isinstance(error, aiohttp.ClientPayloadError):
            if isinstance(error.__cause__, ContentEncodingError):
                return CallError("bad_encoding", f"{self.place} sent what cannot be decompressed")
            return CallError("truncated", f"{self.place} broke off in the middle of its reply")
        if isinstance(error, TimeoutError):
            return CallError("timeout", f"{self.place} took no connection in time")
        if isinstance(error, aiohttp.ClientResponseError):
            return CallError("not_json", f"{self.place} does not speak HTTP")
        if isinstance(error, aiohttp.ClientConnectorError):
            why = f"no connection to {self.place}: {error.os_error.strerror or error}"
            return CallError("connection", why, usage=UNSENT)
        return CallError("connection", f"{self.place} hung up")


def _trust() -> ssl.SSLContext:
    """The authorities that this machine trusts, found as the SDK finds them."""
    import httpx2

    return httpx2.create_ssl_context()


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    """The body, unless it is longer than any reply may be, whatever its header promised."""
    if (response.content_length or 0) > MAX_REPLY_BYTES:
        raise CallError("too_long", f"a reply of {response.content_length} bytes was announced")
    content = response.content
    body = await content.readany()
    while not content.at_eof():
        body += await content.readany()
        if len(body) > MAX_REPLY_BYTES:
            raise CallError("too_long", f"the reply went on after {MAX_REPLY_BYTES} bytes")
    return body
