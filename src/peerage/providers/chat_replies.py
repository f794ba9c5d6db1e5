"""Read replies from chat completions, complete or streamed, and recognise their faults.

Every possible fault of a completion becomes exactly one kind of `CallError`. Differences between
servers (content in parts, reasoning under three names, incomplete token counts) are resolved
here only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from peerage.providers import (
    MAX_REPLY_BYTES,
    CallError,
    Kind,
    OnText,
    Reply,
)
from peerage.providers.money import MAX_CALL_TOKENS, checked_usage
from peerage.types import Usage, is_cut_off

if TYPE_CHECKING:
    import aiohttp

MAX_STREAM_BYTES = 64_000_000  # of a stream with all its events, which have about one word each
MAX_MODEL_CHARACTERS = 200  # of the id of a model
THINKING, THOUGHT = "<think>", "</think>"  # tags around the reasoning of local models
KIND_BY_STATUS: dict[int, Kind] = {
    401: "unauthorized",
    403: "unauthorized",
    408: "timeout",
    429: "rate_limited",
}


async def read_reply(response: aiohttp.ClientResponse, on_text: OnText | None) -> Reply:
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


def error_words(text: str) -> tuple[str, str, str]:
    """Return an error's message (or its whole text), the parameter it names, and its code."""
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
    """Parse an integer; one with too many digits becomes a float, which is refused as a count."""
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


def _first(document: Mapping[str, Any], part: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return a part of the first choice, or None, and the finish reason of the choice."""
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
    """Return a reply, also if it was cut off at the token limit; raise CallError without text.

    A refusal also raises CallError, even if there is text. Thoughts before the answer become the
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

    Some endpoints count reasoning only in the total, so output is at least the total minus
    the input.
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
