"""Chat completions as they come over the wire, whole or in pieces, read into one noun.

Every way in which a document can be wrong ends in exactly one kind of `CallError`; what
servers differ in (content in parts, reasoning under three names, tokens left out of a
count) is evened out here and nowhere else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from peerage.providers import CallError, Kind
from peerage.types import Usage

MAX_REPLY_BYTES = 1_000_000  # of a whole document, or of the text in a stream

THINKING, THOUGHT = "<think>", "</think>"  # how models served locally fence their reasoning

KIND_BY_STATUS: dict[int, Kind] = {
    401: "unauthorized",
    403: "unauthorized",
    408: "timeout",
    429: "rate_limited",
}


def kind_of(status: int) -> Kind:
    """The kind of failure that an HTTP status means."""
    return KIND_BY_STATUS.get(status) or ("server_error" if status >= 500 else "bad_request")


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model said, and what it took."""

    text: str
    usage: Usage
    reasoning_words: int | None
    finish: str


# -- whole ------------------------------------------------------------------------------------


def parse_completion(body: bytes, content_type: str = "") -> Completion:
    """The completion in a response's body."""
    document = parse_document(decoded(body, content_type))
    if not document.get("choices") and document.get("error"):
        raise reported(document["error"])
    message, finish = _first(document, "message")
    if message is None:
        raise CallError("not_json", "the reply is JSON, but no chat completion")
    text = "".join(_texts(message.get("content") or message.get("refusal")))
    return complete(text, _reasoning(message), finish, usage_of(document.get("usage")))


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


def parse_document(text: str) -> dict[str, Any]:
    """The JSON object in a text."""
    try:
        document = json.loads(text)
    except ValueError:
        raise _unreadable(text) from None
    except RecursionError:
        raise CallError("not_json", "the reply is nested without end") from None
    if not isinstance(document, dict):
        raise CallError("not_json", "the reply is JSON, but no chat completion")
    return document


def _unreadable(text: str) -> CallError:
    """What to call a text that is no JSON: nothing, half of something, or something else."""
    bare = text.strip().removeprefix("\ufeff")
    if not bare:
        return CallError("empty", "the reply has no body")
    if bare.startswith("{") and not bare.endswith("}"):
        return CallError("truncated", "the reply's JSON breaks off before its end")
    return CallError("not_json", f"not JSON where an answer should be: {bare[:120]}")


def reported(error: object) -> CallError:
    """The failure that a server reports inside a document that should be an answer."""
    about = error if isinstance(error, Mapping) else {"message": error}
    code = about.get("code")
    known = isinstance(code, int) and 400 <= code < 600
    kind = kind_of(code) if known and isinstance(code, int) else "server_error"
    return CallError(kind, f"the endpoint reports: {about.get('message') or 'an error'}")


# -- in pieces --------------------------------------------------------------------------------


@dataclass(slots=True)
class Pieces:
    """A completion as its server-sent events arrive; `feed` gives the new text, `whole` the end."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    finish: str | None = None
    usage: Usage = field(default_factory=Usage)
    done: bool = False
    n_characters: int = 0  # of text and reasoning
    _rest: bytes = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """The pieces of text that this data completes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_REPLY_BYTES:
            raise CallError("too_long", "a line of the stream does not end")
        for line in lines:
            if line.startswith(b"data:"):
                yield from self._event(line[5:].strip())

    def _event(self, data: bytes) -> Iterator[str]:
        if data == b"[DONE]":
            self.done = True
        if not data or self.done:
            return
        document = parse_document(decoded(data))
        if document.get("error"):
            raise reported(document["error"])
        if document.get("usage"):
            self.usage = usage_of(document["usage"])
        delta, finish = _first(document, "delta")
        self.finish = finish or self.finish
        if delta is None:
            return
        reasoning = _reasoning(delta)
        self.reasoning.append(reasoning)
        texts = list(_texts(delta.get("content") or delta.get("refusal")))
        self.n_characters += len(reasoning) + sum(map(len, texts))
        if self.n_characters > MAX_REPLY_BYTES:
            raise CallError("too_long", "the stream went on for longer than any answer may be")
        self.text += texts
        yield from texts

    def whole(self) -> Completion:
        """The completion, once the stream has ended."""
        if not self.done and self.finish is None:
            raise CallError("truncated", "the stream broke off before its end", usage=self.usage)
        return complete("".join(self.text), "".join(self.reasoning), self.finish, self.usage)


# -- parts ------------------------------------------------------------------------------------


def _first(document: Mapping[str, Any], part: str) -> tuple[Mapping[str, Any] | None, str | None]:
    """A part of the first choice, None if there is none, and the reason why it ended."""
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return None, None
    said, finish = choice.get(part), choice.get("finish_reason")
    return said if isinstance(said, dict) else None, finish if isinstance(finish, str) else None


def complete(text: str, reasoning: str, finish: str | None, usage: Usage) -> Completion:
    """A completion with something in it; a text cut at its token limit still counts.

    Where a model thinks aloud before it answers, the thinking is reasoning, not answer.
    """
    if text.lstrip().startswith(THINKING):
        thought, closed, rest = text.partition(THOUGHT)
        reasoning += thought.lstrip().removeprefix(THINKING)
        text = rest.lstrip() if closed else ""
    if not text.strip():
        if finish == "length":
            raise CallError("truncated", "its tokens ran out before it said anything", usage=usage)
        why = ": its content filter stepped in" if finish == "content_filter" else ""
        raise CallError("empty", f"the reply has no text{why}", usage=usage)
    n_words = len(reasoning.split()) if reasoning else None
    return Completion(well_formed(text), usage, n_words, finish or "")


def well_formed(text: str) -> str:
    """The text without lone surrogates, which JSON can carry and no encoding can write."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def usage_of(said: object) -> Usage:
    """Tokens and cost as the endpoint reports them; what it leaves out stays unknown.

    Some count thinking only in the total, so what the prompt does not explain was output.
    """
    if not isinstance(said, Mapping):
        return Usage()
    tokens_in, tokens_out = _count(said.get("prompt_tokens")), _count(said.get("completion_tokens"))
    total = _count(said.get("total_tokens"))
    if total is not None and tokens_in is not None:
        tokens_out = max(tokens_out or 0, total - tokens_in)
    return Usage(tokens_in, tokens_out, _amount(said.get("cost")))


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _amount(value: object) -> float | None:
    if type(value) not in (int, float):  # true is no amount
        return None
    amount = float(value)  # type: ignore[arg-type]
    return amount if math.isfinite(amount) and amount >= 0 else None


def _texts(content: object) -> Iterator[str]:
    """The texts in content, which may be a string, a list of parts, or nothing."""
    if isinstance(content, str):
        if content:
            yield content
    elif isinstance(content, list):
        for part in content:
            text = part.get("text") if isinstance(part, Mapping) else part
            if isinstance(text, str):
                yield text


def _reasoning(message: Mapping[str, Any]) -> str:
    said = message.get("reasoning_content") or message.get("reasoning")
    return said if isinstance(said, str) else ""
