"""Programs of others use the server unmodified: each asks the council in its own environment.

A program of `programs` calls the council in each way that its client has, and prints what came
back as JSON. An error of the server has to arrive as the exception that the client documents.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CLIENTS
from tests.doors.http.conftest import running, simulated

pytestmark = [pytest.mark.slow, pytest.mark.needs("clients")]

PROGRAMS = Path(__file__).parent / "programs"
MAX_S = 600  # a loaded machine is slow, not wrong
CONFIG = "".join(f'[[seat]]\nname = "{name}"\nprovider = "simulated"\n' for name in "abc")
TOOLS = ["ask", "audit", "board", "cancel", "gate", "rejudge", "rings", "score"]
TOOLS += ["session", "verdict"]
NOT_FOUND = "there is no model 'gpt-9'"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    store = f"sqlite:///{tmp_path_factory.mktemp('clients')}/s.db"
    with running(store, simulated("ann", "bob", "cyd")) as started:
        yield started


def run(program, *arguments, environment="python"):
    """Run a program of a client; return what it reports."""
    place = CLIENTS / environment / "bin"
    path = PROGRAMS / program
    command = [place / "python", path]
    if path.suffix == ".mjs":  # Node looks for packages beside the program
        copy = CLIENTS / "javascript" / path.name
        copy.write_bytes(path.read_bytes())
        command = [place / "node", copy]
    hidden = ("API_KEY", "OPENAI_", "OTEL_", "PEERAGE_", "VIRTUAL_ENV")
    environ = {k: v for k, v in os.environ.items() if not any(part in k for part in hidden)}
    environ |= {"NO_PROXY": "127.0.0.1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        env=environ,
        timeout=MAX_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def verdicts(server):
    """The texts of all verdicts of the server."""
    listed = server.client.get("/api/sessions", params={"limit": 500}).json()["sessions"]
    sessions = [server.client.get(f"/api/sessions/{one['id']}").json() for one in listed]
    return {one["verdict"]["text"] for one in sessions if one["verdict"]}


@pytest.mark.parametrize(
    ("program", "environment"),
    [
        ("openai_python.py", "python"),
        ("llm_client.py", "python"),
        ("litellm_client.py", "python"),
        ("langchain_client.py", "python"),
        ("pydantic_ai_client.py", "python"),
        ("instructor_client.py", "instructor"),
        ("openai_agents.py", "python"),
        ("inspect_client.py", "python"),
        ("openai_javascript.mjs", "python"),
        ("ai_sdk.mjs", "python"),
    ],
)
def test_a_client_of_openai_gets_text_streams_objects_and_its_own_errors(
    server, program, environment
):
    reported = run(program, f"{server.client.base_url}/v1", environment=environment)
    known = verdicts(server)
    for way in {"chat", "streamed", "response"} & reported.keys():
        # instructor asks for text as an object with one field
        assert reported[way] in known or program == "instructor_client.py", way
    for way in {"structured", "called"} & reported.keys():
        assert isinstance(reported[way]["answer"], str), way
        assert isinstance(reported[way]["confidence"], int | float), way
    assert NOT_FOUND in reported["error"]
    assert reported.get("status", "success") == "success"


@pytest.mark.parametrize("program", ["mcp_python.py", "mcp_typescript.mjs"])
def test_an_mcp_client_uses_the_tools_over_http_and_over_a_process(server, program, tmp_path):
    (tmp_path / "peerage.toml").write_text(f'store = "sqlite:///{tmp_path}/s.db"\n{CONFIG}')
    command = [sys.executable, "-m", "peerage", "mcp", "--config", str(tmp_path / "peerage.toml")]
    reported = run(program, f"{server.client.base_url}/mcp", *command)
    assert reported.keys() == {"http", "stdio"}
    for one in reported.values():
        assert one["tools"] == TOOLS
        assert one["answer"]["status"] == "done"
        assert one["answer"]["verdict"]
        assert one.get("n_progress", 1) > 0
        assert one["error"] == "question must not be empty."
