"""The SDK's own client lists and calls every tool: in process, over stdio and over HTTP."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version

import pytest
from mcp import Client, MCPError, StdioServerParameters

from peerage.doors.http import AppSettings
from peerage.doors.http.gate import AccessRules
from peerage.doors.mcp import create_server
from peerage.doors.running_calls import RunningCalls
from peerage.imports import take
from peerage.panel import Council
from peerage.service import Service
from peerage.stores import open_store
from peerage.tokens import make_token
from tests.doors.http.conftest import running, simulated
from tests.doors.pseudo_terminal import watch
from tests.shared.waiting import wait_until

TOOLS = [
    *("ask", "audit", "board", "cancel", "gate", "rejudge", "rings", "score", "session"),
    "verdict",
]
DRAFT = {"name": "mine", "text": "It is."}
BALLOTS = {
    "responses": [{"model": "m1", "response": "x"}, {"model": "m2", "response": "y"}],
    "label_to_model": {"Response A": "m1", "Response B": "m2"},
    "rankings": [{"model": "m3", "parsed_ranking": {"ranking": ["Response B", "Response A"]}}],
}
CONFIG = """
store = "sqlite:///s.db"
[[seat]]
name = "ann"
provider = "simulated"
[[seat]]
name = "bob"
provider = "simulated"
[[seat]]
name = "cyd"
provider = "simulated"
"""


@asynccontextmanager
async def in_process(tmp_path, grace_s=5.0, **options):
    council = Council(store=f"sqlite:///{tmp_path}/s.db", seats=simulated(*"abc", **options))
    service = Service(council)
    calls = RunningCalls(service, grace_s)
    try:
        async with Client(create_server(service, calls)) as client:
            client.service = service
            yield client
    finally:
        await calls.close()
        await service.close(grace_s=0)


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def every_tool(client):
    """Call each tool once, the way an agent would."""
    listed = await client.list_tools()
    assert sorted(tool.name for tool in listed.tools) == TOOLS
    assert all(tool.output_schema for tool in listed.tools)
    hints = {tool.name: tool.annotations.read_only_hint for tool in listed.tools}
    assert [name for name, reads in sorted(hints.items()) if not reads] == [
        "ask",
        "cancel",
        "rejudge",
        "verdict",
    ]
    asked = await call(client, "ask", question="Is a tomato a fruit?")
    assert asked["status"] == "done"
    assert asked["verdict"]
    again = await call(client, "session", id=asked["session_id"])
    assert again == asked
    decided = await call(client, "verdict", claim="2 + 2 = 4")
    assert decided["approved"] in (True, False, None)
    scored = await call(client, "score", ballots=BALLOTS)
    assert [one["model"] for one in scored["scores"]] == ["m2", "m1"]
    board = await call(client, "board", board="models", options={"since": "all"})
    assert len(board["rows"]) == 3
    assert "findings" in await call(client, "audit")
    assert "findings" in await call(client, "audit", session_id=asked["session_id"])
    sides = {"base": board["rows"][0]["model"], "candidate": board["rows"][1]["model"]}
    gate = await call(client, "gate", options=sides)
    assert (gate["verdict"], gate["exit_code"]) == ("undecided", 3)
    assert gate["sentence"].startswith("Undecided")
    no_season = await client.call_tool("rejudge", {"options": {"season": "nosuch"}})
    assert no_season.is_error
    assert (await call(client, "rings"))["rings"] == []
    resources = await client.list_resources()
    assert [str(one.uri) for one in resources.resources] == ["peerage://sessions"]
    read = await client.read_resource(f"peerage://sessions/{asked['session_id']}")
    assert json.loads(read.contents[0].text)["id"] == asked["session_id"]
    read = await client.read_resource("peerage://boards/models")
    assert json.loads(read.contents[0].text)["board"] == "models"


def test_every_tool_answers_in_process(tmp_path):
    async def run():
        async with in_process(tmp_path) as client:
            await every_tool(client)

    asyncio.run(run())


def nodes(schema, path=""):
    """Yield every schema in a schema, with its place."""
    yield path, schema
    for name, one in schema.get("properties", {}).items():
        yield from nodes(one, f"{path}.{name}")
    for i, one in enumerate(schema.get("anyOf", ())):
        yield from nodes(one, f"{path}|{i}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def test_schemas_of_arguments_are_plain_and_described(tmp_path):
    """Strict clients refuse references, arrays without items, null and schemas without a type."""

    async def run():
        async with in_process(tmp_path) as client:
            return (await client.list_tools()).tools

    for tool in asyncio.run(run()):
        text = json.dumps(tool.input_schema)
        assert "$ref" not in text
        assert '"null"' not in text
        assert tool.input_schema["additionalProperties"] is False
        for path, schema in nodes(tool.input_schema, tool.name):
            assert "type" in schema or "anyOf" in schema, path
            assert schema.get("type") != "array" or "items" in schema, path
            for name, argument in schema.get("properties", {}).items():
                assert argument.get("description"), f"{path}.{name}"


def test_an_agent_learns_the_seats_the_cost_and_the_time(tmp_path):
    async def run(**prices):
        seats = [replace(seat, **prices) for seat in simulated(*"abc")]
        service = Service(Council(store=f"sqlite:///{tmp_path}/s.db", seats=seats))
        async with Client(create_server(service)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        await service.close(grace_s=0)
        return tools["ask"]

    ask = asyncio.run(run())
    assert "Seats of the panel: a, b, c." in ask.description
    assert "about 7 calls to models, which are free." in ask.description
    assert "few minutes" in ask.description
    assert ask.input_schema["properties"]["seats"]["items"]["enum"] == ["a", "b", "c"]
    priced = asyncio.run(run(model="x", price_in=1.0, price_out=2.0))
    assert re.search(r"costs about \$0\.\d+, at most \$0\.\d+\.", priced.description)


def test_context_drafts_kind_and_budget_reach_the_session(tmp_path):
    drafts = [{"name": "mine", "text": "It is."}, {"name": "yours", "text": "It is not."}]

    async def run():
        async with in_process(tmp_path) as client:
            judged = await call(
                client,
                "ask",
                question="Is it?",
                context="The file says so.",
                answers=drafts,
                verdict="tie_breaker",
                budget_usd=1.0,
                seats=["a", "b"],
            )
            after = judged["session_id"]
            followed = await call(client, "ask", question="And why?", after=after)
            decided = await call(client, "verdict", claim="It is.", context="The file says so.")
            events = client.service.store.events
            ids = (after, followed["session_id"], decided["session_id"])
            return judged, [events(id_)[0].body for id_ in ids]

    judged, (opened, followed, decided) = asyncio.run(run())
    assert {one["model"] for one in judged["ranking"]} == {"mine", "yours"}
    assert judged["verdict"] in ("It is.", "It is not.")
    assert opened["query"]["earlier"] == [{"role": "user", "content": "The file says so."}]
    assert opened["budget_usd"] == 1.0
    assert [seat["name"] for seat in opened["seats"]] == ["a", "b"]
    assert followed["after"] == judged["session_id"]
    assert decided["query"]["earlier"] == opened["query"]["earlier"]


async def is_left(client, n=1):
    """Wait until so many sessions run here."""
    await asyncio.to_thread(wait_until, lambda: client.service.n_running == n)


async def ask_and_leave(client, question="Why?"):
    """Begin a call of `ask` and cancel it once its session runs; return the session's id."""
    asking = asyncio.create_task(client.call_tool("ask", {"question": question}))
    await is_left(client)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    (session,) = client.service.store.sessions()
    return session.id


