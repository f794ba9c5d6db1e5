"""The real `openai` client asks the council, as chat and as responses, whole and streamed."""

import asyncio
import json
import threading
from contextlib import suppress
from dataclasses import replace

import httpx
import openai
import pytest

from peerage.doors.http import AppSettings
from peerage.doors.http.gate import AccessRules
from peerage.providers.simulated import SimulatedProvider
from peerage.types import Seat
from tests.doors.http.conftest import running, simulated
from tests.shared.waiting import wait_until

# The client's helper dumps its own types, and says so of items that are ours.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
QUESTION = [{"role": "user", "content": "Is Python's sort stable?"}]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    store = f"sqlite:///{tmp_path_factory.mktemp('openai')}/s.db"
    with running(store, simulated("ann", "bob", "cyd")) as started:
        yield started


@pytest.fixture
def url(server):
    return f"{server.client.base_url}/v1"


@pytest.fixture
def client(url):
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


def verdict_of(server, session):
    return server.client.get(f"/api/sessions/{session}").json()["verdict"]["text"]


def test_the_council_is_a_model(client):
    ids = [model.id for model in client.models.list()]
    assert ids == ["council", "council/debate", "council/quick"]
    assert client.models.retrieve("council/ann,bob").id == "council/ann,bob"


def test_a_completion_is_the_verdict_with_everything_else_beside_it(client, server):
    reply = client.chat.completions.create(model="council", messages=QUESTION)
    extras = reply.peerage
    assert reply.model == "council"
    assert reply.choices[0].message.content == verdict_of(server, extras["session"])
    assert {one["model"] for one in extras["ranking"]} == {"ann", "bob", "cyd"}
    assert extras["failed"] == []
    assert extras["url"].endswith(f"/sessions/{extras['session']}")


def test_usage_sums_all_calls(client, server):
    reply = client.chat.completions.create(model="council", messages=QUESTION)
    events = server.service.store.events(reply.peerage["session"])
    used = [usage for event in events if (usage := event.body.get("usage"))]
    assert len(used) == 7
    assert reply.usage.prompt_tokens == sum(usage["tokens_in"] for usage in used)
    assert reply.usage.completion_tokens == sum(usage["tokens_out"] for usage in used)


