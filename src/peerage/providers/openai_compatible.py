"""A provider for endpoints with OpenAI's chat completions, hosted or local.

Endpoints differ in the parameters they reject: a schema, a temperature, one of two names for the
token limit. If a rejection names such a parameter, the call is repeated without it, and later calls
to this model leave it out.

The client is aiohttp, because its parser is compiled: a call takes a quarter of the CPU time of a
pure-Python client. All reads are bounded. Redirects are not followed, because they would
carry the key to another address. Only the configured address is called.

Every possible fault of a completion becomes exactly one kind of `CallError`. Differences between
servers (content in parts, reasoning under three names, incomplete token counts) are resolved
here only.
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
from email.utils import parsedate_to_datetime
from functools import cached_property
from io import BytesIO
from ipaddress import ip_address
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from peerage.config import OPENAI_URL, key_name, secret
from peerage.errors import ConfigError
from peerage.messages import turn_document
from peerage.providers import (
    MAX_REPLY_BYTES,
    TRACE_HEADER,
    UNSENT,
    Call,
    CallError,
    Kind,
    OnText,
    Provider,
    Reply,
    council_trace,
    providers,
)
from peerage.providers.money import MAX_CALL_TOKENS, checked_usage
from peerage.text import valid_text
from peerage.types import Seat, Usage, is_cut_off

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
LARGE_BYTES = 2**20  # above this size aiohttp needs a file object, to write it in pieces
MAX_STREAM_BYTES = 64_000_000  # of a stream with all its events; each has about one word
THINKING, THOUGHT = "<think>", "</think>"  # tags around the reasoning of local models
MAX_ERROR_BYTES = 64_000  # of the body of an error
MAX_MODEL_CHARACTERS = 200  # of the id of a model

# Parameters that an endpoint may reject, with the words that identify each in an error message.
REFUSABLE = {
    "response_format": ("response_format", "json_schema", "schema", "structured output"),
    "max_tokens": ("max_tokens", "max_completion_tokens"),
    "temperature": ("temperature",),
    "reasoning_effort": ("reasoning_effort", "reasoning effort", "reasoning.effort"),
    "stream_options": ("stream_options",),
}
KIND_BY_STATUS: dict[int, Kind] = {
    401: "unauthorized",
    403: "unauthorized",
    408: "timeout",
    429: "rate_limited",
}
REFUSALS = frozenset({400, 404, 415, 422, 501})  # 404: OpenRouter, when no host has the feature
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
        # Only this endpoint is certain to need the newer name of the token limit.
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
                # A client's schema may be refused where our own are taken.
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
            trust_env=False,  # only the proxy chosen above, and no password from a .netrc
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
        return await self.post(body, lambda response: _read(response, on_text))

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
        """Send a request with the key; raise CallError without a connection and for HTTP errors."""
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
        message, parameter, code = _error_words(body.decode("utf-8", "replace"))
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
    """Return the certificate authorities of this machine, which some Pythons do not find."""
    if sys.platform not in ("darwin", "win32"):
        return ssl.create_default_context()
    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _key_fault(base_url: str, name: str, key: str | None) -> str | None:
    """Return the problem with the key for an address, or None if it has or needs no key."""
    if key is not None:
        usable = key.isascii() and key.isprintable()
        return None if usable else f"the value of {name} cannot be a key"
    parts = urlsplit(base_url)
    if is_private(parts.hostname or "") or (parts.scheme == "http" and not name):
        return None
    return f"the variable {name} is not set" if name else f"no api_key_env is given for {base_url}"


def is_private(host: str) -> bool:
    """Return whether a host is on this machine or in a private network; a key is optional."""
    try:
        return ip_address(host).is_private
    except ValueError:
        own = (".local", ".lan", ".internal", ".home.arpa")
        return is_loopback(host) or host.endswith(own) or (bool(host) and "." not in host)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, where a model may be served without a key."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# -- rejected parameters ----------------------------------------------------------------------


def _refused_parameter(
    error: CallError, body: Mapping[str, Any], tried: frozenset[str]
) -> str | None:
    """Return the parameter to leave out (the token limit: to rename) in the next request."""
    if error.status not in REFUSALS:
        return None
    sent = {"max_tokens", *body} - tried  # the token limit has two names
    message = f"{error.message} {error.parameter}".lower()
    for parameter, words in REFUSABLE.items():
        if parameter in sent and any(word in message for word in words):
            return parameter
    # A rejection that names no parameter is usually about the schema.
    return "response_format" if "response_format" in sent else None


# -- reading ----------------------------------------------------------------------------------


async def _read(response: aiohttp.ClientResponse, on_text: OnText | None) -> Reply:
    """Read the reply from a response, complete or streamed."""
    content_type = response.headers.get("Content-Type", "")
    if content_type.lower().startswith("text/event-stream"):  # some servers always stream
        stream = CompletionStream(on_text)
        async for data in response.content.iter_any():
            stream.feed(data)
            if stream.done:
                break
        return stream.reply()
    body, is_whole = await body_of(response, MAX_REPLY_BYTES)
    if not is_whole:
        raise CallError("too_long", f"the reply is longer than {MAX_REPLY_BYTES} bytes")
    reply = parse_completion(body, content_type)
    if on_text is not None:  # the server does not stream
        on_text(reply.text)
    return reply


async def body_of(response: aiohttp.ClientResponse, max_bytes: int) -> tuple[bytes, bool]:
    """Read a body up to a limit; return it and whether it is complete."""
    body = bytearray()
    async for data in response.content.iter_any():
        body += data
        if len(body) > max_bytes:
            return bytes(body[:max_bytes]), False
    return bytes(body), True


def _error_words(text: str) -> tuple[str, str, str]:
    """Return the message of an error (or its whole text), the parameter it names, and its code."""
    try:
        document = parse_json(text)
    except ValueError:
        return text, "", ""
    error = document.get("error", document) if isinstance(document, dict) else document
    if isinstance(error, str):
        return error, "", ""
    if not isinstance(error, dict):
        return text, "", ""
    words = error.get("message") or error.get("detail"), error.get("param"), error.get("code")
    message, parameter, code = (word if isinstance(word, str) else "" for word in words)
    return message, parameter, code


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the wait that the endpoint asks for, given in seconds or as a date, or None."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            wait_s = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        return wait_s if 0 <= wait_s < float("inf") else None
    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - now)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def kind_of(status: int) -> Kind:
    """Return the kind of failure for an HTTP status."""
    return KIND_BY_STATUS.get(status) or ("server_error" if status >= 500 else "bad_request")


# -- a complete response ----------------------------------------------------------------------


def parse_completion(body: bytes, content_type: str = "") -> Reply:
    """Return the reply in the body of a response."""
    return reply_of(parse_document(decode_body(body, content_type)))


def reply_of(document: Mapping[str, Any]) -> Reply:
    """Return the reply in a chat completion; raise CallError for a fault that it reports."""
    if not document.get("choices") and document.get("error"):
        raise _endpoint_error(document["error"])
    message, finish = _first(document, "message")
    if message is None:
        raise CallError("not_json", "the reply is JSON but not a chat completion")
    usage = usage_of(document.get("usage"))
    return build_reply(*_texts(message), finish, usage, model_of(document))


def decode_body(body: bytes, content_type: str = "") -> str:
    """Decode a body as UTF-8, as JSON requires, or with the charset of its header."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        _, _, charset = content_type.lower().partition("charset=")
        charset = charset.split(";")[0].strip(" \"'")
    try:
        if charset and charset.replace("-", "") != "utf8":
            return body.decode(charset)
    except (LookupError, ValueError):
        pass
    raise CallError("bad_encoding", "the reply is not in the encoding that it declares")


