"""Any endpoint that speaks OpenAI's chat completions, hosted or local.

Endpoints differ in what they refuse: a schema, a temperature, one of two names for the
token limit. A refusal that names such a parameter is not the caller's failure: the call is
made again without it, and the model is not asked for it any more.

The client is aiohttp, because its parser is compiled: a call takes a quarter of the CPU that a
pure-Python client takes. Nothing is read without a bound. No redirect is followed, since it would
take the key along, and nothing but the one configured address is ever asked for anything.

Every way in which a completion can be wrong ends in exactly one kind of `CallError`; what servers
differ in (content in parts, reasoning under three names, tokens left out of a count) is evened
out here and nowhere else.
"""

from __future__ import annotations

import json
import math
import os
import ssl
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from email.utils import parsedate_to_datetime
from functools import cached_property
from io import BytesIO
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from peerage.config import OPENAI_URL, key_name, secret
from peerage.errors import ConfigError
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

CONNECT_TIMEOUT_S = 30.0  # the whole of a call is timed by whoever makes it
KEEP_ALIVE_S = 30.0
LARGE_BYTES = 2**20  # aiohttp asks for a file from here on, to write it piece by piece
MAX_STREAM_BYTES = 64_000_000  # of a stream with all its events; each carries one word or so
THINKING, THOUGHT = "<think>", "</think>"  # how models served locally fence their reasoning
MAX_ERROR_BYTES = 64_000  # of an error's body; what follows adds nothing to a sentence

# What an endpoint may refuse, with the words by which a refusal is known to mean it.
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
    """One endpoint under one key; its seats share the connections and what was learnt."""

    constrains = True
    streams = True

    def __init__(self, seat: Seat, environ: Mapping[str, str] = os.environ) -> None:
        self.base_url, self.key_name = self.endpoint(seat)[0], key_name(seat, environ)
        self._environ = environ
        self._session: aiohttp.ClientSession | None = None
        self._proxy: str | None = None
        self._without: dict[str, frozenset[str]] = {}  # parameters refused, by model
        host = urlsplit(self.base_url).hostname or ""
        # The only endpoint where the newer name is the safe first guess.
        self._at_first = frozenset({"max_tokens"} if host == "api.openai.com" else ())
        self._also = {"usage": {"include": True}} if host.endswith("openrouter.ai") else {}

    @classmethod
    def endpoint(cls, seat: Seat) -> tuple[str, str]:
        """The address and the name of the key."""
        return (seat.base_url or OPENAI_URL).rstrip("/"), key_name(seat)

    @classmethod
    def check(cls, seat: Seat) -> None:
        parts = urlsplit(cls.endpoint(seat)[0])
        place = f"seat {seat.name}"
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("its base_url is no http or https address.", place=place)
        for name in sorted(OURS & set(seat.options)):  # the money would not add up
            raise ConfigError(
                f"options may not set {name}.", place=place, hint=OPTION_HINTS.get(name, "")
            )

    @classmethod
    def check_ready(cls, seat: Seat) -> None:
        base_url, name = cls.endpoint(seat)
        fault = _key_fault(base_url, name, secret(name))
        if fault is not None:
            hint = "Set it, or name another as api_key_env." if name else "Name its variable."
            raise ConfigError(f"{fault}.", place=f"seat {seat.name}", hint=hint)

    def can_constrain(self, seat: Seat) -> bool:
        """True until the seat's model has refused a schema."""
        return "response_format" not in self._without.get(seat.model, ())

    async def complete(self, call: Call, on_text: OnText | None = None) -> Reply:
        """Ask until nothing that can be left out is refused.

        What was left out is remembered only after a good reply: a request that is refused
        whatever is left out was wrong for another reason.
        """
        known = without = self._without.get(call.seat.model, self._at_first)
        while True:
            body = self._body(call, without, stream=on_text is not None)
            try:
                reply = await self._post(body, on_text)
            except CallError as error:
                refused = _refused(error, body, without ^ known)
                if refused is None:
                    raise
                without = without ^ {refused}
                continue
            if call.query.output is not None and not call.code:
                # A client's schema may be refused where our own are taken.
                without = without - {"response_format"} | known & {"response_format"}
            self._without[call.seat.model] = without
            # Some servers take a schema and do not keep to it, so that is looked at.
            if "response_format" in body and reply.text.lstrip().startswith("{"):
                return replace(reply, constrained=True)
            return reply

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @cached_property
    def _url(self) -> URL:
        from yarl import URL

        return URL(f"{self.base_url}/chat/completions")

    def _connect(self) -> aiohttp.ClientSession:
        """The pooled connections, made when first needed: aiohttp takes a while to import."""
        import aiohttp

        key = secret(self.key_name, self._environ)
        fault = _key_fault(self.base_url, self.key_name, key)
        if fault is not None:
            raise CallError("unauthorized", fault)
        headers = {"Content-Type": "application/json", "User-Agent": "peerage"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        parts = urlsplit(self.base_url)
        host = parts.hostname or ""
        use_proxy = not (is_loopback(host) or proxy_bypass(host))
        self._proxy = getproxies().get(parts.scheme) if use_proxy else None
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(
                limit=0,  # the limiter decides how many
                keepalive_timeout=KEEP_ALIVE_S,
                ssl=_trusted_authorities() if parts.scheme == "https" else True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            trust_env=False,  # no proxy that we did not choose, and no password from a .netrc
        )
        return self._session

    async def _post(self, body: Mapping[str, Any], on_text: OnText | None) -> Reply:
        """Send a body, and read the reply that comes back."""
        session = self._session or self._connect()
        import aiohttp

        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        data = valid_text(text).encode()
        try:
            async with session.post(
                self._url,
                data=data if len(data) < LARGE_BYTES else BytesIO(data),
                headers={TRACE_HEADER: council_trace.get()},
                allow_redirects=False,
                proxy=self._proxy,
            ) as response:
                if response.status >= 300:
                    raise await self._failure(response)
                return await _read(response, on_text)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _lost(error, str(self._url.origin())) from None

    def _body(self, call: Call, without: frozenset[str], stream: bool) -> dict[str, Any]:
        """What to send, less what the endpoint refused; the token limit has another name then."""
        seat = call.seat
        messages = [asdict(message) for message in call.messages]
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
        """What a status means, in the endpoint's own words where it has any."""
        body, _ = await _body_of(response, MAX_ERROR_BYTES)
        message, parameter, code = _error_words(body.decode("utf-8", "replace"))
        status, wait_s = response.status, retry_after_s(response.headers, time.time())
        if code == "insufficient_quota":  # no pause brings money
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
            # The limit of a 429 is most often a model's; a service that is unavailable says
            # until when all of it is.
            of_endpoint=status == 503,
            status=status,
            parameter=parameter,
        )


