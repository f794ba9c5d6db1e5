"""A key stays out of everything that is kept or shown, in whatever form and place it comes back."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from peerage.config import secret
from peerage.providers import Call, Reply
from peerage.providers.calling import Caller
from peerage.providers.redaction import (
    MARK,
    MAX_MESSAGE_CHARACTERS,
    MIN_KEY_CHARACTERS,
    RedactedStream,
    Redactor,
)
from peerage.types import Failure, Query, Seat

KEY = "sk-0123456789"
# Without vowels, so that no part of a key is by chance a word of our own messages.
KEYS = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="AEIOUaeiou"),
    min_size=MIN_KEY_CHARACTERS,
    max_size=60,
).filter(lambda key: len(set(key)) > 4)

Form = Callable[[str], str]
FORMS: Mapping[str, Form] = {
    "plain": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "quoted": lambda key: json.dumps(key)[1:-1],
    "quoted twice": lambda key: json.dumps(json.dumps(key)[1:-1])[1:-1],
    "repr": lambda key: repr(key)[1:-1],
    "slashes quoted": lambda key: key.replace("/", "\\/"),
    "code points": lambda key: "".join(f"\\u{ord(c):04x}" for c in key),
    "capital code points": lambda key: "".join(f"\\u{ord(c):04X}" for c in key),
    "percent": lambda key: quote(key, safe=""),
    "percent, lower case": lambda key: "".join(f"%{ord(c):02x}" for c in key),
    "percent, upper case": lambda key: "".join(f"%{ord(c):02X}" for c in key),
    "percent, path": quote,
    "percent, form": quote_plus,
    "percent twice": lambda key: quote(quote(key, safe=""), safe=""),
    "html": html.escape,
    "html, by number": lambda key: "".join(f"&#{ord(c)};" for c in key),
    "hexadecimal": lambda key: key.encode().hex(),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 of the header": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "basic": lambda key: base64.b64encode(f":{key}".encode()).decode(),
    "basic with a name": lambda key: base64.b64encode(f"me:{key}".encode()).decode(),
    "basic before": lambda key: base64.b64encode(f"{key}:".encode()).decode(),
    "base64 of a URL": lambda key: base64.urlsafe_b64encode(f"u:{key}".encode()).decode(),
}
READINGS: tuple[Callable[[str], str], ...] = (
    str,
    unquote,
    lambda text: unquote(unquote(text)),
    html.unescape,
    lambda text: text.replace("\\", ""),
    lambda text: re.sub(r"\\+u00(..)", lambda found: unquote(f"%{found[1]}"), text),
)


def parts_of(key: str, n: int = MIN_KEY_CHARACTERS) -> set[str]:
    folded = key.lower()
    return {folded[i : i + n] for i in range(len(folded) - n + 1)}


def leaks(shown: str, key: str, form: str) -> list[str]:
    """The parts of the key, or the whole of its form, that can be read in what is shown."""
    read = {reading(shown).lower() for reading in READINGS}
    return [part for part in parts_of(key) if any(part in text for text in read)] + [
        form for _ in range(form in shown)
    ]


# -- one text ----------------------------------------------------------------------------------


@given(KEYS, st.sampled_from(sorted(FORMS)), st.text(max_size=20), st.text(max_size=20))
def test_no_form_of_a_key_is_left_in_a_text(key: str, name: str, before: str, after: str) -> None:
    form = FORMS[name](key)
    assume(not leaks(before, key, form) and not leaks(after, key, form))
    text = Redactor(key).redact(f"{before} {form} {after}")
    assert MARK in text
    assert not leaks(text, key, form)


@given(KEYS | st.just("a" * 9 + "bcde" + "a" * 9), st.integers(1, 7), st.integers(0, 7))
def test_a_key_is_found_where_its_own_beginning_stands_before_it(
    key: str, n_before: int, n_after: int
) -> None:
    text = Redactor(key).redact(f"{key[:n_before]}{key}{key[:n_after]}")
    assert key not in text
    assert MARK in text


@given(KEYS, st.sampled_from(sorted(FORMS)), st.data())
def test_a_key_that_is_split_over_the_pieces_of_a_stream_is_struck_out(
    key: str, name: str, data: st.DataObject
) -> None:
    form = FORMS[name](key)
    text = f"the key: {form} was it"
    cuts = data.draw(st.sets(st.integers(0, len(text)), max_size=len(text)))
    edges = [0, *sorted(cuts), len(text)]
    told: list[str] = []
    redactor = Redactor(key)
    stream = RedactedStream(redactor, told.append)
    for start, end in pairwise(edges):
        stream.feed(text[start:end])
    stream.end()
    assert "".join(told) == redactor.redact(text)
    assert not leaks("".join(told), key, form)


@given(KEYS, st.sampled_from(["plain", "quoted", "percent, lower case"]), st.data())
def test_a_key_that_breaks_off_at_the_end_leaves_no_part(
    key: str, name: str, data: st.DataObject
) -> None:
    form = FORMS[name](key)
    n = data.draw(st.integers(1, len(form)))
    told: list[str] = []
    redactor = Redactor(key)
    stream = RedactedStream(redactor, told.append)
    stream.feed(f"the key: {form[:n]}")
    stream.end()
    for shown in (redactor.redact(f"the key: {form[:n]}"), "".join(told)):
        assert not leaks(shown, key, form)


@given(st.text(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_ordinary_text_is_passed_on_as_it_is(text: str, cuts: list[int]) -> None:
    redactor = Redactor(KEY)
    told: list[str] = []
    stream = RedactedStream(redactor, told.append)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in pairwise(edges):
        stream.feed(text[start:end])
    stream.end()
    assert redactor.redact(text) == "".join(told) == text


@pytest.mark.parametrize("key", [None, "", "none", "test", "EMPTY", "ollama"])
def test_a_key_that_is_a_short_word_or_none_strikes_out_nothing(key: str | None) -> None:
    text = "None of the tests is empty, said ollama: none, test, EMPTY."
    assert Redactor(key).redact(text) == text


def test_halves_of_a_character_are_joined_across_pieces_or_replaced() -> None:
    told: list[str] = []
    stream = RedactedStream(Redactor(None), told.append)
    for piece in ("a\ud83c", "\udf93 b\ud83d", " c\udf93", "\ud83c"):
        stream.feed(piece)
    stream.end()
    assert "".join(told) == "a🎓 b\ufffd c\ufffd\ufffd"
    assert Redactor(None).redact("a\ud83c\udf93 b\ud83d") == "a🎓 b\ufffd"


def test_a_text_of_escapes_takes_time_in_proportion_to_its_length() -> None:
    """Each step of the search goes forward; this would take hours if it did not."""
    for text in ("\\" * 200_000, "%25" * 70_000, "&#115;" * 40_000, "sk-0123" * 30_000):
        assert Redactor(KEY).redact(text) == text


# -- messages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("held", ["", "  ", "\n"])
def test_a_blank_variable_holds_no_key(held: str) -> None:
    assert secret("K", {"K": held}) is None


@given(st.text(max_size=400), st.text(max_size=400))
def test_a_sentence_is_one_short_line_without_the_key(before: str, after: str) -> None:
    line = Redactor(KEY).sentence(f"{before}{KEY}{after}")
    assert not leaks(line, KEY, KEY)
    assert len(line) <= MAX_MESSAGE_CHARACTERS
    assert len(line.splitlines()) <= 1


@given(st.integers(0, 2 * MAX_MESSAGE_CHARACTERS))
def test_a_key_that_would_be_cut_in_two_leaves_no_half(n_before: int) -> None:
    assert not leaks(Redactor(KEY).sentence("x" * n_before + KEY), KEY, KEY)


def test_characters_that_no_file_can_store_are_left_out() -> None:
    assert Redactor(None).sentence("a\x00b\u2028c") == "a b c"


# -- a whole call ------------------------------------------------------------------------------


def completion(message: Mapping[str, object], finish: str = "stop") -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}]}).encode()


def events(*deltas: Mapping[str, object], finish: str = "stop") -> bytes:
    choices: list[dict[str, object]] = [{"delta": delta} for delta in deltas]
    choices.append({"delta": {}, "finish_reason": finish})
    lines = [b"data: " + json.dumps({"choices": [choice]}).encode() for choice in choices]
    return b"\n\n".join([*lines, b"data: [DONE]", b""])


JSON, SSE, TEXT = "application/json", "text/event-stream", "text/plain"
PAD = "x" * 490  # so that a cut at some round number goes through the key

# Where an endpoint may put a text: status, headers and body of its response.
Place = Callable[[str], tuple[int, dict[str, str], bytes]]
PLACES: Mapping[str, Place] = {
    "answer": lambda t: (200, {"content-type": JSON}, completion({"content": f"it is {t} ok"})),
    "end of an answer": lambda t: (200, {"content-type": JSON}, completion({"content": t})),
    "reasoning": lambda t: (
        200,
        {"content-type": JSON},
        completion({"content": "yes", "reasoning_content": t}),
    ),
    "thinking": lambda t: (
        200,
        {"content-type": JSON},
        completion({"content": f"<think>{t}</think>yes"}),
    ),
    "finish reason": lambda t: (200, {"content-type": JSON}, completion({"content": "yes"}, t)),
    "refusal": lambda t: (200, {"content-type": JSON}, completion({"refusal": PAD[:290] + t})),
    "stream": lambda t: (200, {"content-type": SSE}, events(*({"content": c} for c in t))),
    "stream in halves": lambda t: (
        200,
        {"content-type": SSE},
        events({"content": f"a {t[: len(t) // 2]}"}, {"content": f"{t[len(t) // 2 :]} b"}),
    ),
    "streamed reasoning": lambda t: (
        200,
        {"content-type": SSE},
        events(*({"reasoning": c} for c in t), {"content": "yes"}),
    ),
    "streamed error": lambda t: (
        200,
        {"content-type": SSE},
        b"data: " + json.dumps({"error": {"message": t}}).encode() + b"\n\n",
    ),
    "error in a reply": lambda t: (
        200,
        {"content-type": JSON},
        json.dumps({"error": {"message": f"no {t}"}}).encode(),
    ),
    "error message": lambda t: (
        400,
        {"content-type": JSON},
        json.dumps({"error": {"message": f"{PAD}{t}"}}).encode(),
    ),
    "short error message": lambda t: (
        401,
        {"content-type": JSON},
        json.dumps({"error": {"message": f"not accepted: Bearer {t}"}}).encode(),
    ),
    "error detail": lambda t: (422, {"content-type": JSON}, json.dumps({"detail": t}).encode()),
    "error page": lambda t: (500, {"content-type": TEXT}, f"{PAD[:270]}{t}{PAD}".encode()),
    "page": lambda t: (200, {"content-type": TEXT}, f"<html>{PAD[:100]}{t}".encode()),
    "long error": lambda t: (500, {"content-type": TEXT}, b"x" * 63_990 + t.encode()),
    "pause": lambda t: (429, {"content-type": JSON, "retry-after": t}, b"{}"),
    "encoding": lambda t: (200, {"content-type": f"{JSON}; charset={t}"}, b"\xff"),
    "address": lambda t: (307, {"content-type": TEXT, "location": f"/{t}"}, t.encode()),
}


async def no_sleep(_: float) -> None:
    await asyncio.sleep(0)


def answered(key: str, place: str, text: str, stream: bool) -> tuple[Reply | Failure, list[str]]:
    """What becomes of a call whose endpoint puts this text in that place, and what was told."""
    status, headers, body = PLACES[place](text)
    lines = [f"HTTP/1.1 {status} {status}", *(f"{k}: {v}" for k, v in headers.items())]
    head = "\r\n".join([*lines, f"content-length: {len(body)}", "connection: close", "", ""])

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head.encode("latin-1") + body)
        await writer.drain()
        writer.close()

    async def run() -> tuple[Reply | Failure, list[str]]:
        server = await asyncio.start_server(hear, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1"
        seat = Seat("s", model="m", base_url=url, api_key_env="SOME_KEY")
        told: list[str] = []
        async with Caller([seat], sleep=no_sleep) as caller:
            call = Call(seat, "answer", "?", "k", Query("?"))
            reply = await caller.call(call, told.append if stream else None)
        server.close()
        return reply, told

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SOME_KEY", key)
        return asyncio.run(run())


@settings(
    max_examples=settings.default.max_examples * 3 // 2,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(KEYS, st.sampled_from(sorted(FORMS)), st.sampled_from(sorted(PLACES)), st.booleans())
def test_no_key_gets_out_of_a_call(
    caplog: pytest.LogCaptureFixture, key: str, name: str, place: str, stream: bool
) -> None:
    form = FORMS[name](key)
    with caplog.at_level(logging.DEBUG):
        outcome, told = answered(key, place, form, stream)
    shown: list[Any] = [*asdict(outcome).values(), "".join(told), caplog.text]
    assert not leaks(" ".join(map(str, shown)), key, form)
    caplog.clear()


@pytest.mark.parametrize("place", ["answer", "reasoning", "stream", "short error message"])
def test_text_without_the_key_is_unchanged(place: str) -> None:
    outcome, _ = answered(KEY, place, "something else", stream=False)
    assert "something else" in str(asdict(outcome))
