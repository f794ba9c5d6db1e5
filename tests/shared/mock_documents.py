"""What the mock server's replies look like on the wire, and how it may be told to behave."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import parse_qsl

Json = dict[str, Any]

REASONS = {200: b"OK", 400: b"Bad Request", 401: b"Unauthorized", 404: b"Not Found"}


# -- how to behave ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Manners:
    """How calls of one model are answered: the faults one after the other, and the details.

    A fault is an HTTP status, or one of: hang, reset (no answer at all); html, error_200,
    null, blank, refusal, length (a wrong answer); truncated, cut_json, latin1, endless,
    drip (an answer that cannot be read to its end: too much, or a letter now and then).
    """

    do: tuple[str, ...] = ("ok",)
    latency_ms: float = 0.0
    retry_after: str = ""  # seconds or a date, sent with 429 and 503
    code: str = ""  # of an error, as insufficient_quota
    refuses: tuple[str, ...] = ()  # parameters that earn a 400: response_format, temperature, …
    usage: bool = True
    cost_usd: str = ""  # as OpenRouter reports it
    reasoning_words: int = 0
    n_words: int = 60  # of an answer
    n_bytes: int = 0  # pads a reply to this size
    parts: bool = False  # content as a list of parts
    fenced: bool = False  # JSON in a Markdown fence, with talk before it
    echo_key: bool = False  # errors repeat the caller's Authorization header
    piece_ms: float = 0.0  # between the pieces of a stream


READERS: dict[str, Callable[[str], Any]] = {
    "tuple[str, ...]": lambda text: tuple(text.split(",")),
    "float": float,
    "int": int,
    "str": str,
    "bool": lambda text: text not in ("", "0"),
}


@functools.lru_cache(maxsize=4096)
def manners(model: str) -> Manners:
    """The manners that a model's name asks for; an unknown word is the caller's mistake."""
    asked = dict(parse_qsl(model.partition("?")[2], strict_parsing=True)) if "?" in model else {}
    reader_by_name = {entry.name: READERS[str(entry.type)] for entry in fields(Manners)}
    return Manners(**{name: reader_by_name[name](text) for name, text in asked.items()})


@dataclass(frozen=True)
class Rates:
    """How often calls go wrong whatever their model, drawn from the seed and the request."""

    seed: str = "0"
    latency_ms: float = 0.0
    p_by_fault: Mapping[str, float] = field(default_factory=dict)

    def draw(self, body: bytes, n_before: int) -> str:
        """The fault of this attempt, or "ok"; asking again is a new draw."""
        if not self.p_by_fault:
            return "ok"
        digest = hashlib.sha256(b"%s|%d|%s" % (self.seed.encode(), n_before, body)).digest()
        u = int.from_bytes(digest[:8], "big") / 2**64
        for fault, p in self.p_by_fault.items():
            if u < p:
                return fault
            u -= p
        return "ok"


# -- documents ----------------------------------------------------------------------------------


def packed(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def n_tokens(text: str) -> int:
    return len(text) // 4 + 1


def usage(request: Json, text: str, how: Manners) -> Json:
    sent = sum(len(str(message.get("content"))) for message in request["messages"])
    counted: Json = {"prompt_tokens": sent // 4 + 1, "completion_tokens": n_tokens(text)}
    counted["total_tokens"] = sum(counted.values())
    return {**counted, "cost": float(how.cost_usd)} if how.cost_usd else counted


def completion(request: Json, text: str, fault: str, how: Manners) -> Json:
    """A chat completion with this text, or with what a fault makes of it."""
    message: Json = {"role": "assistant", "content": text}
    if how.parts:
        half = len(text) // 2
        message["content"] = [{"type": "text", "text": t} for t in (text[:half], text[half:])]
    if how.reasoning_words:
        message["reasoning_content"] = " ".join(["hmm"] * how.reasoning_words)
    if fault == "null":
        message["content"] = None
    elif fault == "blank":
        message["content"] = " \n"
    elif fault == "refusal":
        message |= {"content": None, "refusal": "I cannot help with that."}
    reason = "length" if fault == "length" else "stop"
    document: Json = {
        "id": "chatcmpl-mock",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }
    return document | {"usage": usage(request, text, how)} if how.usage else document


def pieces(request: Json, text: str, fault: str, how: Manners) -> Iterator[Json]:
    """The same completion as a stream of chunks."""
    about = {"id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 0}
    about["model"] = request["model"]

    def chunk(delta: Json, reason: str | None = None) -> Json:
        return {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": None if fault == "null" else ""})
    if how.reasoning_words:
        yield chunk({"reasoning_content": " ".join(["hmm"] * how.reasoning_words)})
    if fault not in ("null", "refusal"):
        for start in range(0, len(text), 24):
            yield chunk({"content": text[start : start + 24]})
    yield chunk({}, "length" if fault == "length" else "stop")
    if how.usage and (request.get("stream_options") or {}).get("include_usage"):
        yield {**about, "choices": [], "usage": usage(request, text, how)}


def trouble(status: int, message: str, code: str = "") -> bytes:
    about = {"message": message, "type": "mock", "param": None, "code": code or status}
    return packed({"error": about})


def head(status: int, length: int | None, kind: bytes, extra: bytes = b"") -> bytes:
    reason = REASONS.get(status, b"Mock")
    framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
    return b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\n%s\r\n%s\r\n" % (
        status,
        reason,
        kind,
        framing,
        extra,
    )


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
