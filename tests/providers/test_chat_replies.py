"""What servers differ in, evened out: reasoning, refusals, counts, encodings, broken streams."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.providers import MAX_REPLY_BYTES, CallError, Reply
from peerage.providers.chat_replies import CompletionStream, kind_of, parse_completion, usage_of
from peerage.types import Usage


def body(message: Any, **about: Any) -> bytes:
    choice = {"message": message, "finish_reason": about.pop("finish", "stop")}
    return json.dumps({"choices": [choice], **about}).encode()


def said(text: object, **about: Any) -> Reply:
    return parse_completion(body({"content": text}, **about))


# -- whole -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer", "n_words"),
    [
        ("<think>let me see</think>\n\nForty-two.", "Forty-two.", 3),
        ("\n<think></think>Forty-two.", "Forty-two.", None),
        ("The tag <think> opens thinking.", "The tag <think> opens thinking.", None),
    ],
)
def test_thinking_aloud_is_reasoning_and_not_answer(
    text: str, answer: str, n_words: int | None
) -> None:
    reply = said(text)
    assert (reply.text, reply.reasoning_words) == (answer, n_words)


def test_unfinished_thinking_is_not_an_answer() -> None:
    with pytest.raises(CallError) as cut:
        said("<think>let me see, if", finish="length")
    assert cut.value.kind == "out_of_tokens"
    assert "max_tokens" in cut.value.message


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_goes_by_two_names(name: str) -> None:
    reply = parse_completion(body({"content": "yes", name: "one two three"}))
    assert reply.reasoning_words == 3


def test_a_body_in_the_encoding_its_header_names_is_read() -> None:
    latin = '{"choices":[{"message":{"content":"café"}}]}'.encode("latin-1")
    assert parse_completion(latin, "application/json; charset=ISO-8859-1").text == "café"
    for claim in ("application/json", "application/json; charset=utf-8", "x; charset=no-such"):
        with pytest.raises(CallError) as wrong:
            parse_completion(latin, claim)
        assert wrong.value.kind == "bad_encoding"


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (b"", "not_json"),
        (b"  \n", "not_json"),
        (b"null", "not_json"),
        (b"[]", "not_json"),
        (b"{}", "not_json"),
        (b'{"choices": []}', "not_json"),
        (b'{"choices": [null]}', "not_json"),
        (b'{"choices": [{"message": null}]}', "not_json"),
        (b'{"choices": [{"message": {}}]}', "empty"),
        (b'{"choices": [{"message": {"content": 7}}]}', "empty"),
        (b'{"choices": [{"mess', "truncated"),
        (b"<html>", "not_json"),
        (b"upstream connect error", "not_json"),
        (b'{"a": 1} {"b": 2}', "not_json"),
        (b"[" * 100_000, "not_json"),
        (b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not_json"),
        (b'{"error": {"code": 429, "message": "slow down"}}', "rate_limited"),
        (b'{"error": {"code": "overloaded", "message": "slow down"}}', "server_error"),
        (b'{"error": "no"}', "server_error"),
    ],
)
def test_a_document_that_is_not_a_completion_is_one_kind_of_failure(
    document: bytes, kind: str
) -> None:
    with pytest.raises(CallError) as wrong:
        parse_completion(document)
    assert wrong.value.kind == kind


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_at_all_raise_anything_else(data: bytes) -> None:
    with pytest.raises(CallError):
        parse_completion(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "usage", "cost", "error", "text", "code", "delta"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_document_at_all_raises_anything_else(document: object) -> None:
    data = json.dumps(document).encode()
    stream = CompletionStream()
    for read in (parse_completion, lambda d: stream.feed(b"data: " + d + b"\n")):
        try:
            read(data)
        except CallError as error:
            assert error.kind  # noqa: PT017 - either is fine, but nothing else


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        (None, Usage()),
        ({}, Usage()),
        ({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}, Usage(7, 3)),
        # Thinking that is counted in the total alone was output, and is paid for as output.
        ({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 30}, Usage(7, 23)),
        ({"prompt_tokens": "7", "completion_tokens": -3}, Usage()),
        ({"prompt_tokens": True, "cost": True}, Usage()),
        ({"cost": 0.5}, Usage(cost_usd=0.5)),
        ({"cost": 0}, Usage(cost_usd=0.0)),
        ({"cost": -1}, Usage()),
        ({"cost": float("nan")}, Usage()),
        ({"cost": "0.5"}, Usage()),
        ({"prompt_tokens": 7, "completion_tokens": 3, "cost": 1e300}, Usage()),
        ({"prompt_tokens": 7, "completion_tokens": 10**400, "cost": 0.5}, Usage()),
        ({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10**400}, Usage()),
        ({"prompt_tokens": 7, "total_tokens": 3}, Usage()),
    ],
)
def test_usage_is_what_was_reported_or_unknown(reported: object, usage: Usage) -> None:
    assert usage_of(reported) == usage


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "bad_request"), (404, "bad_request"), (418, "bad_request"), (529, "server_error")],
)
def test_a_status_has_its_kind(status: int, kind: str) -> None:
    assert kind_of(status) == kind


# -- in pieces ---------------------------------------------------------------------------------

EVENTS = (
    b": a comment\n\n"
    b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    b'data: {"choices":[{"delta":{"content":"caf\xc3\xa9 "}}]}\r\n\r\n'
    b'event: message\ndata:{"choices":[{"delta":{"content":"au lait"}}]}\n\n'
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2}}\n\n'
    b"data: [DONE]\n\n"
)


def streamed(*parts: bytes) -> tuple[list[str], CompletionStream]:
    pieces: list[str] = []
    stream = CompletionStream(pieces.append)
    for part in parts:
        stream.feed(part)
    return pieces, stream


def event(**delta: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n"


@given(st.lists(st.integers(0, len(EVENTS)), max_size=8))
def test_a_stream_reads_the_same_wherever_it_is_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(EVENTS)]
    pieces, stream = streamed(*(EVENTS[start:end] for start, end in pairwise(edges)))
    assert pieces == ["café ", "au lait"]
    assert stream.done
    assert stream.reply() == Reply("café au lait", Usage(4, 2), finish_reason="stop")


def test_a_stream_without_its_last_word_counts_if_it_gave_a_reason_to_end() -> None:
    _, stream = streamed(EVENTS.replace(b"data: [DONE]\n\n", b""))
    assert stream.reply().text == "café au lait"


def test_a_stream_that_breaks_off_is_truncated() -> None:
    _, stream = streamed(EVENTS[:200])
    with pytest.raises(CallError) as cut:
        stream.reply()
    assert cut.value.kind == "truncated"


def test_an_error_in_the_middle_of_a_stream_is_that_error() -> None:
    with pytest.raises(CallError) as late:
        streamed(b'data: {"error":{"code":503,"message":"gone"}}\n\n')
    assert late.value.kind == "server_error"


def test_reasoning_in_a_stream_is_kept_apart() -> None:
    pieces, stream = streamed(event(reasoning_content="let me "), event(reasoning="see"), EVENTS)
    assert pieces == ["café ", "au lait"]
    assert stream.reply().reasoning == "let me see"


@pytest.mark.parametrize(
    "part",
    [
        b"data: " + b"x" * (MAX_REPLY_BYTES + 1),
        event(content="x" * 10_000),
        event(reasoning_content="x" * 10_000),
        event(refusal="x" * 10_000),
        b": still here\n\n" * 10_000,
        b'data: {"choices":[]}\n\n' * 10_000,
        b"\n" * 100_000,
    ],
    ids=["line", "text", "reasoning", "refusal", "comments", "empty events", "blank lines"],
)
def test_a_stream_that_does_not_end_is_too_long(
    part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peerage.providers.chat_replies.MAX_STREAM_BYTES", 1_200_000)
    with pytest.raises(CallError) as endless:
        streamed(*[part] * 200)
    assert endless.value.kind == "too_long"


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", ["stop", "content_filter"])
@pytest.mark.parametrize("content", [None, "", "Here is a part of an answer"])
@pytest.mark.parametrize("refusal", [None, "I cannot help with that."])
def test_a_reported_refusal_is_a_refusal_whole_or_streamed(
    finish: str, content: str | None, refusal: str | None
) -> None:
    message = {"content": content, "refusal": refusal}
    kind = "refused" if refusal or finish == "content_filter" else "empty"
    end = json.dumps({"choices": [{"delta": {}, "finish_reason": finish}]}).encode()
    _, stream = streamed(event(**message), b"data: " + end + b"\n\n")
    for read in (lambda: parse_completion(body(message, finish=finish)), stream.reply):
        if kind == "empty" and content:
            assert read().text == content
            continue
        with pytest.raises(CallError) as declined:
            read()
        assert declined.value.kind == kind


def test_why_a_reply_ended_is_kept() -> None:
    assert said("yes", finish="length").finish_reason == "length"
    assert said("yes", finish=None).finish_reason == ""
