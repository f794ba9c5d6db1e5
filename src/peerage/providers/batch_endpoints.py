"""Endpoints that take many calls at once and answer within a day, in the shapes of two vendors.

OpenAI takes a file of requests and returns files of results; Anthropic takes a list of requests and
returns a stream of results. Both identify each call by an id that we choose, and may return the
results in any order. Results that cannot be read are skipped: their calls then have no result.
"""

from __future__ import annotations

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urlsplit

from peerage.config import OPENAI_URL
from peerage.messages import image_type
from peerage.providers import MAX_REPLY_BYTES, Call, CallError, Kind, Reply
from peerage.providers.chat_replies import (
    body_of,
    build_reply,
    decode_body,
    kind_of,
    model_of,
    parse_json,
    reply_of,
)
from peerage.providers.money import MAX_CALL_TOKENS
from peerage.providers.openai_compatible import BEARER, NO_HEADERS, OpenAICompatible, json_bytes
from peerage.types import Image, Seat, Turn, Usage

MAX_LINE_BYTES = 4 * MAX_REPLY_BYTES  # of one result
MAX_RESULTS_BYTES = 1_000_000_000  # of all results of a batch
MAX_LISTED = 100  # how many of the latest batches are searched for a lost one
LOST_WITHIN_S = 900.0  # a lost batch was created within this time of its record in the log
SHAPE_BY_HOST = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}
HALF = 0.5  # both vendors' price of a batch, as a share of the usual price
OVER = frozenset({"completed", "failed", "expired", "cancelled", "ended"})
KIND_BY_ANTHROPIC_TYPE: Mapping[str, Kind] = {
    "invalid_request_error": "bad_request",
    "request_too_large": "bad_request",
    "not_found_error": "bad_request",
    "authentication_error": "unauthorized",
    "permission_error": "unauthorized",
    "billing_error": "unauthorized",
    "rate_limit_error": "rate_limited",
    "timeout_error": "timeout",
}
KIND_BY_OPENAI_CODE: Mapping[str, Kind] = {
    "batch_expired": "timeout",
    "batch_cancelled": "cancelled",
}

BatchResult = Reply | CallError


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One call of a batch: our id for it, and the body of a single request."""

    id: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BatchState:
    """The progress of a batch, as its endpoint reports it."""

    batch: str  # the endpoint's id
    status: str
    n: int = 0
    n_done: int = 0
    n_failed: int = 0
    files: tuple[str, ...] = ()  # of results
    message: str = ""  # why the whole batch failed

    @property
    def is_over(self) -> bool:
        return self.status in OVER


class BatchEndpoint(ABC):
    """The batches of one endpoint."""

    key_header: ClassVar[tuple[str, str]] = BEARER
    headers: ClassVar[Mapping[str, str]] = NO_HEADERS
    names_batches: ClassVar[bool] = False  # whether batches can be found by the name we gave them
    max_bytes: ClassVar[int] = 100_000_000  # limit of the requests of one batch

    def __init__(self, provider: OpenAICompatible, price_share: float) -> None:
        self.provider = provider
        self.price_share = price_share  # of the usual price

    @property
    def place(self) -> str:
        """Return the host, for messages."""
        return urlsplit(self.provider.base_url).netloc.rpartition("@")[2]

    @abstractmethod
    def request_body(self, call: Call) -> Mapping[str, Any]:
        """Return the body of a call in this vendor's format."""

    @abstractmethod
    async def submit(self, name: str, requests: Sequence[BatchRequest]) -> str:
        """Create a batch under a name that we choose; return the endpoint's id for it."""

    @abstractmethod
    async def find(self, name: str, n: int, at: float) -> list[str]:
        """Return ids of batches that may have been submitted under a name at about this time."""

    @abstractmethod
    async def state(self, batch: str) -> BatchState:
        """Return the progress of a batch."""

    @abstractmethod
    def results(self, state: BatchState) -> AsyncIterator[tuple[str, BatchResult]]:
        """Yield the results of a finished batch, each with the id of its call."""

    async def _ask(
        self, verb: str, path: str, data: bytes = b"", kind: str = "application/json"
    ) -> dict[str, Any]:
        """Send a request and return the JSON object in the response."""
        headers = {**self.headers, **({"Content-Type": kind} if data else {})}
        async with self._exchange(verb, path, data, headers) as response:
            body, is_whole = await body_of(response, 16 * MAX_REPLY_BYTES)
        try:
            document = parse_json(decode_body(body)) if is_whole else None
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise CallError("not_json", f"{self.place} did not answer with a JSON object")
        return document

    async def _lines(self, path: str) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the JSON objects of a JSONL file; other lines are skipped."""
        line, n_bytes = bytearray(), 0
        async with self._exchange("GET", path, b"", self.headers) as response:
            async for data in response.content.iter_any():
                n_bytes += len(data)
                first, *more = data.split(b"\n")
                line += first
                if n_bytes > MAX_RESULTS_BYTES or len(line) > MAX_LINE_BYTES:
                    raise CallError("too_long", f"the results of {self.place} are too long")
                for rest in more:
                    for document in _read_line(bytes(line)):
                        yield document
                    line = bytearray(rest)
        for document in _read_line(bytes(line)):
            yield document

    def _exchange(self, verb: str, path: str, data: bytes, headers: Mapping[str, str]) -> Any:
        address = f"{self.provider.base_url}/{path}"
        return self.provider.exchange(verb, address, data, headers, self.key_header)


def endpoint_for(provider: OpenAICompatible, seat: Seat) -> BatchEndpoint | None:
    """Return the endpoint of a seat's batches, or None if its calls are made one by one."""
    shape = batch_shape(seat)
    if shape == "openai":
        return OpenAIBatches(provider, price_share(seat))
    return AnthropicBatches(provider, price_share(seat)) if shape == "anthropic" else None


