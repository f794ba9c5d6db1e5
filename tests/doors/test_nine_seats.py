"""Nine seats of three kinds: six decision models, a command and two that write, at every door."""

import json
import sys
from pathlib import Path

import openai
import pytest

from peerage import Seat
from tests.doors.http.conftest import running
from tests.shared.batch_seasons import serving

ROOT = Path(__file__).parents[2]
COMMAND = (
    "import sys; sys.path.insert(0, {root!r}); from tests.shared.mock_text import compose; "
    "ask = {{'role': 'user', 'content': sys.stdin.read().strip()}}; "
    "print(compose('0', {{'model': 'cmd', 'messages': [ask]}}, 40)[1])"
)
DIALECTS = ("openai", "systemone")


@pytest.fixture(scope="module")
def seats():
    with serving() as mock:
        free = {"price_in": 0.1, "price_out": 0.0}
        deciding = [
            Seat(
                f"d{i}",
                "decisions",
                f"d{i}",
                base_url=mock.base_url,
                dialect=DIALECTS[i % 2],
                roles=("review",),
                **free,
            )
            for i in range(6)
        ]
        command = (sys.executable, "-c", COMMAND.format(root=str(ROOT)))
        agent = Seat("agent", "command", command=command, roles=("review",), price_call=0.0)
        writers = [Seat(f"w{i}", "openai", f"w{i}", base_url=mock.base_url, **free) for i in (1, 2)]
        yield [*deciding, agent, *writers]


def toml_of(seats):
    def table(seat):
        lines = [f'name = "{seat.name}"', f'provider = "{seat.provider}"']
        lines += [f"roles = {json.dumps(list(seat.roles))}"]
        for name in ("model", "base_url", "dialect"):
            lines += [f'{name} = "{value}"'] if (value := getattr(seat, name)) else []
        for name in ("price_in", "price_out", "price_call"):
            value = getattr(seat, name)
            lines += [f"{name} = {value}"] if value is not None else []
        lines += [f"command = {json.dumps(list(seat.command))}"] if seat.command else []
        return "[[seat]]\n" + "\n".join(lines)

    return "\n\n".join(map(table, seats))


@pytest.mark.slow
def test_ask_and_run_hear_all_nine(seats, tmp_path, peerage):
    (tmp_path / "peerage.toml").write_text(toml_of(seats))
    (tmp_path / "prompts.jsonl").write_text('{"query": "Why?"}\n{"query": "How?"}\n')
    named = ("--config", "peerage.toml")  # a file that was named may run the agent
    asked = json.loads(peerage("ask", "Why is the sky blue?", "--json", *named).stdout)
    assert asked["status"] == "done"
    assert {one["reviewer"] for one in asked["reviews"]} == {f"d{i}" for i in range(6)} | {"agent"}
    assert not asked["failures"]
    assert all(one["vote_count"] == 7 for one in asked["scores"])
    assert peerage("run", "prompts.jsonl", *named).returncode == 0
    board = json.loads(peerage("board", "models", "--json", *named).stdout)
    assert {row["model"] for row in board["rows"]} == {"w1", "w2"}


@pytest.mark.slow
def test_the_page_and_v1_decisions_hear_all_nine(seats, tmp_path):
    question = {"type": "predicate", "name": "urgent", "instructions": "It is urgent."}
    with running(f"sqlite:///{tmp_path}/s.db", seats) as server:
        url = str(server.client.base_url)
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            decision = client.decisions.create(
                model="council", input="I was charged twice!", questions=[question]
            )
        votes = decision.peerage["votes"]["urgent"]
        assert set(votes) == {seat.name for seat in seats}
        assert all(set(votes[name]) == {0.0, 1.0} for name in ("agent", "w1", "w2"))
        page = server.client.get(f"/sessions/{decision.peerage['session']}").text
        assert all(f">{name}<" in page for name in votes)
        answers = {"x": "Blue scatters more.", "y": "It is painted.", "z": "The sea."}
        body = {"query": "Why is the sky blue?", "answers": answers}
        id_ = server.client.post("/api/sessions", json=body).json()["id"]
        server.client.get(f"/api/sessions/{id_}/events", timeout=60)
        page = server.client.get(f"/sessions/{id_}").text
        assert page.count("decision model</span>") == 6
