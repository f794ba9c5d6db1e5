"""One endpoint's pooled connections: bytes go out, a response is read, or a call fails.

aiohttp, because its parser is compiled: a call takes a quarter of the CPU that a pure-Python
client takes. Nothing is read without a bound. No redirect is followed, since it would take
the key along, and nothing but the one configured address is ever asked for anything.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, TypeVar
from urllib.request import getproxies, proxy_bypass

from peerage.providers import CallError
from peerage.providers.trace import HEADER, council_trace
from peerage.types import Usage

if TYPE_CHECKING:
    import aiohttp

CONNECT_TIMEOUT_S = 30.0  # the whole of a call is timed by whoever makes it
KEEP_ALIVE_S = 30.0
LARGE_BYTES = 2**20  # aiohttp asks for a file from here on, to write it piece by piece
UNSENT = Usage(0, 0, 0.0)

T = TypeVar("T")


class HttpClient:
    """The connections to one URL, with the headers that every request there carries."""

    def __init__(self, url: str, headers: Mapping[str, str], *, use_proxy: bool) -> None:
        import aiohttp
        from yarl import URL

        self._url = URL(url)
        self._place = str(self._url.origin())
        use_proxy = use_proxy and not proxy_bypass(self._url.host or "")
        self._proxy = getproxies().get(self._url.scheme) if use_proxy else None
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(
                limit=0,  # the limiter decides how many
                keepalive_timeout=KEEP_ALIVE_S,
                ssl=_trusted_authorities() if self._url.scheme == "https" else True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            trust_env=False,  # no proxy that we did not choose, and no password from a .netrc
        )

    async def post(self, body: bytes, read: Callable[[aiohttp.ClientResponse], Awaitable[T]]) -> T:
        """Send a body, and give what `read` makes of the response."""
        import aiohttp

        data = body if len(body) < LARGE_BYTES else BytesIO(body)
        try:
            async with self._session.post(
                self._url,
                data=data,
                headers={HEADER: council_trace.get()},
                allow_redirects=False,
                proxy=self._proxy,
            ) as response:
                return await read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._failure(error) from None

    async def aclose(self) -> None:
        await self._session.close()

    def _failure(self, error: Exception) -> CallError:
        import aiohttp
        from aiohttp.http_exceptions import ContentEncodingError

        if isinstance(error, aiohttp.ClientPayloadError):
            if isinstance(error.__cause__, ContentEncodingError):
                return CallError("bad_encoding", f"{self._place} sent what cannot be decompressed")
            return CallError("truncated", f"{self._place} broke off in the middle of its reply")
        if isinstance(error, TimeoutError):
            return CallError("timeout", f"{self._place} took no connection in time")
        if isinstance(error, aiohttp.ClientHttpProxyError):
            return CallError("connection", f"the proxy answered HTTP {error.status}", usage=UNSENT)
        if isinstance(error, aiohttp.ClientResponseError):
            return CallError("not_json", f"{self._place} does not speak HTTP")
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            why = f"the certificate of {self._place} is not trusted: {error.certificate_error}"
            return CallError("connection", why, usage=UNSENT)
        if isinstance(error, aiohttp.ClientConnectorError):
            why = f"no connection to {self._place}: {error.os_error.strerror or error}"
            return CallError("connection", why, usage=UNSENT)
        return CallError("connection", f"{self._place} hung up")


def _trusted_authorities() -> ssl.SSLContext:
    """The authorities that this machine trusts; some Pythons do not know where they are kept."""
    if sys.platform not in ("darwin", "win32"):
        return ssl.create_default_context()
    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
