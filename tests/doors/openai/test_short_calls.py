"""Short calls of chat clients, presets, and named panels: what one seat answers is not stored."""

import json

import httpx
import openai
import pytest

from peerage.config import Settings
from peerage.config.settings import PanelTable, SeatTable, ServerSettings
from peerage.doors.http import AppSettings
from peerage.doors.http.gate import AccessRules
from peerage.doors.openai.short_calls import short_call_of
from peerage.panel import Council
from tests.doors.http.conftest import running

CHAT = "### Chat History:\n<chat_history>\nUSER: Why is the sky blue?\n</chat_history>"
TITLE = (
    "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n"
    '### Output:\nJSON format: { "title": "your concise title here" }\n' + CHAT
)
TAGS = "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat.\n" + CHAT
LIBRECHAT = (
    "Provide a concise, 5-word-or-less title for the conversation, using title case conventions."
    " Only return the title itself.\n\nConversation:\nUser: Why?\nAI: Because."
)
PROMPTS = {
    "title": TITLE,
    "tags": TAGS,
    "follow-ups": "### Task:\nSuggest 3-5 relevant follow-up questions as a **user**.\n" + CHAT,
    "search queries": "### Task:\nAnalyze the chat history to determine the necessity of generating"
    " search queries, in the given language.\n" + CHAT,
    "autocompletion": "### Task:\nYou are an autocompletion system. Continue the text in `<text>`"
    " based on the **completion type** in `<type>`.",
    "title of a conversation": LIBRECHAT,
    "title and language": "Analyze this conversation and provide:\n1. The detected language of the"
    " conversation\n2. A concise title in the detected language (5 words or less)\n\nUser: Why?",
    "title of a query": "Here is the query:\nWhy?\n\nCreate a concise, 3-5 word phrase with an"
    " emoji as a title for the previous query.",
}
QUESTIONS = [
    "Suggest a concise title for my essay about the chat history of my family.",
    "### Task:\nWrite a title for this poem.",
    "What does Open WebUI's prompt 'Generate a concise, 3-5 word title' do with <chat_history>?",
    "Analyze this conversation and provide a summary.",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    store = f"sqlite:///{tmp_path_factory.mktemp('short')}/s.db"
    with running(store, council(store)) as started:
        yield started


def council(store, **options):
    names = ("ann", "bob", "cyd", "dan")
    seats = tuple(SeatTable(name=name, provider="simulated", **options) for name in names)
    settings = Settings(
        seat=seats,
        panel={"trio": PanelTable(seats=("bob", "cyd", "dan"))},
        server=ServerSettings(quick_seat="cyd"),
    )
    return Council(settings, store)


@pytest.fixture
def client(server):
    url = f"{server.client.base_url}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


def n_sessions(server):
    return len(server.client.get("/api/sessions").json()["sessions"])


def ask(client, text, model="council", **more):
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.create(model=model, messages=messages, **more)


@pytest.mark.parametrize("name", PROMPTS)
def test_the_prompts_of_chat_clients_are_recognised(name):
    assert short_call_of([("user", PROMPTS[name])]) == name


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_about_titles_is_a_question(text):
    assert short_call_of([("user", text)]) == ""


@pytest.mark.parametrize("prompt", [TITLE, TAGS, LIBRECHAT])
def test_a_short_call_is_answered_by_the_seat_for_it_and_not_stored(client, server, prompt):
    before = n_sessions(server)
    reply = ask(client, prompt, max_tokens=50, temperature=0.1)
    assert reply.choices[0].message.content
    assert (reply.peerage["seat"], reply.peerage["session"]) == ("cyd", None)
    assert reply.usage.total_tokens > 0
    assert reply.model == "council"
    assert reply.peerage["ignored"] == ["temperature"]
    assert n_sessions(server) == before


def test_a_quick_reply_can_be_streamed_and_has_no_progress(client, server):
    chunks = list(ask(client, "Why?", "council/quick", stream=True))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert "".join(delta.content or "" for delta in deltas)
    assert not any(hasattr(delta, "reasoning_content") for delta in deltas)
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].peerage["quick"]


def test_a_quick_reply_can_be_a_response_that_is_not_stored(client):
    response = client.responses.create(model="council/quick", input="Why?")
    assert response.output_text
    with client.responses.stream(model="council/quick", input="Why?") as stream:
        stream.until_done()
        assert stream.get_final_response().output_text
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="council/quick", input="Why?", background=True)
    assert refused.value.param == "background"