def test_a_stream_tells_progress_then_the_verdict_then_the_rest(client, server):
    chunks = list(
        client.chat.completions.create(
            model="council/ann,bob,cyd",
            messages=QUESTION,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    lines = [d.reasoning_content for d in deltas if hasattr(d, "reasoning_content")]
    words = [d.content for d in deltas if d.content]
    last = chunks[-1]
    assert {chunk.model for chunk in chunks} == {"council/ann,bob,cyd"}
    assert lines == [d.reasoning for d in deltas if hasattr(d, "reasoning")]
    assert any("reviewed 3 answers (3 of 3)" in line for line in lines)
    assert len(words) > 1
    assert "".join(words) == verdict_of(server, last.peerage["session"])
    assert last.choices == []
    assert last.usage.total_tokens > 0
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"


def test_the_streaming_helper_adds_it_up(client, server):
    with client.chat.completions.stream(model="council", messages=QUESTION) as stream:
        stream.until_done()
        reply = stream.get_final_completion()
    assert reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "stop"


def test_a_chat_stream_has_no_named_event(server):
    body = {"model": "council", "messages": QUESTION, "stream": True}
    reply = server.client.post("/v1/chat/completions", json=body)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert "event:" not in reply.text
    assert reply.text.endswith("data: [DONE]\n\n")


@pytest.mark.slow
def test_the_asynchronous_client_streams_too(url):
    async def ask():
        async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
            stream = await client.chat.completions.create(
                model="council", messages=QUESTION, stream=True
            )
            chat = [chunk async for chunk in stream]
            async with client.responses.stream(model="council", input="Why?") as events:
                async for _ in events:
                    pass
                return chat, await events.get_final_response()

    chat, response = asyncio.run(ask())
    assert chat[-1].usage.total_tokens > 0
    assert response.output_text


def test_a_stream_has_no_chunk_without_choices_unless_usage_is_asked_for(client):
    chunks = list(client.chat.completions.create(model="council", messages=QUESTION, stream=True))
    assert all(len(chunk.choices) == 1 for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens > 0
    assert chunks[-1].peerage["session"]


def test_progress_ends_where_the_verdict_begins(client):
    chunks = client.chat.completions.create(model="council", messages=QUESTION, stream=True)
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    first_word = next(i for i, delta in enumerate(deltas) if delta.content)
    assert not any(hasattr(delta, "reasoning") for delta in deltas[first_word:])


def test_a_response_has_standard_items_with_the_ballots_beside_them(client, server):
    response = client.responses.create(model="council", input="Is Python's sort stable?")
    assert response.status == "completed"
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert {one["reviewer"] for one in response.peerage["ballots"]} == {"ann", "bob", "cyd"}
    assert response.output_text == verdict_of(server, response.peerage["session"])
    assert response.usage.total_tokens > 0


def test_ballots_are_items_where_a_client_asks_for_them(client):
    with client.responses.stream(
        model="council", input="Why?", include=["peerage.ballots"]
    ) as stream:
        stream.until_done()
        response = stream.get_final_response()
    ballots = ["peerage:ballot"] * 3
    assert [item.type for item in response.output] == ["reasoning", *ballots, "message"]


def test_a_response_repeats_what_it_was_asked_with(client):
    first = client.responses.create(
        model="council", input="Why?", instructions="Be brief.", metadata={"run": "7"}
    )
    second = client.responses.create(model="council", input="Go on.", previous_response_id=first.id)
    assert (first.instructions, first.metadata) == ("Be brief.", {"run": "7"})
    assert second.previous_response_id == first.id
    again = client.responses.retrieve(first.id)
    assert (again.instructions, again.metadata) == ("Be brief.", {"run": "7"})
    assert client.responses.retrieve(second.id).previous_response_id == first.id
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="council", input="Why?", metadata={"run": "x" * 600})
    assert refused.value.param == "metadata.run"


def test_a_stored_response_can_be_read_again(client):
    made = client.responses.create(model="council", input="Why?")
    again = client.responses.retrieve(made.id)
    assert (again.id, again.status, again.output_text) == (made.id, "completed", made.output_text)
    with pytest.raises(openai.NotFoundError, match="no response") as refused:
        client.responses.retrieve("resp_zzz")
    assert refused.value.code == "not_found"


def test_a_response_in_the_background_runs_on(client):
    begun = client.responses.create(model="council", input="Why?", background=True)
    assert begun.status == "in_progress"
    wait_until(lambda: client.responses.retrieve(begun.id).status != "in_progress")
    response = client.responses.retrieve(begun.id)
    assert response.status == "completed"
    assert response.output_text


def test_a_streamed_response_names_items_and_parts_before_their_pieces(client):
    with client.responses.stream(model="council", input="Why?") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    first_word = kinds.index("response.output_text.delta")
    assert "response.content_part.added" in kinds[:first_word]
    assert "response.reasoning_summary_text.delta" in kinds[:first_word]
    assert final.output_text


def test_a_verdict_that_was_cut_off_is_not_passed_off_as_whole(client, server, monkeypatch):
    whole = SimulatedProvider.complete

    async def cut_off(self, call, on_text=None):
        reply = await whole(self, call, on_text)
        return replace(reply, finish_reason="length") if call.stage == "conclude" else reply

    monkeypatch.setattr(SimulatedProvider, "complete", cut_off)
    chat = {"model": "council", "messages": QUESTION}
    reply = client.chat.completions.create(**chat)
    assert reply.choices[0].finish_reason == "length"
    session = server.client.get(f"/api/sessions/{reply.peerage['session']}").json()
    assert "cut off at its length limit" in session["verdict"]["note"]
    assert "cut off at its length limit" in server.client.get(f"/sessions/{session['id']}").text
    chunks = client.chat.completions.create(**chat, stream=True)
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    response = client.responses.create(model="council", input="Why?")
    assert (response.status, response.output[-1].status) == ("incomplete", "incomplete")
    assert response.incomplete_details.reason == "max_output_tokens"
    events = client.responses.create(model="council", input="Why?", stream=True)
    assert [event.type for event in events][-1] == "response.incomplete"


def test_a_response_follows_the_one_before_it(client, server):
    first = client.responses.create(model="council", input="What is 2 + 2?")
    second = client.responses.create(
        model="council", input="And doubled?", previous_response_id=first.id
    )
    opened = server.service.store.events(second.peerage["session"])[0].body
    assert opened["after"] == first.peerage["session"]


def test_a_conversation_and_a_system_prompt_reach_the_seats(client, server):
    reply = client.chat.completions.create(
        model="council",
        messages=[
            {"role": "system", "content": "Answer in rhyme."},
            {"role": "user", "content": [{"type": "text", "text": "My name is Zoe."}]},
            {"role": "assistant", "content": "Hello, Zoe."},
            {"role": "user", "content": "What is my name?"},
        ],
    )
    query = server.service.store.events(reply.peerage["session"])[0].body["query"]
    assert query["text"] == "What is my name?"
    assert query["system"] == "Answer in rhyme."
    assert [turn["content"] for turn in query["earlier"]] == ["My name is Zoe.", "Hello, Zoe."]


def test_a_request_for_fusion_chooses_seats_and_chair(client, server):
    plugin = {"id": "fusion", "analysis_models": ["ann", "cyd"], "model": "bob"}
    reply = client.chat.completions.create(
        model="council", messages=QUESTION, extra_body={"plugins": [plugin]}
    )
    session = server.client.get(f"/api/sessions/{reply.peerage['session']}").json()
    assert {one["model"] for one in session["responses"]} == {"ann", "bob", "cyd"}
    assert session["verdict"]["by"] == "bob"


def test_what_clients_send_beside_the_question_is_passed_over(server):
    """Null for what is not wanted, tools that may be used, fields that nobody here knows."""
    nothing = dict.fromkeys(("stream", "tools", "tool_choice", "stop", "n", "plugins", "peerage"))
    tool = {"type": "function", "function": {"name": "search", "parameters": {}}}
    turns = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
        {"role": "tool", "tool_call_id": "1", "content": "42"},
        {"role": "user", "name": "zoe", "content": [{"type": "text", "text": "And so?"}]},
    ]
    for more in (nothing, {"tools": [tool], "tool_choice": "auto", "chat_id": "x", "top_p": 0.5}):
        body = {"model": "council", "messages": turns, **more}
        assert server.client.post("/v1/chat/completions", json=body).status_code == 200
    for more in ({"text": None}, {"text": {"format": None}}, {"store": True, "include": []}):
        body = {"model": "council", "input": "And so?", **more}
        assert server.client.post("/v1/responses", json=body).status_code == 200


def test_a_stream_without_usage_asked_for_ends_like_any_other(server):
    body = {"model": "council", "messages": QUESTION, "stream": True}
    for more in ({}, {"stream_options": {"include_usage": False}}, {"stream_options": None}):
        text = server.client.post("/v1/chat/completions", json={**body, **more}).text
        pieces = [line.removeprefix("data: ") for line in text.split("\n\n") if line[:1] == "d"]
        assert pieces[-1] == "[DONE]"
        assert json.loads(pieces[-2])["usage"]["total_tokens"] > 0


def test_results_of_tools_reach_the_seats_as_text(client, server):
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
    reply = client.chat.completions.create(
        model="council",
        messages=[
            {"role": "user", "content": "How much is it?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "It is 42."},
        ],
    )
    query = server.service.store.events(reply.peerage["session"])[0].body["query"]
    asked, called, result = query["text"].split("\n\n")
    assert asked == "How much is it?"
    assert "add" in called
    assert '{"a": 2}' in called
    assert "add" in result
    assert result.endswith("It is 42.")


def test_results_of_functions_reach_the_seats_of_a_response_too(client, server):
    response = client.responses.create(
        model="council",
        input=[
            {"role": "user", "content": "First."},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
            {"role": "user", "content": "And so?"},
        ],
    )
    query = server.service.store.events(response.peerage["session"])[0].body["query"]
    assert query["text"] == "And so?"
    assert [(turn["role"], turn["content"]) for turn in query["earlier"]] == [
        ("user", "First."),
        ("assistant", "Called the tool add with {}"),
        ("user", "Result of the tool add:\n42"),
    ]


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"conversation": "conv_1"}, "conversation", "unsupported_parameter"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input", "unsupported_value"),
        (
            {"previous_response_id": "resp_zz"},
            "previous_response_id",
            "previous_response_not_found",
        ),
        ({"model": "gpt-9"}, "model", "model_not_found"),
        ({"tool_choice": "required"}, "tool_choice", "unsupported_value"),
        ({"input": 3}, "input.str", None),
    ],
)
def test_an_error_names_the_field_and_the_reason(server, body, param, code):
    reply = server.client.post("/v1/responses", json={"model": "council", "input": "Why?", **body})
    error = reply.json()["error"]
    assert reply.status_code == (404 if code and code.endswith("found") else 400)
    assert (error["param"], error["code"]) == (param, code)