def _lost(error: Exception, place: str) -> CallError:
    """What became of a request that got no whole response from a place."""
    import aiohttp
    from aiohttp.http_exceptions import ContentEncodingError

    match error:
        case aiohttp.ClientPayloadError(__cause__=ContentEncodingError()):
            return CallError("bad_encoding", f"{place} sent what cannot be decompressed")
        case aiohttp.ClientPayloadError():
            return CallError("truncated", f"{place} broke off in the middle of its reply")
        case TimeoutError():
            return CallError("timeout", f"{place} took no connection in time")
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
    return CallError("connection", f"{place} hung up")


def _trusted_authorities() -> ssl.SSLContext:
    """The authorities that this machine trusts; some Pythons do not know where they are kept."""
    if sys.platform not in ("darwin", "win32"):
        return ssl.create_default_context()
    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _key_fault(base_url: str, name: str, key: str | None) -> str | None:
    """What is wrong with the key for an address, or None where there is one or none is needed."""
    if key is not None:
        usable = key.isascii() and key.isprintable()
        return None if usable else f"what {name} holds cannot be a key"
    parts = urlsplit(base_url)
    if is_private(parts.hostname or "") or (parts.scheme == "http" and not name):
        return None
    return f"the variable {name} is not set" if name else f"no api_key_env is given for {base_url}"


def is_private(host: str) -> bool:
    """Whether a host is on this machine or in a network of one's own, where a key is optional."""
    try:
        return ip_address(host).is_private
    except ValueError:
        own = (".local", ".lan", ".internal", ".home.arpa")
        return is_loopback(host) or host.endswith(own) or (bool(host) and "." not in host)