def batch_shape(seat: Seat) -> str:
    """Return the format of a seat's batches, or "none": from its options, or by its host."""
    if seat.provider != "openai":
        return "none"
    return SHAPE_BY_HOST.get(_host(seat), "none") if seat.batch == "auto" else seat.batch


def price_share(seat: Seat) -> float:
    """Return the price of a seat's calls in a batch, as a share of the usual price."""
    if batch_shape(seat) == "none":
        return 1.0
    if seat.batch_price is not None:
        return seat.batch_price
    return HALF if _host(seat) in SHAPE_BY_HOST else 1.0


def _host(seat: Seat) -> str:
    return urlsplit(seat.base_url or OPENAI_URL).hostname or ""


def _read_line(line: bytes) -> Iterator[Mapping[str, Any]]:
    with suppress(ValueError, CallError):
        document = parse_json(decode_body(line)) if line.strip() else None
        if isinstance(document, dict):
            yield document


def _count(value: object) -> int:
    """Return a count that an endpoint reports, or 0 if it is not a valid count."""
    return value if type(value) is int and 0 <= value <= MAX_CALL_TOKENS else 0


def _text(value: object, otherwise: str = "") -> str:
    return value if isinstance(value, str) else otherwise


def _object(value: object) -> Mapping[str, Any]:
    """Return an object of a reply; anything else counts as an empty one."""
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list of a reply."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _path_part(id_: str, what: str) -> str:
    """Return an id as a part of an address; raise an error for unsafe characters."""
    if not id_ or not all(character.isalnum() or character in "-_." for character in id_):
        raise CallError("not_json", f"the id of {what} cannot be used in an address")
    return id_


# -- OpenAI ------------------------------------------------------------------------------------