def test_a_path_that_does_not_exist_is_not_a_missing_model(server):
    error = server.client.get("/v1/embeddings").json()["error"]
    assert error["code"] is None


def test_a_token_over_its_rate_is_told_when_to_come_back(tmp_path):
    seats = simulated("ann", "bob", "cyd")
    rules = AppSettings(rules=AccessRules(needs_token=True))
    with running(f"sqlite:///{tmp_path}/s.db", seats, settings=rules) as started:
        text = started.add_token("ann", "run", rate=1)
        with openai.OpenAI(
            base_url=f"{started.client.base_url}/v1", api_key=text, max_retries=0
        ) as client:
            client.models.list()
            with pytest.raises(openai.RateLimitError, match="a minute") as refused:
                client.models.list()
        assert int(refused.value.response.headers["Retry-After"]) > 0
        assert refused.value.code == "rate_limit_exceeded"


@pytest.mark.parametrize("text", ["x", {"format": "x"}, {"format": {"type": "json_schema"}}])
def test_a_response_in_another_format_is_refused(server, text):
    body = {"model": "council", "input": "Why?", "text": text}
    assert server.client.post("/v1/responses", json=body).status_code == 400


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        ({"model": "gpt-9"}, 404, "there is no model"),
        ({"model": "council/zoe"}, 404, "no seat or panel"),
        ({"messages": [{"role": "assistant", "content": "Hm."}]}, 400, "does not end with"),
        ({"messages": [{"role": "user", "content": " "}]}, 400, "message is empty"),
        ({"messages": []}, 400, "messages"),
        ({"n": 2}, 400, "one answer"),
        ({"response_format": {"type": "yaml"}}, 400, "unknown format"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "needs a url",
        ),
        ({"extra_body": {"peerage": {"verdit": "debate"}}}, 400, "Did you mean 'verdict'?"),
    ],
)
def test_what_the_council_cannot_do_is_refused(client, request_, status, says):
    with pytest.raises(openai.APIStatusError) as refused:
        client.chat.completions.create(**{"model": "council", "messages": QUESTION, **request_})
    assert refused.value.status_code == status
    assert says in refused.value.message