def parse_json(text: str) -> Any:
    """Parse JSON from outside; raise ValueError if it is invalid or nested too deeply."""
    try:
        return json.loads(text, parse_int=_parse_int)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _parse_int(digits: str) -> int | float:
    """Parse an integer; one that is too long for any count becomes a float, and is refused."""
    return int(digits) if len(digits) <= len(str(MAX_CALL_TOKENS)) else float(digits)


def parse_document(text: str) -> dict[str, Any]:
    """Parse a JSON object; raise CallError if the text is empty, incomplete or something else."""
    try:
        document = parse_json(text)
    except ValueError:
        bare = text.strip().removeprefix("\ufeff")
        if not bare:
            raise CallError("not_json", "the reply has no body") from None
        if bare.startswith("{") and not bare.endswith("}"):
            message = "the JSON of the reply is incomplete"
            raise CallError("truncated", message) from None
        message = f"the reply is not JSON: {bare}"
        raise CallError("not_json", message) from None
    if not isinstance(document, dict):
        raise CallError("not_json", "the reply is JSON but not a chat completion")
    return document


def _endpoint_error(error: object) -> CallError:
    """Return the error that a server reports inside a completion."""
    about = error if isinstance(error, Mapping) else {"message": error}
    code, message = about.get("code"), about.get("message")
    kind = kind_of(code) if isinstance(code, int) and 400 <= code < 600 else "server_error"
    words = message if isinstance(message, str) and message else "an error without a message"
    return CallError(kind, f"the endpoint reports: {words}")


# -- a streamed response ----------------------------------------------------------------------