def test_a_quick_reply_can_be_json(client):
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
    }
    format_ = {"type": "json_schema", "json_schema": {"name": "t", "schema": schema}}
    reply = ask(client, TITLE, response_format=format_)
    assert json.loads(reply.choices[0].message.content)["title"]
    tool = {"type": "function", "function": {"name": "name_it", "parameters": schema}}
    reply = ask(client, PROMPTS["title and language"], tools=[tool], tool_choice="required")
    [call] = reply.choices[0].message.tool_calls
    assert json.loads(call.function.arguments)["title"]


def test_presets_and_named_panels_are_models(client, server):
    ids = [model.id for model in client.models.list()]
    assert ids == ["council", "council/debate", "council/quick", "council/trio"]
    assert client.models.retrieve("council/trio").id == "council/trio"
    debate = ask(client, "Why?", "council/debate")
    assert debate.peerage["verdict"] == "debate"
    trio = ask(client, "Why?", "council/trio")
    assert {one["model"] for one in trio.peerage["ranking"]} == {"bob", "cyd", "dan"}
    some = ask(client, "Why?", "council/ann,bob,dan")  # without the seat for short calls
    assert {one["model"] for one in some.peerage["ranking"]} == {"ann", "bob", "dan"}
    with pytest.raises(openai.NotFoundError, match="no seat or panel") as refused:
        ask(client, "Why?", "council/quartet")
    assert refused.value.code == "model_not_found"


def test_a_stored_panel_is_a_model_if_its_seats_are_in_the_panel_in_use(client, server):
    seats = [{"name": name, "provider": "simulated"} for name in ("ann", "bob", "cyd")]
    for name, more in (("stored", []), ("other", [{"name": "zoe", "provider": "simulated"}])):
        reply = server.client.put(f"/api/panels/{name}", json={"seats": [*seats, *more]})
        assert reply.status_code == 200, reply.text
    ids = [model.id for model in client.models.list()]
    assert "council/stored" in ids
    assert "council/other" not in ids
    ranking = ask(client, "Why?", "council/stored").peerage["ranking"]
    assert {one["model"] for one in ranking} == {"ann", "bob", "cyd"}


def test_a_request_with_options_of_a_session_is_a_session(client):
    reply = ask(client, TITLE, extra_body={"peerage": {"category": "titles"}})
    assert reply.peerage["session"]


def test_quick_calls_are_counted(client, server):
    ask(client, TITLE)
    assert 'peerage_calls_total{seat="cyd",stage="quick"}' in server.client.get("/metrics").text


def test_a_reply_lists_the_settings_that_had_no_effect(client):
    reply = ask(client, "Why?", temperature=0.2, max_tokens=5, top_p=1)
    assert reply.peerage["ignored"] == ["max_tokens", "temperature", "top_p"]
    assert ask(client, "Why?").peerage["ignored"] == []


def test_a_quick_call_is_paid_by_its_token_and_the_rest_is_given_back(tmp_path):
    store = f"sqlite:///{tmp_path}/s.db"
    rules = AppSettings(rules=AccessRules(needs_token=True))
    panel = council(store, price_in=3.0, price_out=15.0, max_tokens=1000)
    with running(store, panel, settings=rules) as started:
        text = started.add_token("ann", "run", budget_usd=0.05)
        url = f"{started.client.base_url}/v1"
        with openai.OpenAI(base_url=url, api_key=text, max_retries=0) as client:
            cost = ask(client, TITLE).usage.cost
            [token] = started.service.store.tokens()
            assert token.spent_usd == pytest.approx(cost)
            assert 0 < cost < 0.01
            with pytest.raises(openai.APIStatusError) as refused:
                ask(client, "x" * 100_000, "council/quick")
            assert refused.value.status_code == 402


def test_a_client_that_leaves_a_quick_call_ends_it(tmp_path):
    store = f"sqlite:///{tmp_path}/s.db"
    slow = council(store, options={"latency_ms": 600_000.0})
    with running(store, slow) as started:
        body = {"model": "council/quick", "messages": [{"role": "user", "content": "Why?"}]}
        for stream in (False, True):
            with (
                httpx.Client(base_url=started.client.base_url, trust_env=False) as client,
                pytest.raises(httpx.ReadTimeout),
            ):
                client.post(
                    "/v1/chat/completions",
                    json={**body, "stream": stream},
                    timeout=httpx.Timeout(60, read=0.5),
                )
    # The server stops without waiting ten minutes for the seat.
