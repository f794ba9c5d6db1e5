"""Any endpoint that speaks OpenAI's chat completions, hosted or local.

Endpoints differ in what they refuse: a schema, a temperature, one of two names for the
token limit. A refusal that names such a parameter is not the caller's failure: the call is
made again without it, and the model is not asked for it any more.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from peerage.config import secret
from peerage.providers import Call, CallError, Reply, providers
from peerage.providers.keys import sentence
from peerage.providers.wire.completions import (
    Completion,
    Pieces,
    decoded,
    kind_of,
    parse_completion,
    well_formed,
)
from peerage.types import Seat

if TYPE_CHECKING:
    from peerage.providers.wire.http import Answer
    from peerage.providers.wire.sdk import Client

OPENAI = "https://api.openai.com/v1"

# What an endpoint may refuse, with the words by which a refusal is known to mean it.
REFUSABLE = {
    "response_format": ("response_format", "json_schema", "schema", "structured output"),
    "max_tokens": ("max_tokens", "max_completion_tokens"),
    "temperature": ("temperature",),
    "stream_options": ("stream_options",),
}
REFUSALS = frozenset({400, 404, 415, 422, 501})  # 404: OpenRouter, when no host has the feature
OURS = frozenset(
    {"model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "response_format"}
)


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this very machine, where a model may be served without a key."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@providers.register("openai")
class OpenAICompatible:
    """One endpoint under one key; its seats share the connections and what was learnt."""

    def __init__(self, seat: Seat, environ: Mapping[str, str] | None = None) -> None:
        self.base_url = (seat.base_url or OPENAI).rstrip("/")
        self.key_name = seat.api_key_env
        self._environ = environ
        self._client: Client | None = None
        self._without: dict[str, frozenset[str]] = {}  # by model
        host = urlsplit(self.base_url).hostname or ""
        # The only endpoint where the newer name is the safe first guess.
        self._at_first = frozenset({"max_tokens"} if host == "api.openai.com" else ())
        self._also = {"usage": {"include": True}} if host.endswith("openrouter.ai") else {}

    @staticmethod
    def endpoint(seat: Seat) -> tuple[str, str]:
        """Seats for which this is equal may share one provider."""
        return ((seat.base_url or OPENAI).rstrip("/"), seat.api_key_env)

    @property
    def can_constrain(self) -> bool:
        """True until every model asked so far has refused a schema."""
        known = self._without.values()
        return not known or any("response_format" not in without for without in known)

    async def complete(self, call: Call) -> Reply:
        try:
            answer, constrained = await self._ask(call, stream=False)
            if answer.pieces is None:
                completion = self._whole(answer)
            else:  # a server that streams whatever it is asked
                pieces = Pieces()
                async for _ in _texts(answer.pieces, pieces):
                    pass
                completion = pieces.whole()
        except CallError as error:
            raise self._scrubbed(error) from None
        return _reply(completion, constrained)

    async def stream(self, call: Call) -> AsyncIterator[str | Reply]:
        try:
            answer, constrained = await self._ask(call, stream=True)
            if answer.pieces is None:  # a server that does not know how to stream
                completion = self._whole(answer)
                yield completion.text
            else:
                pieces = Pieces()
                async with aclosing(_texts(answer.pieces, pieces)) as texts:
                    async for text in texts:
                        yield text
                completion = pieces.whole()
        except CallError as error:
            raise self._scrubbed(error) from None
        yield _reply(completion, constrained)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    # -- asking ------------------------------------------------------------------------------

    async def _ask(self, call: Call, *, stream: bool) -> tuple[Answer, bool]:
        """A good answer, and whether the endpoint took the schema along with the question.

        What was left out to get it is remembered only then: a request that is refused
        whatever is left out was wrong for another reason.
        """
        client = self._client or self._connect()
        model = call.seat.model
        known = self._without.get(model, self._at_first)
        without = known
        while True:
            body = self._body(call, without, stream)
            answer = await client.post(body)
            if answer.status < 300:
                if without != known or model not in self._without:
                    self._without[model] = without
                return answer, call.schema is not None and "response_format" not in without
            sent = _sent(call, without, stream) - (without ^ known)
            refused = _refused(answer, sent) if answer.status in REFUSALS else None
            if refused is None:
                raise self._failure(answer)
            without = without ^ {refused}

    def _connect(self) -> Client:
        """The client, made when first needed: its packages take a second to import."""
        key = secret(self.key_name, self._environ)
        if key is None and not is_loopback(self.base_url):
            raise CallError(
                "unauthorized",
                f"the variable {self.key_name} is not set"
                if self.key_name
                else f"no api_key_env is given for {self.base_url}",
            )
        if key is not None and not (key.isascii() and key.isprintable()):
            raise CallError("unauthorized", f"what {self.key_name} holds cannot be a key")
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CallError("connection", f"{self.base_url!r} is no http or https address")
        from peerage.providers.wire.http import Wire
        from peerage.providers.wire.sdk import Client

        self._client = Client(Wire(f"{self.base_url}/chat/completions"), self.base_url, key)
        return self._client

    def _body(self, call: Call, without: frozenset[str], stream: bool) -> bytes:
        seat = call.seat
        messages = [{"role": "user", "content": call.prompt}]
        if seat.system:
            messages.insert(0, {"role": "system", "content": seat.system})
        body: dict[str, Any] = {"model": seat.model, "messages": messages, **self._also}
        if seat.options:
            body |= _extras(seat)
        if "temperature" not in without:
            body["temperature"] = seat.temperature
        limit = "max_completion_tokens" if "max_tokens" in without else "max_tokens"
        body[limit] = call.max_tokens
        if call.schema is not None and "response_format" not in without:
            schema = {"name": call.stage, "strict": True, "schema": call.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if stream:
            body["stream"] = True
            if "stream_options" not in without:
                body["stream_options"] = {"include_usage": True}
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return well_formed(text).encode()

    # -- reading -----------------------------------------------------------------------------

    def _whole(self, answer: Answer) -> Completion:
        return parse_completion(answer.body, answer.headers.get("content-type", ""))

    def _failure(self, answer: Answer) -> CallError:
        """What a status means, in the endpoint's own words where it has any, without the key."""
        said = _message(answer)
        text = f"HTTP {answer.status}" + (f": {said}" if said else "")
        if answer.status in (401, 403) and self.key_name:
            text += f" (the key in {self.key_name} was not accepted)"
        wait_s = retry_after_s(answer.headers, time.time())
        return CallError(kind_of(answer.status), text, retry_after_s=wait_s)

    def _scrubbed(self, error: CallError) -> CallError:
        """The same failure in one line, without the key, which a server may have repeated."""
        message = sentence(error.message, secret(self.key_name, self._environ))
        return CallError(error.kind, message, retry_after_s=error.retry_after_s, usage=error.usage)


