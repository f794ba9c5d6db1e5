"""Chat completions as endpoints send them, whole or as a stream of events, read into a `Reply`.

Every way in which a document can be wrong ends in exactly one kind of `CallError`; what
servers differ in (content in parts, reasoning under three names, tokens left out of a
count) is evened out here and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from peerage.providers import MAX_REPLY_BYTES, CallError, Kind, OnText, Reply
from peerage.providers.money import MAX_CALL_TOKENS, checked_usage
from peerage.types import Usage, is_cut_off

MAX_STREAM_BYTES = 64_000_000  # of a stream with all its events; each carries one word or so

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


# -- whole ------------------------------------------------------------------------------------


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