@pytest.mark.slow
def test_a_panel_that_cannot_answer_is_a_bad_gateway(tmp_path):
    seats = [Seat(name, provider="simulated", options={"failure_rate": 1.0}) for name in "abc"]
    with running(f"sqlite:///{tmp_path}/s.db", seats) as started:
        url = f"{started.client.base_url}/v1"
        with openai.OpenAI(base_url=url, api_key="none") as client:
            with pytest.raises(openai.APIStatusError) as failed:
                client.chat.completions.create(model="council", messages=QUESTION)
            assert (
                len(started.client.get("/api/sessions").json()["sessions"]) == 1
            )  # not tried again
            with pytest.raises(openai.APIError, match="too few"):
                list(
                    client.chat.completions.create(model="council", messages=QUESTION, stream=True)
                )
    assert failed.value.status_code == 502


def test_a_budget_that_is_too_small_is_said_and_not_tried_again(tmp_path):
    seats = [
        Seat(name, provider="simulated", price_in=3.0, price_out=15.0) for name in ("a", "b", "c")
    ]
    with running(f"sqlite:///{tmp_path}/s.db", seats) as started:
        url = f"{started.client.base_url}/v1"
        with openai.OpenAI(base_url=url, api_key="none") as client:
            with pytest.raises(openai.APIStatusError, match="budget was used up") as failed:
                client.chat.completions.create(
                    model="council",
                    messages=QUESTION,
                    extra_body={"peerage": {"budget_usd": 0.00001}},
                )
            assert len(started.client.get("/api/sessions").json()["sessions"]) == 1
    assert failed.value.status_code == 402


def test_a_client_that_leaves_ends_the_session_and_loses_nothing(tmp_path):
    seats = simulated("ann", "bob", "cyd", latency_ms=5000.0)
    with running(f"sqlite:///{tmp_path}/s.db", seats) as started:
        body = {"model": "council", "messages": QUESTION, "stream": True}
        with (
            httpx.Client(base_url=started.client.base_url, trust_env=False) as client,
            client.stream("POST", "/v1/chat/completions", json=body) as reply,
        ):
            first = next(reply.iter_lines())
        session = json.loads(first.removeprefix("data: "))["id"].removeprefix("chatcmpl-")
        told = started.client.get(f"/api/sessions/{session}/events").text
    assert '"status":"cancelled"' in told.replace(" ", "")


