"""Clients that ask for JSON get JSON that follows their schema, or a refusal that says why."""

import json
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

from tests.doors.http.conftest import running, simulated

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
QUESTION = [{"role": "user", "content": "Is Python's sort stable?"}]


class Step(BaseModel):
    explanation: str
    number: int


class Judgement(BaseModel):
    """A judgement."""

    answer: Literal["yes", "no"]
    steps: list[Step]
    note: str | None


TOOL = {
    "type": "function",
    "function": {
        "name": "judge",
        "description": "Judge it.",
        "parameters": Judgement.model_json_schema(),
    },
}
IMPOSSIBLE = {  # which is more than a look at the schema can tell
    "type": "json_schema",
    "json_schema": {
        "name": "x",
        "schema": {"type": "object", "not": {"properties": {"a": {"type": "string"}}}},
    },
}
TREE = {
    "type": "object",
    "properties": {
        "value": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#"}},
    },
    "required": ["value", "children"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    store = f"sqlite:///{tmp_path_factory.mktemp('structured')}/s.db"
    with running(store, simulated("ann", "bob", "cyd")) as started:
        yield started


@pytest.fixture
def client(server):
    url = f"{server.client.base_url}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


def test_a_parsed_completion_is_an_instance_of_the_model(client):
    reply = client.chat.completions.parse(
        model="council", messages=QUESTION, response_format=Judgement
    )
    assert isinstance(reply.choices[0].message.parsed, Judgement)


def test_a_parsed_response_is_an_instance_of_the_model(client):
    reply = client.responses.parse(model="council", input="Why?", text_format=Judgement)
    assert isinstance(reply.output_parsed, Judgement)


def test_a_parsed_completion_can_be_streamed(client):
    with client.chat.completions.stream(
        model="council", messages=QUESTION, response_format=Judgement
    ) as stream:
        list(stream)
        parsed = stream.get_final_completion().choices[0].message.parsed
    assert isinstance(parsed, Judgement)


def test_any_json_object_is_an_object(client):
    reply = client.chat.completions.create(
        model="council", messages=QUESTION, response_format={"type": "json_object"}
    )
    assert isinstance(json.loads(reply.choices[0].message.content), dict)


def test_a_schema_may_refer_to_itself_and_be_strict(client):
    format_ = {"name": "tree", "schema": TREE, "strict": True}
    reply = client.chat.completions.create(
        model="council",
        messages=QUESTION,
        response_format={"type": "json_schema", "json_schema": format_},
    )
    tree = json.loads(reply.choices[0].message.content)
    assert tree["value"]
    assert isinstance(tree["children"], list)


ALLOWED = {
    "mode": "required",
    "tools": [{"type": "function", "function": {"name": "judge"}}],
}


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "function": {"name": "judge"}},
        {"type": "allowed_tools", "allowed_tools": ALLOWED},
    ],
)
def test_a_forced_function_is_called_with_arguments_of_its_schema(client, choice):
    reply = client.chat.completions.create(
        model="council", messages=QUESTION, tools=[TOOL], tool_choice=choice
    )
    [choice] = reply.choices
    [call] = choice.message.tool_calls
    assert (call.function.name, choice.finish_reason) == ("judge", "tool_calls")
    assert choice.message.content is None
    Judgement.model_validate_json(call.function.arguments)


def test_a_forced_function_is_called_in_a_stream(client):
    chunks = client.chat.completions.create(
        model="council", messages=QUESTION, tools=[TOOL], tool_choice="required", stream=True
    )
    calls = [c for chunk in chunks for c in (chunk.choices[0].delta.tool_calls or [])]
    assert calls[0].function.name == "judge"
    Judgement.model_validate_json("".join(call.function.arguments for call in calls))


@pytest.mark.parametrize("stream", [False, True])
def test_a_forced_function_is_an_item_of_a_response(client, stream):
    tool = {"type": "function", **TOOL["function"]}
    reply = client.responses.create(
        model="council",
        input="Why?",
        tools=[tool],
        tool_choice={"type": "function", "name": "judge"},
        stream=stream,
    )
    if stream:
        reply = list(reply)[-1].response
    [item] = [item for item in reply.output if item.type == "function_call"]
    assert item.name == "judge"
    Judgement.model_validate_json(item.arguments)
    assert client.responses.retrieve(reply.id).output[-1].arguments == item.arguments


def test_a_schema_that_no_answer_can_meet_is_refused_by_the_reply(client):
    reply = client.chat.completions.create(
        model="council", messages=QUESTION, response_format=IMPOSSIBLE
    )
    message = reply.choices[0].message
    assert message.content is None
    assert "follow" in message.refusal
    text = {"format": {"type": "json_schema", "name": "x", **IMPOSSIBLE["json_schema"]}}
    response = client.responses.create(model="council", input="Why?", text=text)
    assert response.output[-1].content[0].type == "refusal"


REFERS_AWAY = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema"}}}
NESTED = {"type": "object"}
for _ in range(100):
    NESTED = {"type": "array", "items": NESTED}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nonsense"}, "not a JSON schema"),
        ([], "must be an object"),
        (REFERS_AWAY, "outside the schema"),
        (NESTED, "levels deep"),
        ({"type": "object", "description": "x" * 1_000_000}, "characters"),
        ({"$ref": "#"}, "no JSON value can follow"),
        ({"type": "string", "enum": []}, "no JSON value can follow"),
        ({"$ref": "#/$defs/x"}, "does not contain"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_before_anything_is_paid(
    client, server, schema, words
):
    n_before = len(server.client.get("/api/sessions").json()["sessions"])
    format_ = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with pytest.raises(openai.BadRequestError, match=words) as raised:
        client.chat.completions.create(model="council", messages=QUESTION, response_format=format_)
    assert raised.value.param == "response_format"
    assert len(server.client.get("/api/sessions").json()["sessions"]) == n_before


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"tool_choice": 7}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"tools": [{"type": "function", "function": {"name": "a" * 200}}]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "a", "parameters": []}}]}, "tools"),
        ({"function_call": {"name": "judge"}}, "function_call"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"peerage": {"rule": "nonsense"}}, "peerage.rule"),
        ({"peerage": {"rubric": "nonsense"}}, "peerage.rubric"),
        ({"peerage": {"nonsense": 1}}, "peerage.nonsense"),
    ],
)
def test_a_request_that_cannot_be_met_names_its_field(server, changes, param):
    body = {"model": "council", "messages": QUESTION, "tools": [TOOL], "tool_choice": "required"}
    if "peerage" in changes:
        body = {"model": "council", "messages": QUESTION}
    reply = server.client.post("/v1/chat/completions", json={**body, **changes})
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (400, param)
    assert error["code"]


def test_several_functions_of_which_none_is_forced_are_refused(client):
    other = {"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(
            model="council", messages=QUESTION, tools=[TOOL, other], tool_choice="required"
        )
    assert raised.value.param == "tool_choice"
