"""Every way in which an endpoint can misbehave is one kind of failure, and a key stays secret."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from peerage.config import KEY_NAMES
from peerage.errors import ConfigError
from peerage.providers import Call, CallError, Kind, Reply, providers
from peerage.providers.chat_replies import retry_after_s
from peerage.providers.openai_compatible import OpenAICompatible
from peerage.types import Query, Seat, Turn, Usage

AskFor = Callable[..., Call]
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
REVIEW = (
    "You are one reviewer on a panel.\n\n"
    "[BEGIN Response A 0f]\none\n[END Response A 0f]\n\n"
    "[BEGIN Response B 0f]\ntwo\n[END Response B 0f]\n\n"
    '"Response A": {"notes": "<why>", "accuracy": <mark>}'
)


def complete(*calls: Call, environ: Mapping[str, str] = os.environ) -> list[Reply]:
    """The replies to calls of one endpoint, one after the other."""

    async def run() -> list[Reply]:
        provider = OpenAICompatible(calls[0].seat, environ)
        try:
            return [await provider.complete(call) for call in calls]
        finally:
            await provider.aclose()

    return asyncio.run(run())


def stream(call: Call) -> list[str | Reply]:
    async def run() -> list[str | Reply]:
        provider = OpenAICompatible(call.seat)
        pieces: list[str | Reply] = []
        try:
            reply = await provider.complete(call, pieces.append)
            return [*pieces, reply]
        finally:
            await provider.aclose()

    return asyncio.run(run())


def fault(ask: Callable[[], object]) -> CallError:
    with pytest.raises(CallError) as caught:
        ask()
    return caught.value


# -- good replies ------------------------------------------------------------------------------


def test_it_is_registered_under_the_name_of_the_protocol() -> None:
    assert providers.get("openai") is OpenAICompatible


def test_a_reply_has_its_text_and_what_it_took(ask_for: AskFor) -> None:
    (reply,) = complete(ask_for("n_words=5"))
    assert len(reply.text.split()) == 5
    assert reply.usage == Usage(len("What is a peer?") // 4 + 1, len(reply.text) // 4 + 1, None)
    assert reply.reasoning_words is None
    assert not reply.constrained


def test_the_same_call_gives_the_same_text(ask_for: AskFor) -> None:
    first, second = complete(ask_for(), ask_for())
    assert first.text == second.text


def test_a_cost_that_the_endpoint_reports_is_taken_over(ask_for: AskFor) -> None:
    (reply,) = complete(ask_for("cost_usd=0.25"))
    assert reply.usage.cost_usd == 0.25


def test_usage_that_is_not_reported_is_unknown(ask_for: AskFor) -> None:
    (reply,) = complete(ask_for("usage=0"))
    assert reply.usage == Usage()


def test_content_in_parts_is_one_text(ask_for: AskFor) -> None:
    plain, parts = complete(ask_for("n_words=9"), ask_for("n_words=9&parts=1"))
    assert plain.text == parts.text


def test_reasoning_is_counted_and_is_not_part_of_the_answer(ask_for: AskFor) -> None:
    (reply,) = complete(ask_for("reasoning_words=12"))
    assert reply.reasoning_words == 12
    assert "hmm" not in reply.text


def test_a_text_cut_at_its_token_limit_is_still_a_reply_that_says_so(ask_for: AskFor) -> None:
    (reply,) = complete(ask_for("do=length"))
    assert reply.text
    assert reply.finish_reason == "length"


@pytest.mark.parametrize("text", ["lone \ud800 half", "nul \x00 byte", "Übergrößenträger 🎓"])
def test_any_prompt_can_be_sent(ask_for: AskFor, text: str) -> None:
    (reply,) = complete(ask_for(prompt=text, system=text))
    assert reply.text


def test_a_prompt_of_a_megabyte_can_be_sent(ask_for: AskFor) -> None:
    (reply,) = complete(ask_for(prompt="a question " * 100_000))
    assert reply.text


def test_options_of_a_seat_go_into_the_request(ask_for: AskFor) -> None:
    refusing = ask_for("refuses=top_p", options={"top_p": 0.5})
    assert fault(lambda: complete(refusing)).kind == "bad_request"
    assert complete(ask_for("refuses=top_p"))


def test_options_may_not_set_parameters_of_the_call(ask_for: AskFor) -> None:
    with pytest.raises(ConfigError, match="options may not set max_tokens"):
        OpenAICompatible.check(ask_for(options={"max_tokens": 9}).seat)


# -- bad replies -------------------------------------------------------------------------------

FAULTS: dict[str, Kind] = {
    "do=400": "bad_request",
    "do=401": "unauthorized",
    "do=403": "unauthorized",
    "do=408": "timeout",
    "do=429": "rate_limited",
    "do=500": "server_error",
    "do=503": "server_error",
    "do=302": "bad_request",
    "do=error_200": "server_error",
    "do=html": "not_json",
    "do=refusal": "refused",
    "do=null": "empty",
    "do=blank": "empty",
    "do=truncated": "truncated",
    "do=cut_json": "truncated",
    "do=latin1": "bad_encoding",
    "do=endless": "too_long",
    "n_bytes=2000000": "too_long",
    "do=reset": "connection",
}


@pytest.mark.parametrize("behaviour", FAULTS)
def test_bad_behaviour_is_one_kind_of_failure(ask_for: AskFor, behaviour: str) -> None:
    error = fault(lambda: complete(ask_for(behaviour)))
    assert error.kind == FAULTS[behaviour]
    assert error.message


STREAM_FAULTS: dict[str, Kind] = {
    **{
        name: kind
        for name, kind in FAULTS.items()
        if name not in ("do=blank", "do=cut_json", "do=refusal")
    },
    "do=cut_json": "truncated",
}


@pytest.mark.parametrize("behaviour", STREAM_FAULTS)
def test_bad_behaviour_in_a_stream_is_the_same_kind(ask_for: AskFor, behaviour: str) -> None:
    assert fault(lambda: stream(ask_for(behaviour))).kind == STREAM_FAULTS[behaviour]


def test_a_reply_that_breaks_off_still_says_what_it_took(ask_for: AskFor) -> None:
    error = fault(lambda: complete(ask_for("do=null")))
    assert error.usage is not None
    assert error.usage.tokens_in == len("What is a peer?") // 4 + 1


def test_a_port_where_nothing_listens_is_a_connection_failure_that_costs_nothing(
    ask_for: AskFor,
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = fault(lambda: complete(ask_for(base_url=f"http://127.0.0.1:{port}/v1")))
    assert error.kind == "connection"
    assert str(port) in error.message
    assert error.usage == Usage(0, 0, 0.0)


@pytest.mark.parametrize("base_url", ["nonsense", "ftp://127.0.0.1/v1", "http:///v1"])
def test_an_invalid_address_is_refused_before_any_call(ask_for: AskFor, base_url: str) -> None:
    with pytest.raises(ConfigError, match="not an http or https address"):
        OpenAICompatible.check(ask_for(base_url=base_url).seat)


def test_a_server_without_http_is_not_json(ask_for: AskFor) -> None:
    async def run() -> None:
        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"220 mail.example ESMTP\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(hear, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        call = ask_for(base_url=f"http://127.0.0.1:{port}/v1")
        provider = OpenAICompatible(call.seat)
        try:
            await provider.complete(call)
        finally:
            await provider.aclose()
            server.close()

    assert fault(lambda: asyncio.run(run())).kind == "not_json"


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:05 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_how_long_to_wait_is_read_as_seconds_or_as_a_date(
    headers: dict[str, str], wait_s: float | None
) -> None:
    assert retry_after_s(headers, now=10.0) == wait_s


def test_an_endpoint_that_asks_for_a_pause_is_quoted(ask_for: AskFor) -> None:
    assert fault(lambda: complete(ask_for("do=429&retry_after=7"))).retry_after_s == 7.0
    assert fault(lambda: complete(ask_for("do=503&retry_after=2"))).retry_after_s == 2.0
    assert fault(lambda: complete(ask_for("do=429"))).retry_after_s is None


# -- what endpoints refuse ---------------------------------------------------------------------


def test_a_schema_is_sent_and_kept_to(ask_for: AskFor) -> None:
    (reply,) = complete(ask_for(prompt=REVIEW, schema=SCHEMA, stage="review"))
    assert reply.constrained
    assert json.loads(reply.text)["ranking"]


def test_an_endpoint_that_refuses_a_schema_is_asked_without_and_not_again_with(
    ask_for: AskFor, mock: Any
) -> None:
    call = ask_for("refuses=response_format", prompt=REVIEW, schema=SCHEMA, stage="review")

    async def run() -> list[Reply]:
        provider = OpenAICompatible(call.seat)
        assert provider.can_constrain(call.seat)
        replies = [await provider.complete(call) for _ in range(3)]
        assert not provider.can_constrain(call.seat)
        assert provider.can_constrain(replace(call.seat, model="another"))
        await provider.aclose()
        return replies

    replies = asyncio.run(run())
    assert not any(reply.constrained for reply in replies)
    assert mock.n_calls(call.seat.model) == 4  # one refusal, three replies


def test_a_schema_that_is_taken_and_ignored_constrains_nothing(ask_for: AskFor) -> None:
    (reply,) = complete(ask_for("fenced=1", prompt=REVIEW, schema=SCHEMA, stage="review"))
    assert not reply.constrained


@pytest.mark.parametrize(
    "refused",
    ["max_tokens", "temperature", "response_format,max_tokens,temperature"],
)
def test_a_parameter_that_is_refused_by_name_is_done_without(
    ask_for: AskFor, mock: Any, refused: str
) -> None:
    call = ask_for(f"refuses={refused}", schema=SCHEMA)
    complete(call, call)
    assert mock.n_calls(call.seat.model) == len(refused.split(",")) + 2


def test_a_stream_does_without_its_options_too(ask_for: AskFor) -> None:
    *_, reply = stream(ask_for("refuses=stream_options"))
    assert isinstance(reply, Reply)
    assert reply.usage == Usage()


def test_a_wrong_request_does_not_change_the_rejected_parameters(ask_for: AskFor) -> None:
    call = ask_for("do=400,400,ok", schema=SCHEMA, prompt=REVIEW, stage="review")

    async def run() -> Reply:
        provider = OpenAICompatible(call.seat)
        with pytest.raises(CallError, match="400"):
            await provider.complete(call)
        reply = await provider.complete(call)
        await provider.aclose()
        return reply

    assert asyncio.run(run()).constrained


def test_a_refusal_of_both_names_of_the_limit_ends_in_a_failure(ask_for: AskFor) -> None:
    error = fault(lambda: complete(ask_for("refuses=max_tokens,max_completion_tokens")))
    assert error.kind == "bad_request"


# -- streams -----------------------------------------------------------------------------------


def test_a_stream_gives_its_pieces_and_then_the_same_reply(ask_for: AskFor) -> None:
    *pieces, reply = stream(ask_for("reasoning_words=3"))
    (whole,) = complete(ask_for("reasoning_words=3"))
    assert len(pieces) > 1
    assert reply == whole
    assert "".join(str(piece) for piece in pieces) == whole.text


def test_a_stream_that_is_called_off_closes_its_connection(ask_for: AskFor, mock: Any) -> None:
    call = ask_for("do=endless&piece_ms=1")

    async def run() -> None:
        provider = OpenAICompatible(call.seat)
        heard = asyncio.Event()
        task = asyncio.create_task(provider.complete(call, lambda _: heard.set()))
        await heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(200):
            if mock.stats()["in_flight"] == 0:
                break
            await asyncio.sleep(0.01)
        assert mock.stats()["in_flight"] == 0
        await provider.aclose()

    asyncio.run(run())


# -- connections -------------------------------------------------------------------------------


def test_seats_of_one_endpoint_and_key_share_a_provider(ask_for: AskFor) -> None:
    a = Seat("a", base_url="https://example.org/v1/", api_key_env="K", model="x")
    b = Seat("b", base_url="https://example.org/v1", api_key_env="K", model="y")
    c = Seat("c", base_url="https://example.org/v1", api_key_env="OTHER")
    assert OpenAICompatible.endpoint(a) == OpenAICompatible.endpoint(b)
    assert OpenAICompatible.endpoint(b) != OpenAICompatible.endpoint(c)


def test_calls_one_after_the_other_use_one_connection(ask_for: AskFor, mock: Any) -> None:
    before = mock.stats()["n_connections"]
    complete(*[ask_for()] * 10)
    assert mock.stats()["n_connections"] - before <= 3  # one for each look at the count


def test_looking_a_provider_up_loads_no_heavy_package() -> None:
    code = (
        "import sys; from peerage.providers import providers; providers.get('openai'); "
        "print([m for m in ('aiohttp', 'yarl', 'genai_prices') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- keys --------------------------------------------------------------------------------------

KEY = "sk-very-secret-0123456789"


def test_a_key_that_is_not_set_is_named_and_nothing_is_sent() -> None:
    seat = Seat("seat", model="m", base_url="https://example.org/v1", api_key_env="SOME_KEY")
    error = fault(lambda: complete(_call(seat), environ={}))
    assert error.kind == "unauthorized"
    assert "SOME_KEY" in error.message


def test_a_seat_that_names_no_key_says_so() -> None:
    seat = Seat("seat", model="m", base_url="https://example.org/v1")
    error = fault(lambda: complete(_call(seat), environ={}))
    assert error.kind == "unauthorized"
    assert "api_key_env" in error.message


@pytest.mark.parametrize("key", [f"{KEY}\n", f"  {KEY} "])
def test_a_key_from_a_file_loses_its_line_end(ask_for: AskFor, key: str) -> None:
    assert complete(ask_for(api_key_env="K"), environ={"K": key})


@pytest.mark.parametrize("key", [f"{KEY}\n{KEY}", f"{KEY}é"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(ask_for: AskFor, key: str) -> None:
    error = fault(lambda: complete(ask_for(api_key_env="K"), environ={"K": key}))
    assert error.kind == "unauthorized"
    assert KEY not in error.message


def test_keys_in_the_environment_that_no_seat_names_stay_there(
    ask_for: AskFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other clients would send these to whatever endpoint they are pointed at."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ADMIN_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", KEY)
    monkeypatch.setenv("OPENAI_PROJECT_ID", KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Authorization: Bearer {KEY}\nX-Key: {KEY}")
    heard: list[bytes] = []

    async def run() -> None:
        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            writer.close()

        server = await asyncio.start_server(hear, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        call = ask_for(base_url=f"http://127.0.0.1:{port}/v1")
        provider = OpenAICompatible(call.seat)
        with pytest.raises(CallError):
            await provider.complete(call)
        await provider.aclose()
        server.close()

    asyncio.run(run())
    assert heard
    assert KEY.encode() not in heard[0]


@pytest.mark.parametrize(
    ("base_url", "environ", "problem"),
    [
        ("http://127.0.0.1:8000/v1", {}, ""),
        ("http://192.168.1.7:11434/v1", {}, ""),
        ("http://[fd00::7]/v1", {}, ""),
        ("http://ollama:11434/v1", {}, ""),
        ("http://box.lan/v1", {}, ""),
        ("http://example.org/v1", {}, ""),
        ("https://example.org/v1", {}, "no api_key_env is given"),
        ("", {}, "OPENAI_API_KEY is not set"),
        ("", {"OPENAI_API_KEY": KEY}, ""),
        ("https://api.groq.com/openai/v1", {"OPENAI_API_KEY": KEY}, "GROQ_API_KEY is not set"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", {"GOOGLE_API_KEY": KEY}, ""),
        ("https://eu.api.openai.com/v1", {"OPENAI_API_KEY": KEY}, ""),
        ("https://api.openai.com.evil.org/v1", {"OPENAI_API_KEY": KEY}, "no api_key_env"),
    ],
)
def test_a_missing_key_is_refused_beforehand_where_one_is_needed(
    base_url: str, environ: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for names in KEY_NAMES.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    seat = Seat("s", model="m", base_url=base_url)
    if not problem:
        OpenAICompatible.check_ready(seat)
        return
    with pytest.raises(ConfigError, match=problem):
        OpenAICompatible.check_ready(seat)
    assert fault(lambda: complete(_call(seat))).kind == "unauthorized"


def test_a_vendors_key_goes_to_its_own_host_by_https_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for base_url in ("http://api.openai.com/v1", "https://openai.com/v1", "http://127.0.0.1/v1"):
        assert OpenAICompatible(Seat("s", model="m", base_url=base_url)).key_name == ""


def _call(seat: Seat) -> Call:
    return Call(seat, "answer", "?", "k", Query("?"))


# -- beside the client that everybody tests with -----------------------------------------------


@pytest.mark.parametrize("behaviour", ["", "reasoning_words=4", "do=length", "n_words=200"])
def test_a_reply_reads_as_the_openai_client_reads_it(ask_for: AskFor, behaviour: str) -> None:
    import openai

    call = ask_for(behaviour)
    (ours,) = complete(call)

    async def run() -> Any:
        async with openai.AsyncOpenAI(
            base_url=call.seat.base_url, api_key="none", max_retries=0
        ) as client:
            return await client.chat.completions.create(
                model=call.seat.model, messages=[{"role": "user", "content": call.prompt}]
            )

    theirs = asyncio.run(run())
    assert ours.text == theirs.choices[0].message.content
    assert ours.finish_reason == theirs.choices[0].finish_reason
    assert ours.usage.tokens_in == theirs.usage.prompt_tokens
    assert ours.usage.tokens_out == theirs.usage.completion_tokens


def test_the_conversation_the_limits_and_the_effort_are_in_the_request(ask_for: AskFor) -> None:
    call = ask_for(reasoning_effort="low", system="You are s.", max_tokens=77)
    earlier = (Turn("user", "1?"), Turn("assistant", "1"))
    call = replace(call, query=Query("And?", system="Be brief.", earlier=earlier))
    body = OpenAICompatible(call.seat)._body(call, frozenset(), stream=False)
    assert (body["max_tokens"], body["reasoning_effort"]) == (77, "low")
    assert [message["role"] for message in body["messages"]] == [
        "system", "user", "assistant", "user"
    ]  # fmt: skip
    assert body["messages"][0]["content"] == "You are s.\n\nBe brief."


def test_an_effort_that_a_model_does_not_know_is_left_out(ask_for: AskFor) -> None:
    (reply,) = complete(ask_for("refuses=reasoning_effort", reasoning_effort="high"))
    assert reply.text


def test_a_cut_off_answer_and_its_reasoning_come_apart(ask_for: AskFor) -> None:
    (reply,) = complete(ask_for("do=length&reasoning_words=5"))
    assert (reply.finish_reason, reply.reasoning_words) == ("length", 5)
    assert "hmm" not in reply.text
