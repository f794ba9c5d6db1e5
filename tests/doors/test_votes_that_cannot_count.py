"""Two seats that review only each other: no door pays for reviews that cannot count."""

import asyncio
import json
import sys

import openai
import pytest
from mcp import Client

from peerage.doors.mcp import create_server
from peerage.events import Dealt, Reviewed, read_events
from peerage.imports.prompt_files import open_prompts
from peerage.panel import Council, NoVotesError
from peerage.season import Progress
from peerage.service import Service
from peerage.types import Seat
from tests.doors.http.conftest import running, simulated
from tests.doors.pseudo_terminal import watch

FAULT, FIX = "no vote can count", "a seat that only reviews"
PAIR = [{"name": name, "provider": "simulated"} for name in ("ann", "bob")]
OUTSIDER = Seat("eve", provider="simulated", roles=("review",))
UNPAID = {  # ways to ask a pair in which nobody pays for a review that cannot count
    "verdict none": ({"verdict": "none"}, 0),
    "verdict binary": ({"verdict": "binary"}, 0),
    "own votes in": ({"own_votes": "in"}, 2),
}


def held(seats, **options):
    """The facts of a session of these seats."""

    async def scene():
        async with Council(store="sqlite:///:memory:", seats=seats, seed=1) as council:
            return [event async for event in council.run("Why?", **options)]

    return list(read_events(asyncio.run(scene())))


def n_reviews(facts):
    return sum(isinstance(fact, Reviewed) for fact in facts)


@pytest.mark.parametrize("verdict", ["synthesis", "debate", "tie_breaker"])
@pytest.mark.parametrize("names", [("ann",), ("ann", "bob")])
def test_a_council_refuses_before_anything_is_stored(tmp_path, names, verdict):
    async def scene():
        async with Council(
            store=f"sqlite:///{tmp_path}/s.db", seats=simulated(*names), verdict=verdict
        ) as council:
            with pytest.raises(NoVotesError, match=FAULT) as refused:
                await council.ask("Why?")
            assert FIX in refused.value.hint
            return council.store.sessions()

    assert asyncio.run(scene()) == []


@pytest.mark.parametrize("way", UNPAID)
def test_nobody_pays_for_a_review_that_cannot_count(way):
    options, n = UNPAID[way]
    facts = held(simulated("ann", "bob"), **options)
    assert n_reviews(facts) == n


def test_an_outsider_reviews_two_and_they_do_not_review_each_other():
    facts = held([*simulated("ann", "bob"), OUTSIDER])
    assert [fact.reviewer for fact in facts if isinstance(fact, Reviewed)] == ["eve"]
    (dealt,) = [fact for fact in facts if isinstance(fact, Dealt)]
    assert [ballot.reviewer for ballot in dealt.ballots] == ["eve"]


def test_a_pipe_gets_the_fix_and_nothing_is_asked(peerage, panel, tmp_path):
    panel(PAIR)
    (tmp_path / "prompts.jsonl").write_text('{"query": "Why?"}\n')
    for command in (("ask", "Why?"), ("run", "prompts.jsonl"), ("ask", "Why?", "--quiet")):
        done = peerage(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert FAULT in done.stderr
        assert FIX in done.stderr
        assert done.stderr.count("\n") == 1
    assert json.loads(peerage("sessions", "--json").stdout)["sessions"] == []
    assert peerage("ask", "Why?", "--verdict", "none").returncode == 0


def test_the_doctor_says_that_no_vote_of_a_panel_can_count(peerage, panel):
    panel(PAIR)
    done = peerage("doctor", "--json")
    assert done.returncode == 1
    checks = {check["what"]: check for check in json.loads(done.stdout)["checks"]}
    assert FAULT in checks["panel"]["finding"]
    assert FIX in checks["panel"]["fix"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "code", "says"),
    [("y", 0, "synthesis by"), ("", 2, "stopped before any model was called.")],
)
def test_a_terminal_is_asked_before_anything_is_paid(peerage, panel, tmp_path, typed, code, says):
    panel(PAIR)
    done = watch(
        [sys.executable, "-m", "peerage", "ask", "Why?"],
        tmp_path,
        peerage.environ,
        lines=60,
        answers={"Continue without a ranking? [y/N]": typed},
    )
    assert (done.code, FAULT in done.text.replace("\n ", "")) == (code, True)
    assert says in done.text


def test_a_season_is_refused_where_no_row_can_be_ranked_and_runs_where_one_can(tmp_path):
    rows = [{"query": "?"}, {"query": "?", "answers": {"x": "1", "y": "2", "z": "3"}}]

    def run(*some):
        file = tmp_path / f"{len(some)}.jsonl"
        file.write_text("\n".join(map(json.dumps, some)))
        prompts, progress = open_prompts(file), Progress(len(some))

        async def scene():
            async with Council(store="sqlite:///:memory:", seats=simulated("ann", "bob")) as one:
                season = one.season("f")
                await one.run_season(season, prompts, concurrency=2, progress=progress)

        asyncio.run(scene())
        return progress

    with pytest.raises(NoVotesError, match=FAULT):
        run(rows[0])
    progress = run(*rows)
    assert progress.complete
    assert progress.calls == 2 + 1 + 2 + 1  # the answers, the reviews that count, two chairs


def test_servers_refuse_it_in_their_own_words(tmp_path):
    with running(f"sqlite:///{tmp_path}/s.db", simulated("ann", "bob")) as server:
        client = server.client
        refused = client.post("/api/sessions", json={"query": "Why?"})
        assert (refused.status_code, FAULT in refused.json()["detail"]) == (422, True)
        assert FIX in refused.json()["hint"]
        page = client.post("/ask", data={"query": "Why?"})
        assert (page.status_code, FAULT in page.text, FIX in page.text) == (422, True, True)
        with (
            openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="none") as compatible,
            pytest.raises(openai.APIStatusError, match=FAULT) as told,
        ):
            compatible.chat.completions.create(
                model="council", messages=[{"role": "user", "content": "Why?"}]
            )
        assert told.value.status_code == 400
        assert client.get("/api/sessions").json()["sessions"] == []


def test_the_tool_of_an_assistant_refuses_it(tmp_path):
    async def scene():
        service = Service(Council(store=f"sqlite:///{tmp_path}/s.db", seats=simulated(*"ab")))
        try:
            async with Client(create_server(service)) as client:
                return await client.call_tool("ask", {"question": "Why?"})
        finally:
            await service.close(grace_s=0)

    result = asyncio.run(scene())
    assert result.is_error
    assert FAULT in result.content[0].text
    assert FIX in result.content[0].text