def test_a_cancelled_call_stops_its_session_after_the_grace(tmp_path):
    async def run():
        async with in_process(tmp_path, grace_s=0.1, latency_ms=60_000) as client:
            id_ = await ask_and_leave(client)
            await is_left(client, 0)
            return await call(client, "session", id=id_)

    assert asyncio.run(run())["status"] == "cancelled"


def test_a_repeated_call_takes_up_the_session_that_was_left(tmp_path):
    async def run():
        async with in_process(tmp_path, latency_ms=300) as client:
            id_ = await ask_and_leave(client)
            answer = await call(client, "ask", question="Why?")
            assert answer["session_id"] == id_
            assert len(client.service.store.sessions()) == 1
            return answer

    assert asyncio.run(run())["status"] == "done"


def test_a_cancelled_wait_does_not_stop_a_session_but_the_tool_does(tmp_path):
    async def run():
        async with in_process(tmp_path, grace_s=0.0, latency_ms=60_000) as client:
            begun = await call(client, "ask", question="Why?", wait_s=0)
            id_, waits = begun["session_id"], asyncio.Event()

            async def on_progress(progress, total, message):
                waits.set()

            reading = asyncio.create_task(
                client.call_tool(
                    "session", {"id": id_, "wait_s": 60}, progress_callback=on_progress
                )
            )
            await asyncio.wait_for(waits.wait(), 60)
            reading.cancel()
            await asyncio.wait([reading])
            for _ in range(5):  # the server hears of the end of the wait before it answers these
                left = await call(client, "session", id=id_, wait_s=0)
                assert left["status"] == "deliberating"
            assert client.service.n_running == 1
            stopped = await call(client, "cancel", id=id_)
            again = await call(client, "cancel", id=id_)
            return stopped, again

    stopped, again = asyncio.run(run())
    assert stopped["status"] == again["status"] == "cancelled"