class CompletionStream:
    """Reads a completion from server-sent events and passes on pieces of text."""

    def __init__(self, on_text: OnText | None = None) -> None:
        self.done = False
        self._on_text = on_text
        self._line = bytearray()  # the beginning of the next line
        self._n_bytes = 0
        self._n_characters = 0  # of text, reasoning and refusal
        self._pieces = [("", "", "")]  # text, reasoning, refusal
        self._finish = ""
        self._usage = Usage()
        self._model = ""

    def feed(self, data: bytes) -> None:
        """Read some bytes of the stream, split anywhere."""
        self._n_bytes += len(data)
        if self._n_bytes > MAX_STREAM_BYTES:
            raise CallError("too_long", f"the stream is longer than {MAX_STREAM_BYTES} bytes")
        first, *lines = data.split(b"\n")
        self._line += first
        if len(self._line) > MAX_REPLY_BYTES:
            raise CallError("too_long", "a line of the stream is too long")
        if not lines:
            return
        last, self._line = bytes(self._line), bytearray(lines.pop())
        for line in (last, *lines):
            if line.startswith(b"data:"):
                self._event(line[5:].strip())

    def reply(self) -> Reply:
        """Return the complete reply after the end of the stream."""
        if not self.done and not self._finish:
            raise CallError("truncated", "the stream ended too early", usage=self._usage)
        text, reasoning, refusal = map("".join, zip(*self._pieces, strict=True))
        return build_reply(text, reasoning, refusal, self._finish, self._usage, self._model)

    def _event(self, data: bytes) -> None:
        self.done = self.done or data == b"[DONE]"
        if not data or self.done:
            return
        document = parse_document(decode_body(data))
        if document.get("error"):
            raise _endpoint_error(document["error"])
        if document.get("usage"):
            self._usage = usage_of(document["usage"])
        self._model = self._model or model_of(document)
        delta, finish = _first(document, "delta")
        self._finish = finish or self._finish
        if delta is None:
            return
        piece = _texts(delta)
        self._n_characters += sum(map(len, piece))
        if self._n_characters > MAX_REPLY_BYTES:
            raise CallError("too_long", f"the reply is longer than {MAX_REPLY_BYTES} characters")
        self._pieces.append(piece)
        if piece[0] and self._on_text is not None:
            self._on_text(piece[0])


# -- parts of a response ----------------------------------------------------------------------


def _first(document: Mapping[str, Any], part: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return a part of the first choice, or None, and the reason why it ended."""
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return None, ""
    content, finish = choice.get(part), choice.get("finish_reason")
    return (
        content if isinstance(content, dict) else None,
        finish if isinstance(finish, str) else "",
    )


def model_of(document: Mapping[str, Any]) -> str:
    """Return the id of the model that replied, or "" if the endpoint reports none."""
    model = document.get("model")
    return model.strip()[:MAX_MODEL_CHARACTERS] if isinstance(model, str) else ""


def build_reply(
    text: str, reasoning: str, refusal: str, finish: str, usage: Usage, model: str = ""
) -> Reply:
    """Return a reply with text; a text cut at its token limit is a reply too.

    A refusal raises CallError even if it has text. Thoughts before the answer become the
    reasoning of the reply.
    """
    if refusal.strip():
        raise CallError("refused", f"the model declined: {refusal}", usage=usage)
    if finish == "content_filter":
        raise CallError("refused", "the endpoint's content filter blocked the reply", usage=usage)
    if text.lstrip().startswith(THINKING):
        thought, closed, rest = text.partition(THOUGHT)
        reasoning += thought.lstrip().removeprefix(THINKING)
        text = rest.lstrip() if closed else ""
    if not text.strip():
        if is_cut_off(finish):
            message = "the token limit was reached before any text; raise the seat's max_tokens"
            raise CallError("out_of_tokens", message, usage=usage)
        raise CallError("empty", "the reply has no text", usage=usage)
    return Reply(text, usage, reasoning, finish, model=model)


def usage_of(reported: object) -> Usage:
    """Return the tokens and the cost that the endpoint reports; missing values stay unknown.

    Some endpoints count reasoning only in the total, so the rest of the total is output.
    """
    if not isinstance(reported, Mapping):
        return Usage()
    usage = checked_usage(
        Usage(
            reported.get("prompt_tokens"), reported.get("completion_tokens"), reported.get("cost")
        )
    )
    if reported.get("total_tokens") is None or usage.tokens_in is None:
        return usage
    total = checked_usage(Usage(tokens_out=reported["total_tokens"])).tokens_out
    if total is None or total < usage.tokens_in:
        return Usage()
    n_out = max(usage.tokens_out or 0, total - usage.tokens_in)
    return Usage(usage.tokens_in, n_out, usage.cost_usd)


def _text(content: object) -> str:
    """Return the text of a content, which may be a string, a list of parts, or null."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def _texts(message: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the text, the reasoning and the refusal of a message or of a piece of one."""
    reasoning = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
    return _text(message.get("content")), reasoning, _text(message.get("refusal"))