def is_loopback(host: str) -> bool:
    """Whether a host is this very machine, where a model may be served without a key."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# -- parameters that endpoints refuse ---------------------------------------------------------


def _refused(error: CallError, body: Mapping[str, Any], tried: frozenset[str]) -> str | None:
    """The parameter to do without (or, for the token limit, to rename) on the next try."""
    if error.status not in REFUSALS:
        return None
    sent = {"max_tokens", *body} - tried  # the token limit has two names
    message = f"{error.message} {error.parameter}".lower()
    for parameter, words in REFUSABLE.items():
        if parameter in sent and any(word in message for word in words):
            return parameter
    # A refusal that names nothing is most often about the schema.
    return "response_format" if "response_format" in sent else None


# -- reading ----------------------------------------------------------------------------------


async def _read(response: aiohttp.ClientResponse, on_text: OnText | None) -> Reply:
    """The reply in a response, whether it comes whole or streamed."""
    content_type = response.headers.get("Content-Type", "")
    if content_type.lower().startswith("text/event-stream"):  # from some servers, always
        stream = CompletionStream(on_text)
        async for data in response.content.iter_any():
            stream.feed(data)
            if stream.done:
                break
        return stream.reply()
    body, is_whole = await _body_of(response, MAX_REPLY_BYTES)
    if not is_whole:
        raise CallError("too_long", f"the reply went on after {MAX_REPLY_BYTES} bytes")
    reply = parse_completion(body, content_type)
    if on_text is not None:  # a server that does not know how to stream
        on_text(reply.text)
    return reply


async def _body_of(response: aiohttp.ClientResponse, max_bytes: int) -> tuple[bytes, bool]:
    """A body as far as it fits, and whether that is all of it, whatever its header promised."""
    body = bytearray()
    async for data in response.content.iter_any():
        body += data
        if len(body) > max_bytes:
            return bytes(body[:max_bytes]), False
    return bytes(body), True


def _error_words(text: str) -> tuple[str, str, str]:
    """The sentence in an error's body, else the whole body, the parameter it blames, its code."""
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
    """How long the endpoint asks us to wait, in seconds or until a date; None if it does not."""
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
    """The kind of failure that an HTTP status means."""
    return KIND_BY_STATUS.get(status) or ("server_error" if status >= 500 else "bad_request")


# -- a completion, whole ----------------------------------------------------------------------


def parse_completion(body: bytes, content_type: str = "") -> Reply:
    """The reply in a response's body."""
    document = _parse_document(decoded(body, content_type))
    if not document.get("choices") and document.get("error"):
        raise _reported(document["error"])
    message, finish = _first(document, "message")
    if message is None:
        raise CallError("not_json", "the reply is JSON, but no chat completion")
    return _reply(*_texts(message), finish, usage_of(document.get("usage")))


def decoded(body: bytes, content_type: str = "") -> str:
    """The text of a body: UTF-8 as JSON must be, or what its header claims."""
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
    raise CallError("bad_encoding", "the reply is not in the encoding it claims to be in")


def parse_json(text: str) -> Any:
    """JSON as it comes from outside; ValueError where it is none, or nested without end."""
    try:
        return json.loads(text, parse_int=_parse_int)
    except RecursionError:
        raise ValueError("nested without end") from None


def _parse_int(digits: str) -> int | float:
    """A whole number; one too long to be any count is a float, which no count may be."""
    return int(digits) if len(digits) <= len(str(MAX_CALL_TOKENS)) else float(digits)


def _parse_document(text: str) -> dict[str, Any]:
    """The JSON object in a text; what is none is nothing, half of something, or something else."""
    try:
        document = parse_json(text)
    except ValueError:
        bare = text.strip().removeprefix("\ufeff")
        if not bare:
            raise CallError("not_json", "the reply has no body") from None
        if bare.startswith("{") and not bare.endswith("}"):
            message = "the reply's JSON breaks off before its end"
            raise CallError("truncated", message) from None
        message = f"not JSON where an answer should be: {bare}"
        raise CallError("not_json", message) from None
    if not isinstance(document, dict):
        raise CallError("not_json", "the reply is JSON, but no chat completion")
    return document


def _reported(error: object) -> CallError:
    """The failure that a server reports inside a document that should be an answer."""
    about = error if isinstance(error, Mapping) else {"message": error}
    code, message = about.get("code"), about.get("message")
    kind = kind_of(code) if isinstance(code, int) and 400 <= code < 600 else "server_error"
    words = message if isinstance(message, str) and message else "an error"
    return CallError(kind, f"the endpoint reports: {words}")