def test_a_session_that_no_process_can_continue_is_interrupted(tmp_path):
    async def leave():
        async with in_process(tmp_path, latency_ms=60_000) as client:
            begun = await call(client, "ask", question="Why?", wait_s=0)
            await is_left(client)
            return begun["session_id"]

    async def come_back(id_):
        async with in_process(tmp_path) as client:
            return await call(client, "session", id=id_), await call(client, "cancel", id=id_)

    id_ = asyncio.run(leave())
    for answer in asyncio.run(come_back(id_)):
        assert (answer["status"], answer["session_id"]) == ("interrupted", id_)
        assert "stopped" in answer["note"]


@pytest.mark.slow
def test_a_restarted_server_takes_up_its_unfinished_sessions(tmp_path):
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "peerage", "mcp"],
        cwd=str(tmp_path),
        env=dict(os.environ),
    )
    plain = 'provider = "simulated"'
    slow = CONFIG.replace(plain, f"{plain}\noptions = {{latency_ms = 3000}}")

    async def begin():
        async with Client(command) as client:
            return await call(client, "ask", question="Why?", wait_s=0)

    async def read(id_):
        async with Client(command) as client:
            return await call(client, "session", id=id_, wait_s=300)

    (tmp_path / "peerage.toml").write_text(slow)
    begun = asyncio.run(begin())
    assert asyncio.run(read(begun["session_id"]))["status"] == "done"


def test_a_board_counts_30_days_unless_told_otherwise_and_says_what_that_leaves_out(tmp_path):
    """As at every other door."""
    rows = ["session_id,reviewer,candidate,rank,at"]
    for session, day in (("new", "2026-03-31"), ("old", "2026-01-01")):
        rows += [f"{session},r,{model},{rank},{day}" for rank, model in enumerate("xyz", 1)]
    (tmp_path / "reviews.csv").write_text("\n".join(rows))
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    take(store, tmp_path / "reviews.csv", "reviews", lambda: 1.8e9)
    asyncio.run(store.close())

    async def run():
        async with in_process(tmp_path) as client:
            usual = await call(client, "board", board="models")
            everything = await call(client, "board", board="models", options={"since": "all"})
            resource = await client.read_resource("peerage://boards/models")
            return usual, json.loads(resource.contents[0].text), everything

    *usual, everything = asyncio.run(run())
    for board in usual:
        assert (board["parameters"]["since"], board["reviews_left_out"]) == ("30d", 3)
    assert everything["reviews_left_out"] == 0


@pytest.mark.slow
def test_every_tool_answers_over_stdio(tmp_path):
    (tmp_path / "peerage.toml").write_text(CONFIG)
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "peerage", "mcp"],
        cwd=str(tmp_path),
        env=dict(os.environ),
    )

    async def run():
        async with Client(command) as client:
            await every_tool(client)

    asyncio.run(run())


def test_every_tool_answers_over_http(tmp_path):
    async def run(url):
        async with Client(f"{url}/mcp") as client:
            await every_tool(client)

    with running(f"sqlite:///{tmp_path}/s.db", simulated("ann", "bob", "cyd")) as started:
        asyncio.run(run(str(started.client.base_url)))


def test_a_long_session_is_answered_in_time_and_goes_on(tmp_path):
    async def run():
        async with in_process(tmp_path, latency_ms=400) as client:
            told = []

            async def on_progress(progress, total, message):
                told.append(message)

            result = await client.call_tool(
                "ask", {"question": "Why?", "wait_s": 0.2}, progress_callback=on_progress
            )
            early = result.structured_content
            assert early["status"] == "deliberating"
            assert early["progress"]
            late = await call(client, "session", id=early["session_id"], wait_s=60)
            assert late["status"] == "done"
            assert all(len(message) < 200 for message in told)

    asyncio.run(run())