class OpenAIBatches(BatchEndpoint):
    """A file of requests, a batch over it, and files of results."""

    names_batches = True

    def request_body(self, call: Call) -> Mapping[str, Any]:
        return self.provider.request_body(call)

    async def submit(self, name: str, requests: Sequence[BatchRequest]) -> str:
        url = "/v1/chat/completions"
        lines = b"\n".join(
            json_bytes({"custom_id": one.id, "method": "POST", "url": url, "body": one.body})
            for one in requests
        )
        data, kind = _form({"purpose": "batch"}, f"{name}.jsonl", lines)
        uploaded = await self._ask("POST", "files", data, kind)
        body = {
            "input_file_id": _path_part(_text(uploaded.get("id")), "the file"),
            "endpoint": url,
            "completion_window": "24h",
            "metadata": {"peerage": name},
        }
        made = await self._ask("POST", "batches", json_bytes(body))
        return _path_part(_text(made.get("id")), "the batch")

    async def find(self, name: str, n: int, at: float) -> list[str]:  # noqa: ARG002
        listed = await self._ask("GET", f"batches?limit={MAX_LISTED}")
        return [
            _path_part(_text(one.get("id")), "the batch")
            for one in _objects(listed.get("data"))
            if _object(one.get("metadata")).get("peerage") == name
        ]

    async def state(self, batch: str) -> BatchState:
        document = await self._ask("GET", f"batches/{_path_part(batch, 'the batch')}")
        counts = _object(document.get("request_counts"))
        files = (document.get("output_file_id"), document.get("error_file_id"))
        faults = _objects(_object(document.get("errors")).get("data")) or [{}]
        return BatchState(
            batch,
            _text(document.get("status"), "unknown"),
            _count(counts.get("total")),
            _count(counts.get("completed")),
            _count(counts.get("failed")),
            tuple(_path_part(one, "the file") for one in files if isinstance(one, str) and one),
            _text(faults[0].get("message")),
        )

    async def results(self, state: BatchState) -> AsyncIterator[tuple[str, BatchResult]]:
        for file in state.files:
            async for line in self._lines(f"files/{file}/content"):
                yield _text(line.get("custom_id")), _openai_result(line)