# -- streamed ---------------------------------------------------------------------------------


class CompletionStream:
    """A completion as its server-sent events arrive: bytes go in, pieces of text are told."""

    def __init__(self, on_text: OnText | None = None) -> None:
        self.done = False
        self._on_text = on_text
        self._line = bytearray()  # as far as it has come
        self._n_bytes = 0
        self._n_characters = 0  # of text, reasoning and refusal
        self._pieces = [("", "", "")]  # of the same
        self._finish = ""
        self._usage = Usage()

    def feed(self, data: bytes) -> None:
        """Take in some bytes of the stream, cut anywhere."""
        self._n_bytes += len(data)
        if self._n_bytes > MAX_STREAM_BYTES:
            raise CallError("too_long", f"the stream went on after {MAX_STREAM_BYTES} bytes")
        first, *lines = data.split(b"\n")
        self._line += first
        if len(self._line) > MAX_REPLY_BYTES:
            raise CallError("too_long", "a line of the stream does not end")
        if not lines:
            return
        last, self._line = bytes(self._line), bytearray(lines.pop())
        for line in (last, *lines):
            if line.startswith(b"data:"):
                self._event(line[5:].strip())

    def reply(self) -> Reply:
        """The whole reply, once the stream has ended."""
        if not self.done and not self._finish:
            raise CallError("truncated", "the stream broke off before its end", usage=self._usage)
        text, reasoning, refusal = map("".join, zip(*self._pieces, strict=True))
        return _reply(text, reasoning, refusal, self._finish, self._usage)

    def _event(self, data: bytes) -> None:
        self.done = self.done or data == b"[DONE]"
        if not data or self.done:
            return
        document = _parse_document(decoded(data))
        if document.get("error"):
            raise _reported(document["error"])
        if document.get("usage"):
            self._usage = usage_of(document["usage"])
        delta, finish = _first(document, "delta")
        self._finish = finish or self._finish
        if delta is None:
            return
        piece = _texts(delta)
        self._n_characters += sum(map(len, piece))
        if self._n_characters > MAX_REPLY_BYTES:
            raise CallError("too_long", "the stream went on for longer than any answer may be")
        self._pieces.append(piece)
        if piece[0] and self._on_text is not None:
            self._on_text(piece[0])


# -- parts ------------------------------------------------------------------------------------


def _first(document: Mapping[str, Any], part: str) -> tuple[Mapping[str, Any] | None, str]:
    """A part of the first choice, None if there is none, and the reason why it ended."""
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return None, ""
    content, finish = choice.get(part), choice.get("finish_reason")
    return (
        content if isinstance(content, dict) else None,
        finish if isinstance(finish, str) else "",
    )


def _reply(text: str, reasoning: str, refusal: str, finish: str, usage: Usage) -> Reply:
    """A reply with something in it; a text cut at its token limit still counts.

    A refusal is no answer, whatever text came with it. Where a model thinks aloud before it
    answers, the thinking is reasoning, not answer.
    """
    if refusal.strip():
        raise CallError("refused", f"the model declined: {refusal}", usage=usage)
    if finish == "content_filter":
        raise CallError("refused", "the endpoint's content filter stepped in", usage=usage)
    if text.lstrip().startswith(THINKING):
        thought, closed, rest = text.partition(THOUGHT)
        reasoning += thought.lstrip().removeprefix(THINKING)
        text = rest.lstrip() if closed else ""
    if not text.strip():
        if is_cut_off(finish):
            message = "its tokens ran out before it said anything; raise the seat's max_tokens"
            raise CallError("out_of_tokens", message, usage=usage)
        raise CallError("empty", "the reply has no text", usage=usage)
    return Reply(text, usage, reasoning, finish)


def usage_of(reported: object) -> Usage:
    """Tokens and cost as the endpoint reports them; what it leaves out stays unknown.

    Some count thinking only in the total, so what the prompt does not explain was output.
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
    """The text in content, which may be a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def _texts(message: Mapping[str, Any]) -> tuple[str, str, str]:
    """The text, the reasoning and the refusal in a message, or in a piece of one."""
    reasoning = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
    return _text(message.get("content")), reasoning, _text(message.get("refusal"))