def sessions_of(started):
    return started.client.get("/api/sessions").json()["sessions"]


def impatience(read_s):
    """Gives up on a reply that is late, and not on a server that is slow to take the call."""
    return httpx.Timeout(60, read=read_s)


def test_a_client_that_gives_up_and_tries_again_pays_for_one_session(tmp_path):
    seats = simulated("ann", "bob", "cyd", latency_ms=700.0)
    with running(f"sqlite:///{tmp_path}/s.db", seats) as started:
        url = f"{started.client.base_url}/v1"
        # A repetition may still get the verdict in time, or not; either is fine.
        with (
            openai.OpenAI(base_url=url, api_key="none", timeout=impatience(0.5)) as client,
            suppress(openai.APITimeoutError),
        ):
            client.chat.completions.create(model="council", messages=QUESTION)
        assert len(sessions_of(started)) == 1


@pytest.mark.slow
def test_three_tries_of_a_second_at_a_council_of_nine_are_one_session(tmp_path):
    seats = simulated("ann", "bob", "cyd", latency_ms=3000.0)
    with running(f"sqlite:///{tmp_path}/s.db", seats) as started:
        url = f"{started.client.base_url}/v1"
        with (
            openai.OpenAI(base_url=url, api_key="none", timeout=impatience(1.0)) as client,
            pytest.raises(openai.APITimeoutError),
        ):
            client.chat.completions.create(model="council", messages=QUESTION)
        (session,) = sessions_of(started)
        told = started.client.get(f"/api/sessions/{session['id']}/events").text
        (session,) = sessions_of(started)
    assert session["status"] in ("done", "cancelled")
    assert '"kind":"finished"' in told.replace(" ", "") or "event: finished" in told


def test_a_session_that_nobody_waits_for_is_cancelled(tmp_path):
    seats = simulated("ann", "bob", "cyd", latency_ms=5000.0)
    with running(f"sqlite:///{tmp_path}/s.db", seats) as started:
        started.app.state.running_calls.grace_s = 0.1

        async def leave_once_it_runs():
            url = f"{started.client.base_url}/v1"
            async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
                asking = client.chat.completions.create(model="council", messages=QUESTION)
                waiting = asyncio.ensure_future(asking)
                await asyncio.to_thread(wait_until, lambda: sessions_of(started))
                waiting.cancel()
                with suppress(asyncio.CancelledError):
                    await waiting

        asyncio.run(leave_once_it_runs())
        (session,) = sessions_of(started)
        told = started.client.get(f"/api/sessions/{session['id']}/events").text
    assert '"status":"cancelled"' in told.replace(" ", "")


def test_two_calls_with_one_key_are_one_session(tmp_path):
    seats = simulated("ann", "bob", "cyd", latency_ms=300.0)
    with running(f"sqlite:///{tmp_path}/s.db", seats) as started:
        url = f"{started.client.base_url}/v1"
        replies = []

        def ask():
            with openai.OpenAI(base_url=url, api_key="none") as client:
                chat = client.chat.completions.create(
                    model="council", messages=QUESTION, extra_headers={"Idempotency-Key": "k"}
                )
                replies.append(chat.choices[0].message.content)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        ask()  # and once more, after its end
        assert len(sessions_of(started)) == 1
        assert len(set(replies)) == 1
        assert len(replies) == 3
        body = {"model": "council", "messages": [{"role": "user", "content": "Another?"}]}
        reply = started.client.post(
            "/v1/chat/completions", json=body, headers={"Idempotency-Key": "k"}
        )
        assert reply.json()["error"]["code"] == "idempotency_key_reused"


def test_two_equal_calls_without_a_key_are_two_sessions(tmp_path):
    seats = simulated("ann", "bob", "cyd", latency_ms=300.0)
    with running(f"sqlite:///{tmp_path}/s.db", seats) as started:

        async def ask():
            url = f"{started.client.base_url}/v1"
            async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
                asked = [
                    client.chat.completions.create(model="council", messages=QUESTION)
                    for _ in range(2)
                ]
                await asyncio.gather(*asked)

        asyncio.run(ask())
        assert len(sessions_of(started)) == 2