def _form(fields: Mapping[str, str], file: str, content: bytes) -> tuple[bytes, str]:
    """Return fields and a file as the body of a form, and its content type."""
    mark = f"peerage-{secrets.token_hex(16)}"
    parts = [
        f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    about = f'Content-Disposition: form-data; name="file"; filename="{file}"'
    parts += [f"--{mark}\r\n{about}\r\nContent-Type: application/jsonl\r\n\r\n".encode(), content]
    return b"".join(
        [*parts, f"\r\n--{mark}--\r\n".encode()]
    ), f"multipart/form-data; boundary={mark}"


def _openai_result(line: Mapping[str, Any]) -> BatchResult:
    """Return the reply or the failure on one line of a file of results."""
    response, error = line.get("response"), line.get("error")
    body = response.get("body") if isinstance(response, Mapping) else None
    if isinstance(response, Mapping) and isinstance(body, Mapping):
        status = response.get("status_code")
        if isinstance(status, int) and status >= 400:
            fault = body.get("error")
            words = _text(fault.get("message")) if isinstance(fault, Mapping) else ""
            message = f"HTTP {status}" + (f": {words}" if words else "")
            return CallError(kind_of(status), message, status=status)
        try:
            return reply_of(body)
        except CallError as failure:
            return failure
    code = _text(error.get("code")) if isinstance(error, Mapping) else ""
    words = _text(error.get("message")) if isinstance(error, Mapping) else ""
    kind = KIND_BY_OPENAI_CODE.get(code, "server_error")
    return CallError(kind, words or "the batch has no response for this call")


# -- Anthropic ---------------------------------------------------------------------------------


def _content(turn: Turn) -> str | list[dict[str, Any]]:
    """Return the content of a message: a text, or a list of blocks if it has images."""
    if not turn.images:
        return turn.content
    images = [{"type": "image", "source": _image_source(image)} for image in turn.images]
    return [*images, {"type": "text", "text": turn.content}]


def _image_source(image: Image) -> dict[str, str]:
    media_type = image_type(image)
    if not media_type:
        return {"type": "url", "url": image.url}
    return {"type": "base64", "media_type": media_type, "data": image.url.partition(",")[2]}


class AnthropicBatches(BatchEndpoint):
    """A list of requests, and a stream of results."""

    key_header = ("x-api-key", "")
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

    def request_body(self, call: Call) -> Mapping[str, Any]:
        """Return a call as a request for a message; the schema is only in the prompt."""
        seat = call.seat
        system = "\n\n".join(turn.content for turn in call.messages if turn.role == "system")
        turns = [turn for turn in call.messages if turn.role != "system"]
        body: dict[str, Any] = {
            "model": seat.model,
            "max_tokens": call.max_tokens,
            "messages": [{"role": turn.role, "content": _content(turn)} for turn in turns],
            "temperature": min(1.0, seat.temperature),
            **seat.options,
        }
        return {**body, "system": system} if system else body

    async def submit(self, name: str, requests: Sequence[BatchRequest]) -> str:  # noqa: ARG002
        entries = [{"custom_id": one.id, "params": one.body} for one in requests]
        made = await self._ask("POST", "messages/batches", json_bytes({"requests": entries}))
        return _path_part(_text(made.get("id")), "the batch")

    async def find(self, name: str, n: int, at: float) -> list[str]:  # noqa: ARG002
        listed = await self._ask("GET", f"messages/batches?limit={MAX_LISTED}")
        return [
            _path_part(_text(one.get("id")), "the batch")
            for one in _objects(listed.get("data"))
            if sum(_counts(one).values()) == n
            and abs(_time(one.get("created_at")) - at) < LOST_WITHIN_S
        ]

    async def state(self, batch: str) -> BatchState:
        path = f"messages/batches/{_path_part(batch, 'the batch')}"
        document = await self._ask("GET", path)
        counts = _counts(document)
        n_done = counts.get("succeeded", 0)
        n = sum(counts.values())
        n_failed = n - n_done - counts.get("processing", 0)
        status = _text(document.get("processing_status"), "unknown")
        return BatchState(batch, status, n, n_done, n_failed)

    async def results(self, state: BatchState) -> AsyncIterator[tuple[str, BatchResult]]:
        path = f"messages/batches/{_path_part(state.batch, 'the batch')}/results"
        async for line in self._lines(path):
            result = line.get("result")
            outcome = _anthropic_result(result if isinstance(result, Mapping) else {})
            yield _text(line.get("custom_id")), outcome


def _counts(document: Mapping[str, Any]) -> dict[str, int]:
    counts = document.get("request_counts")
    items = counts.items() if isinstance(counts, Mapping) else ()
    return {str(name): _count(n) for name, n in items}


def _time(value: object) -> float:
    """Return an endpoint's time in seconds, or infinity if it cannot be read."""
    with suppress(ValueError, TypeError):
        return datetime.fromisoformat(_text(value)).timestamp()
    return math.inf


def _anthropic_result(result: Mapping[str, Any]) -> BatchResult:
    """Return the reply or the failure of one result."""
    kind, message, error = result.get("type"), result.get("message"), result.get("error")
    if kind == "succeeded" and isinstance(message, Mapping):
        try:
            return message_reply(message)
        except CallError as failure:
            return failure
    if kind == "expired":
        return CallError("timeout", "the batch ended before this call was made")
    if kind == "canceled":
        return CallError("cancelled", "the batch was cancelled")
    fault = error.get("error", error) if isinstance(error, Mapping) else {}
    about = fault if isinstance(fault, Mapping) else {}
    name = _text(about.get("type"))
    words = _text(about.get("message")) or "the batch has no message for this call"
    return CallError(KIND_BY_ANTHROPIC_TYPE.get(name, "server_error"), words)


def message_reply(message: Mapping[str, Any]) -> Reply:
    """Return the reply in an Anthropic message; raise CallError if it has no text."""
    content = message.get("content")
    blocks = (
        [one for one in content if isinstance(one, Mapping)] if isinstance(content, list) else []
    )
    text = "".join(_text(one.get("text")) for one in blocks if one.get("type") == "text")
    thoughts = (_text(one.get("thinking")) for one in blocks if one.get("type") == "thinking")
    finish = _text(message.get("stop_reason"))
    reported = message.get("usage")
    usage = Usage()
    if isinstance(reported, Mapping) and "input_tokens" in reported:
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        n_in = sum(_count(reported.get(name)) for name in names)
        usage = Usage(n_in, _count(reported.get("output_tokens")))
    refusal = (text or "without a reason") if finish == "refusal" else ""
    return build_reply(text, "".join(thoughts), refusal, finish, usage, model_of(message))
