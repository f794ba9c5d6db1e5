"""The real `openai` client asks the council, as chat and as responses, whole and streamed."""

import asyncio
import json
from dataclasses import replace

import httpx
import openai
import pytest

from peerage.providers.simulated import SimulatedProvider
from peerage.types import Seat
from tests.doors.http.conftest import running, simulated

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
    assert [model.id for model in client.models.list()] == ["council"]
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
        client.chat.completions.create(model="council/ann,bob,cyd", messages=QUESTION, stream=True)
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


def test_a_response_has_reasoning_ballots_and_the_verdict(client, server):
    response = client.responses.create(model="council", input="Is Python's sort stable?")
    assert response.status == "completed"
    assert [item.type for item in response.output] == [
        "reasoning",
        "peerage:ballot",
        "peerage:ballot",
        "peerage:ballot",
        "message",
    ]
    assert response.output_text == verdict_of(server, response.peerage["session"])
    assert response.usage.total_tokens > 0


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


@pytest.mark.parametrize("text", ["x", {"format": "x"}, {"format": {"type": "json_schema"}}])
def test_a_response_in_another_format_is_refused(server, text):
    body = {"model": "council", "input": "Why?", "text": text}
    assert server.client.post("/v1/responses", json=body).status_code == 422


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        ({"model": "gpt-9"}, 404, "there is no model"),
        ({"model": "council/zoe"}, 404, "there is no seat"),
        ({"messages": [{"role": "assistant", "content": "Hm."}]}, 422, "does not end with"),
        ({"messages": [{"role": "user", "content": " "}]}, 422, "message is empty"),
        ({"messages": []}, 422, "messages"),
        ({"n": 2}, 422, "one answer"),
        ({"response_format": {"type": "json_object"}}, 422, "is text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            422,
            "is not text",
        ),
        ({"extra_body": {"peerage": {"verdit": "debate"}}}, 422, "Did you mean 'verdict'?"),
    ],
)
def test_what_the_council_cannot_do_is_refused(client, request_, status, says):
    with pytest.raises(openai.APIStatusError) as refused:
        client.chat.completions.create(**{"model": "council", "messages": QUESTION, **request_})
    assert refused.value.status_code == status
    assert says in refused.value.message


@pytest.mark.slow
def test_a_panel_that_cannot_answer_is_a_bad_gateway(tmp_path):
    seats = [Seat(name, provider="simulated", options={"failure_rate": 1.0}) for name in "ab"]
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
