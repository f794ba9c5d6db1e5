"""A provider for endpoints with OpenAI's chat completions, hosted or local.

Endpoints differ in the parameters they reject: a schema, a temperature, one of two names for the
token limit. If a rejection names such a parameter, the call is repeated without it, and later calls
to this model leave it out.

The client is aiohttp, because its parser is compiled: a call takes a quarter of the CPU time of a
pure-Python client. All reads are bounded. Redirects are not followed, because they would
carry the key to another address. Only the configured address is called.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property
from io import BytesIO
from ipaddress import ip_address
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from peerage.config import OPENAI_URL, key_name, secret
from peerage.errors import ConfigError
from peerage.hosts import is_loopback
from peerage.messages import turn_document
from peerage.providers import (
    MAX_REPLY_BYTES,
    TRACE_HEADER,
    UNSENT,
    Call,
    CallError,
    OnText,
    Provider,
    Reply,
    council_trace,
    providers,
)
from peerage.providers.chat_replies import (
    body_of,
    error_words,
    kind_of,
    read_reply,
    retry_after_s,
)
from peerage.text import valid_text
from peerage.types import Seat

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from peerage.providers.batch_endpoints import BatchEndpoint

T = TypeVar("T")

CONNECT_TIMEOUT_S = 30.0  # the caller limits the whole call
KEEP_ALIVE_S = 30.0
LIST_TIMEOUT_S = 20.0
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
BEARER = ("Authorization", "Bearer ")  # the header of the key, and the text before the key
MAX_ID = 300  # characters of a listed model
LARGE_BYTES = 2**20  # aiohttp writes a larger body in pieces only from a file object
MAX_ERROR_BYTES = 64_000  # how much of the body of an error is read

# Parameters that an endpoint may reject, with the words that identify each in an error message.
REFUSABLE = {
    "response_format": ("response_format", "json_schema", "schema", "structured output"),
    "max_tokens": ("max_tokens", "max_completion_tokens"),
    "temperature": ("temperature",),
    "reasoning_effort": ("reasoning_effort", "reasoning effort", "reasoning.effort"),
    "stream_options": ("stream_options",),
}
REFUSALS = frozenset({400, 404, 415, 422, 501})  # 404: from OpenRouter, if no host has the feature
OPTION_HINTS = dict.fromkeys(("model", "max_tokens"), "Write it as a key of the seat.")
OURS = frozenset(
    {"model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "response_format"}
)


@providers.register("openai")
class OpenAICompatible(Provider):
    """One endpoint with one key; its seats share connections and rejected parameters."""

    constrains = True
    streams = True
    sees = True

    def __init__(self, seat: Seat, environ: Mapping[str, str] = os.environ) -> None:
        self.base_url, self.key_name = self.endpoint(seat)[0], key_name(seat, environ)
        self._environ = environ
        self._session: aiohttp.ClientSession | None = None
        self._proxy: str | None = None
        self._key: str | None = None  # read when the connections are opened
        self._without: dict[str, frozenset[str]] = {}  # rejected parameters, by model
        host = urlsplit(self.base_url).hostname or ""
        # Only OpenAI's endpoint is certain to need the newer name of the token limit.
        self._at_first = frozenset({"max_tokens"} if host == "api.openai.com" else ())
        self._also = {"usage": {"include": True}} if host.endswith("openrouter.ai") else {}

    @classmethod
    def endpoint(cls, seat: Seat) -> tuple[str, ...]:
        """Return the address and the name of the key's variable."""
        return (seat.base_url or OPENAI_URL).rstrip("/"), key_name(seat)

    @classmethod
    def check(cls, seat: Seat) -> None:
        parts = urlsplit(cls.endpoint(seat)[0])
        place = f"seat {seat.name}"
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("base_url is not an http or https address.", place=place)
        for name in sorted(OURS & set(seat.options)):  # they would make cost limits wrong
            raise ConfigError(
                f"options may not set {name}.", place=place, hint=OPTION_HINTS.get(name, "")
            )

    @classmethod
    def check_ready(cls, seat: Seat) -> None:
        base_url, name, *_ = cls.endpoint(seat)
        fault = _key_fault(base_url, name, secret(name))
        if fault is not None:
            hint = "Set it, or name another as api_key_env." if name else "Set api_key_env."
            raise ConfigError(f"{fault}.", place=f"seat {seat.name}", hint=hint)

    def can_constrain(self, seat: Seat) -> bool:
        """Return True until the seat's model has rejected a schema."""
        return "response_format" not in self._without.get(seat.model, ())

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:
        """Call the endpoint, and repeat the call without each parameter that it rejects.

        Rejected parameters are remembered only after a good reply: if every variant is rejected,
        the request was wrong for another reason.
        """
        known = without = self._without.get(call.seat.model, self._at_first)
        while True:
            body = self._body(call, without, stream=on_text is not None)
            try:
                reply = await self._post(body, on_text)
            except CallError as error:
                refused = _refused_parameter(error, body, without ^ known)
                if refused is None:
                    raise
                without = without ^ {refused}
                continue
            if call.query.output is not None and not call.code:
                # An endpoint that refuses a client's schema may still accept ours.
                without = without - {"response_format"} | known & {"response_format"}
            self._without[call.seat.model] = without
            # Some servers accept a schema and ignore it, so check the reply.
            if "response_format" in body and reply.text.lstrip().startswith("{"):
                return replace(reply, constrained=True)
            return reply

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    path: ClassVar[str] = "chat/completions"

    @cached_property
    def _url(self) -> URL:
        from yarl import URL

        return URL(f"{self.base_url}/{self.path}")

    def _connect(self) -> aiohttp.ClientSession:
        """Open the pooled connections on first use, because aiohttp is slow to import."""
        import aiohttp

        key = secret(self.key_name, self._environ)
        fault = _key_fault(self.base_url, self.key_name, key)
        if fault is not None:
            raise CallError("unauthorized", fault)
        self._key = key
        parts = urlsplit(self.base_url)
        host = parts.hostname or ""
        use_proxy = not (is_loopback(host) or proxy_bypass(host))
        self._proxy = getproxies().get(parts.scheme) if use_proxy else None
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": "peerage"},
            connector=aiohttp.TCPConnector(
                limit=0,  # the limiter decides
                keepalive_timeout=KEEP_ALIVE_S,
                ssl=_trusted_authorities() if parts.scheme == "https" else True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            trust_env=False,  # use only the proxy chosen above, and no password from a .netrc file
        )
        return self._session

    async def list_models(self) -> list[str]:
        """Return the ids of the models that the endpoint lists, in alphabetical order."""
        address = f"{self.base_url}/models"
        try:
            async with (
                asyncio.timeout(LIST_TIMEOUT_S),
                self.exchange("GET", address) as response,
            ):
                body, _ = await body_of(response, MAX_REPLY_BYTES)
        except TimeoutError:
            raise CallError("timeout", f"{address} did not reply in time") from None
        try:
            entries = json.loads(body)["data"]
            return sorted({valid_text(str(entry["id"]))[:MAX_ID] for entry in entries})
        except (ValueError, LookupError, TypeError, RecursionError):
            raise CallError("not_json", f"{address} has no list of models") from None

    async def _post(self, body: Mapping[str, Any], on_text: OnText | None) -> Reply:
        """Send a request and return the reply."""
        return await self.post(body, lambda response: read_reply(response, on_text))

    async def post(
        self, body: Mapping[str, Any], read: Callable[[aiohttp.ClientResponse], Awaitable[T]]
    ) -> T:
        """Send a request and return what is read from its response, or raise CallError."""
        headers = {"Content-Type": "application/json", TRACE_HEADER: council_trace.get()}
        async with self.exchange("POST", self._url, json_bytes(body), headers) as response:
            return await read(response)

    @asynccontextmanager
    async def exchange(
        self,
        verb: str,
        address: str | URL,
        data: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
        key_header: tuple[str, str] = BEARER,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request with the key; raise CallError for connection errors and HTTP errors."""
        session = self._session or self._connect()
        import aiohttp

        name, before = key_header
        with_key = {name: before + self._key} if self._key is not None else {}
        try:
            async with session.request(
                verb,
                address,
                data=data if len(data) < LARGE_BYTES else BytesIO(data),
                headers={**headers, **with_key},
                allow_redirects=False,
                proxy=self._proxy,
            ) as response:
                if response.status >= 300:
                    raise await self._failure(response)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _connection_error(error, str(self._url.origin())) from None

    def request_body(self, call: Call) -> dict[str, Any]:
        """Return the body of a call that is not streamed, without parameters the model rejects."""
        return self._body(call, self._without.get(call.seat.model, self._at_first), stream=False)

    def batch_endpoint(self, seat: Seat) -> BatchEndpoint | None:
        """Return the endpoint for a seat's batches, from its options or by its host."""
        from peerage.providers.batch_endpoints import endpoint_for

        return endpoint_for(self, seat)

    def _body(self, call: Call, without: frozenset[str], stream: bool) -> dict[str, Any]:
        """Build the request without rejected parameters; the token limit may be renamed."""
        seat = call.seat
        messages = [turn_document(message) for message in call.messages]
        body: dict[str, Any] = {"model": seat.model, "messages": messages, **self._also}
        body |= {**seat.options, "temperature": seat.temperature, "max_tokens": call.max_tokens}
        if seat.reasoning_effort:
            body["reasoning_effort"] = seat.reasoning_effort
        if call.schema is not None:
            schema = {"name": call.stage, "strict": call.strict, "schema": call.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if "max_tokens" in without:
            body["max_completion_tokens"] = call.max_tokens
        return {name: value for name, value in body.items() if name not in without}

    async def _failure(self, response: aiohttp.ClientResponse) -> CallError:
        """Return the error for an HTTP status, with the endpoint's own message if there is one."""
        body, _ = await body_of(response, MAX_ERROR_BYTES)
        message, parameter, code = error_words(body.decode("utf-8", "replace"))
        status, wait_s = response.status, retry_after_s(response.headers, time.time())
        if code == "insufficient_quota":  # waiting does not help
            wait_s = math.inf
        text = f"HTTP {status}" + (f": {message}" if message else "")
        if status in (401, 403) and self.key_name:
            text = f"the key in {self.key_name} was not accepted, {text}"
        elif status < 400:
            text = f"redirects are not followed, {text}"
        return CallError(
            kind_of(status),
            text,
            retry_after_s=wait_s,
            # A 429 usually limits one model; a 503 with a retry time applies to the whole
            # service.
            of_endpoint=status == 503,
            status=status,
            parameter=parameter,
        )


def json_bytes(document: object) -> bytes:
    """Return a document as compact JSON in valid UTF-8."""
    return valid_text(json.dumps(document, ensure_ascii=False, separators=(",", ":"))).encode()


def _connection_error(error: Exception, place: str) -> CallError:
    """Return the error for a request without a complete response."""
    import aiohttp
    from aiohttp.http_exceptions import ContentEncodingError

    match error:
        case aiohttp.ClientPayloadError(__cause__=ContentEncodingError()):
            return CallError("bad_encoding", f"{place} sent data that cannot be decompressed")
        case aiohttp.ClientPayloadError():
            return CallError("truncated", f"{place} broke off in the middle of its reply")
        case TimeoutError():
            return CallError("timeout", f"{place} did not accept a connection in time")
        case aiohttp.ClientHttpProxyError():
            return CallError("connection", f"the proxy answered HTTP {error.status}", usage=UNSENT)
        case aiohttp.ClientResponseError():
            return CallError("not_json", f"{place} does not speak HTTP")
        case aiohttp.ClientConnectorCertificateError():
            why = f"the certificate of {place} is not trusted: {error.certificate_error}"
            return CallError("connection", why, usage=UNSENT)
        case aiohttp.ClientConnectorError():
            why = f"no connection to {place}: {error.os_error.strerror or error}"
            return CallError("connection", why, usage=UNSENT)
    return CallError("connection", f"{place} closed the connection")


def _trusted_authorities() -> ssl.SSLContext:
    """Return the machine's certificate authorities; on macOS and Windows, through truststore."""
    if sys.platform not in ("darwin", "win32"):
        return ssl.create_default_context()
    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _key_fault(base_url: str, name: str, key: str | None) -> str | None:
    """Return the problem with the key for an address, or None if the key is good or not needed."""
    if key is not None:
        usable = key.isascii() and key.isprintable()
        return None if usable else f"the value of {name} cannot be a key"
    parts = urlsplit(base_url)
    if is_private(parts.hostname or "") or (parts.scheme == "http" and not name):
        return None
    return f"the variable {name} is not set" if name else f"no api_key_env is given for {base_url}"


def is_private(host: str) -> bool:
    """Return whether a host is local or in a private network, where a key is optional."""
    try:
        return ip_address(host).is_private
    except ValueError:
        own = (".local", ".lan", ".internal", ".home.arpa")
        return is_loopback(host) or host.endswith(own) or (bool(host) and "." not in host)


# -- rejected parameters ----------------------------------------------------------------------


def _refused_parameter(
    error: CallError, body: Mapping[str, Any], tried: frozenset[str]
) -> str | None:
    """Return the parameter that was rejected: one to leave out, or the token limit, to rename."""
    if error.status not in REFUSALS:
        return None
    sent = {"max_tokens", *body} - tried  # the token limit has two names
    message = f"{error.message} {error.parameter}".lower()
    for parameter, words in REFUSABLE.items():
        if parameter in sent and any(word in message for word in words):
            return parameter
    # A rejection that names no parameter is usually about the schema.
    return "response_format" if "response_format" in sent else None