def test_errors_are_sentences(tmp_path):
    async def run():
        async with in_process(tmp_path) as client:
            for tool, arguments, says in (
                ("ask", {"question": " "}, "empty"),
                ("ask", {"question": ""}, "question must not be empty."),
                ("verdict", {"claim": ""}, "claim must not be empty."),
                ("ask", {"question": "Why?", "seats": ["zoe"]}, "no seat"),
                ("session", {"id": "nope"}, "no session"),
                ("board", {"board": "items", "options": {"matrix": True}}, "matrix"),
                ("score", {"ballots": {}}, "rankings"),
                ("score", {"ballots": 3}, "a session must be an object"),
                ("score", {}, "ballots is missing."),
                ("score", {"ballots": BALLOTS, "rule": "elo"}, "no argument 'rule'"),
                ("ask", {"question": "Why?", "seat": ["ann"]}, "Did you mean 'seats'?"),
                ("score", {"ballots": BALLOTS, "options": {"rule": "bord"}}, "borda"),
                ("score", {"ballots": BALLOTS, "options": {"own": 1}}, "no option 'own'"),
                ("board", {"board": "model"}, "board must be 'models'"),
                ("board", {"options": {"sinse": "1d"}}, "Did you mean 'since'?"),
                ("board", {"options": {"rule": "bord"}}, "borda"),
                ("board", {"options": 3}, "options must be"),
                ("ask", {"question": "Why?", "wait_s": "long"}, "wait_s cannot be 'long'."),
                ("ask", {"question": "Why?", "wait_s": 601}, "wait_s must be at most 600"),
                ("ask", {"question": "Why?", "verdict": "maybe"}, "verdict must be 'synthesis'"),
                ("ask", {"question": "Why?", "budget_usd": -1}, "budget_usd must be at least 0"),
                ("ask", {"question": "Why?", "after": "nope"}, "no session"),
                ("ask", {"question": "Why?", "seats": "ann"}, "seats must be an array"),
                ("ask", {"question": "Why?", "answers": [{"name": "x"}]}, "'x' has no text"),
                ("ask", {"question": "Why?", "answers": [DRAFT, DRAFT]}, "the same name"),
                ("cancel", {"id": "nope"}, "no session"),
                ("board", {"options": {"interval": "two-way", "rule": "elo"}}, "two-way"),
            ):
                result = await client.call_tool(tool, arguments)
                assert result.is_error
                assert "pydantic" not in result.content[0].text
                assert "Error executing" not in result.content[0].text
                assert "\n" not in result.content[0].text
                assert not re.search(r"--\w|`?peerage [a-z]", result.content[0].text)
                assert says in result.content[0].text, result.content[0].text
            with pytest.raises(MCPError):
                await client.read_resource("peerage://boards/people")

    asyncio.run(run())


@pytest.mark.slow
def test_the_first_interruption_ends_it_quietly_though_stdin_stays_open(tmp_path):
    (tmp_path / "peerage.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "peerage", "mcp"]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            process.stdin.write(json.dumps(hello) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == 1
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            assert process.stderr.read() == ""
        finally:
            process.kill()


@pytest.mark.slow
def test_on_a_terminal_it_says_what_it_waits_for_until_ctrl_c(tmp_path):
    (tmp_path / "peerage.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "peerage", "mcp"]
    seen = watch(command, tmp_path, os.environ, interrupt_when=lambda text: "waiting" in text)
    assert seen.code == 130
    assert "waiting for an MCP client" in seen.text
    assert "Traceback" not in seen.text


def test_score_takes_ballots_in_every_shape_of_a_file(tmp_path):
    rows = [{"session": s, "reviewer": "ann", "candidate": "b", "rank": 1} for s in ("s1", "s2")]

    async def run():
        async with in_process(tmp_path) as client:
            assert client.server_info.version == version("peerage")
            for ballots in ([["a", "b"], ["a", "b"]], {"ann": ["a", "b"]}, '[["a", "b"]]'):
                scored = await call(client, "score", ballots=ballots)
                assert [one["model"] for one in scored["scores"]] == ["a", "b"]
            for ballots in ([BALLOTS, BALLOTS], rows):
                scored = await call(client, "score", ballots=ballots)
                assert len(scored["sessions"]) == 2

    asyncio.run(run())


def test_a_session_is_paid_for_by_the_token_of_the_call_and_not_of_the_connection(tmp_path):
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    asking = {"name": "ask", "arguments": {"question": "Why?"}}
    settings = AppSettings(AccessRules(needs_token=True))
    store = f"sqlite:///{tmp_path}/s.db"
    with running(store, simulated(*"abc"), settings=settings) as server:
        made = [make_token(name, ["run"], 1.0) for name in ("ann", "bob")]
        for _, token in made:
            server.service.store.add_token(token)
        (first, _), (second, payer) = made

        def post(text, **message):
            headers = {"Accept": "application/json, text/event-stream", **connection}
            headers["Authorization"] = f"Bearer {text}"
            body = {"jsonrpc": "2.0", **message}
            return server.client.post("/mcp", json=body, headers=headers)

        connection = {}
        opened = post(first, id=1, method="initialize", params=hello)
        connection = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        post(first, method="notifications/initialized")
        assert post(second, id=2, method="tools/call", params=asking).status_code == 200
        (session,) = server.service.store.sessions()
        assert server.service.store.events(session.id)[0].body["by"] == payer.id