async def _texts(
    arriving: AsyncGenerator[bytes, None], pieces: Pieces
) -> AsyncGenerator[str, None]:
    """The texts of a stream as they come, up to its end; the pieces keep the whole."""
    async with aclosing(arriving):
        async for data in arriving:
            for text in pieces.feed(data):
                yield text
            if pieces.done:
                return


def _reply(completion: Completion, constrained: bool) -> Reply:
    """The reply; some servers take a schema and do not keep to it, so that is looked at."""
    held = constrained and completion.text.lstrip().startswith("{")
    return Reply(completion.text, completion.usage, completion.reasoning_words, constrained=held)


def _extras(seat: Seat) -> dict[str, Any]:
    """A seat's own parameters; not those that a call sets, or the money would not add up."""
    clash = sorted(OURS & set(seat.options))
    if clash:
        raise CallError("bad_request", f"options of seat {seat.name} may not set {clash[0]}")
    return dict(seat.options)


def _sent(call: Call, without: frozenset[str], stream: bool) -> frozenset[str]:
    """The refusable parameters that a request carried; the token limit has two names."""
    unasked = {"response_format"} if call.schema is None else set()
    if not stream:
        unasked.add("stream_options")
    return frozenset(REFUSABLE) - (without - {"max_tokens"}) - unasked


def _refused(answer: Answer, sent: frozenset[str]) -> str | None:
    """The parameter to do without (or, for the token limit, to rename) on the next try."""
    said = _message(answer, with_param=True).lower()
    for parameter, words in REFUSABLE.items():
        if parameter in sent and any(word in said for word in words):
            return parameter
    # A refusal that names nothing is most often about the schema.
    return "response_format" if "response_format" in sent else None


def _message(answer: Answer, *, with_param: bool = False) -> str:
    """The sentence in an error's body, or its beginning where it has no such form."""
    try:
        text = decoded(answer.body, answer.headers.get("content-type", ""))
    except CallError:
        return ""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return text[:500]
    error = said.get("error", said) if isinstance(said, dict) else said
    if not isinstance(error, dict):
        return str(error)[:500]
    parts = [error.get("message") or error.get("detail") or ""]
    if with_param:
        parts.append(error.get("param") or "")
    return " ".join(map(str, parts)).strip()[:500]


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """How long the endpoint asks us to wait, in seconds or until a date; None if it does not."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        said = headers.get(name, "")
        try:
            wait_s = float(said) * scale
        except ValueError:
            continue
        return wait_s if 0 <= wait_s < float("inf") else None
    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - now)
    except (KeyError, TypeError, ValueError):
        return None
