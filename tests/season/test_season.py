"""A season: every row once, balanced across sessions, cut off and resumed without loss."""

import asyncio
import json
from collections import Counter

import pytest

from peerage import config
from peerage.errors import InputError
from peerage.imports.prompt_files import open_prompts
from peerage.providers.simulated import SimulatedProvider
from peerage.season import Progress, Season, run_season
from peerage.stores import open_store
from peerage.types import Failure, Seat
from peerage.view import fold
from tests.shared.session_configs import make_config

SEATS = tuple(
    Seat(name, provider="simulated", options={"quality": 7.0 - i}) for i, name in enumerate("abc")
)


class Direct:
    def __init__(self, crash_after=None):
        self.n_calls = 0
        self.crash_after = crash_after

    def can_constrain(self, _):
        return True

    def wants_brief(self, _):
        return False

    async def call(self, call, on_text=None, *_):  # noqa: ARG002
        self.n_calls += 1
        if self.crash_after is not None and self.n_calls > self.crash_after:
            raise RuntimeError("the machine went off")
        await asyncio.sleep(0)
        if call.query.text == "broken":
            return Failure(call.seat.name, "server_error", "told to fail", call.stage)
        return await SimulatedProvider(call.seat).complete(call)


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    rows = [{"id": f"q{i}", "query": f"question {i}", "category": "c"} for i in range(12)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return open_prompts(path)


@pytest.mark.parametrize("name", ["query", "question", "prompt"])
def test_a_file_of_prompts_may_call_its_questions_by_another_name(tmp_path, name):
    path = tmp_path / "prompts.csv"
    path.write_text(f"id,{name}\n1,Why?\n")
    assert [(row.id, row.query) for row in open_prompts(path)] == [("1", "Why?")]


def go(url, prompts, caller, concurrency=3, stop=None, session_config=None):
    session_config = session_config or make_config(SEATS, config.rubric("general"))
    season = Season("z", "7", lambda _: session_config)
    progress = Progress(prompts.n)

    async def scene():
        store = open_store(url)
        try:
            await run_season(
                season,
                prompts,
                caller,
                store,
                concurrency=concurrency,
                clock=lambda: 0.0,
                progress=progress,
                stop=stop,
            )
        finally:
            await store.close()

    asyncio.run(scene())
    return progress


@pytest.fixture
def url(store_url):
    return store_url


def sessions(url):
    store = open_store(url)
    return {row.id: fold(store.events(row.id)) for row in store.sessions() if row.status}


def test_every_row_becomes_one_finished_session(url, prompts):
    progress = go(url, prompts, Direct())
    assert progress.complete
    assert {s.query.id for s in sessions(url).values()} == {f"q{i}" for i in range(12)}


def test_a_season_is_balanced_across_its_sessions(url, prompts):
    """Every reviewer sees every author in every position equally often."""
    go(url, prompts, Direct())
    counts = Counter(
        (ballot.reviewer, position, author)
        for session in sessions(url).values()
        for ballot in session.ballots
        for position, author in enumerate(ballot.authors)
    )
    assert set(counts.values()) == {4}


@pytest.mark.parametrize(
    "crash_after", [0, 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 17, 40))]
)
def test_a_season_cut_off_ends_as_if_it_had_not_been(tmp_path, url, prompts, crash_after):
    with pytest.raises(RuntimeError):
        go(url, prompts, Direct(crash_after))
    stored = Counter(
        event.kind for row in open_store(url).sessions() for event in open_store(url).events(row.id)
    )
    caller = Direct()
    assert go(url, prompts, caller).complete
    replies = stored["answered"] + stored["reviewed"] + stored["advised"]
    assert caller.n_calls == 12 * 7 - replies
    whole = f"sqlite:///{tmp_path / 'whole.db'}"
    go(whole, prompts, Direct())
    cut, uncut = sessions(url), sessions(whole)
    assert cut.keys() == uncut.keys()
    assert all(cut[one].scores == uncut[one].scores for one in cut)
    assert all(cut[one].verdict == uncut[one].verdict for one in cut)


def test_the_same_command_again_makes_no_call(url, prompts):
    go(url, prompts, Direct())
    caller = Direct()
    progress = go(url, prompts, caller)
    assert caller.n_calls == 0
    assert progress.reused == 12


def test_a_session_without_a_quorum_is_reported_and_nothing_is_scored(url, tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("id,query\n1,broken\n2,fine\n")
    progress = go(url, open_prompts(path), Direct())
    assert progress.complete
    assert len(progress.no_quorum) == 1
    assert progress.failures["a", "answer", "server_error"] == 1
    broken = next(s for s in sessions(url).values() if s.query.id == "1")
    assert broken.scores == ()


def test_a_stopped_season_begins_no_more_sessions(url, prompts):
    class Stopping(Direct):
        def __init__(self, stop):
            super().__init__()
            self.stop = stop

        async def call(self, call, on_text=None, *_):
            self.stop.set()
            return await super().call(call, on_text)

    stop = asyncio.Event()
    progress = go(url, prompts, Stopping(stop), concurrency=2, stop=stop)
    assert progress.stopped
    assert progress.done == 2


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.jsonl", '{"query": ""}\n', "row 1"),
        ("p.jsonl", '{"query": "a", "id": 1}\n{"query": "b", "id": "1"}\n', "also the id of row 1"),
        ("p.jsonl", "{nope\n", "line 1"),
        ("p.jsonl", "", "no prompts"),
        ("p.jsonl", '{"query": "a", "answers": {"m": null}}\n', "no text for 'm'"),
        ("p.csv", "text;kind\nx;y\n", "no \"query\" column. It has: 'text', 'kind'."),
        ("p.csv", "id,query\n1,Well, then?\n", "row 1: this row has more cells than columns"),
        ("p.jsonl", '{"text": "a"}\n', "row 1: \"query\" is missing; the row has: 'text'."),
        ("p.txt", "x", ".jsonl"),
        ("p.parquet", "x", "not Parquet"),
    ],
)
def test_a_file_with_a_mistake_is_refused_before_anything_is_run(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as refused:
        open_prompts(tmp_path / name)
    assert says in str(refused.value)


def test_the_three_formats_read_alike(tmp_path):
    import duckdb

    (tmp_path / "p.jsonl").write_text('{"id": "1", "query": "a?", "category": "c"}\n')
    (tmp_path / "p.csv").write_text("id,query,category\n1,a?,c\n")
    target = str(tmp_path / "p.parquet")
    duckdb.sql("SELECT '1' AS id, 'a?' AS query, 'c' AS category").write_parquet(target)
    rows = {tuple(open_prompts(tmp_path / f"p.{end}")) for end in ("jsonl", "csv", "parquet")}
    assert len(rows) == 1


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_csv_file_may_be_separated_as_an_imported_one_may(tmp_path, separator):
    path = tmp_path / "p.csv"
    path.write_text(f'id{separator} query\n1{separator}"a; b, c?"\n')
    assert [(row.id, row.query) for row in open_prompts(path)] == [("1", "a; b, c?")]


def test_given_answers_may_be_an_object_or_a_list(tmp_path):
    path = tmp_path / "p.jsonl"
    answers = [
        {"a": "x", "b": "y"},
        [{"model": "a", "response": "x"}, {"model": "b", "response": "y"}],
    ]
    path.write_text("\n".join(json.dumps({"query": "q", "answers": a}) for a in answers))
    first, second = open_prompts(path)
    assert first.answers == second.answers == {"a": "x", "b": "y"}


@pytest.mark.slow
def test_two_processes_share_a_season_and_no_session_is_held_twice(url, prompts):
    """What one has begun the other waits for; both end with the whole season done."""

    async def scene():
        session_config = make_config(SEATS)
        season = Season("z", "7", lambda _: session_config)
        stores = [open_store(url), open_store(url)]
        done = [Progress(prompts.n), Progress(prompts.n)]
        await asyncio.gather(
            *(
                run_season(
                    season,
                    prompts,
                    Direct(),
                    store,
                    concurrency=3,
                    clock=lambda: 0.0,
                    progress=progress,
                )
                for store, progress in zip(stores, done, strict=True)
            )
        )
        for store in stores:
            await store.close()
        return done

    first, second = asyncio.run(scene())
    assert first.complete
    assert second.complete
    assert first.elsewhere == second.elsewhere == 0
    assert first.done + second.done - first.reused - second.reused == prompts.n
    assert first.calls + second.calls == 7 * prompts.n
    assert len(sessions(url)) == prompts.n
    assert all(len(session.reviews) == 3 for session in sessions(url).values())


def test_a_session_that_cannot_be_read_is_named_and_the_season_goes_on(url, prompts):
    with pytest.raises(RuntimeError):
        go(url, prompts, Direct(20))
    cut = next(row.id for row in open_store(url).sessions() if not row.status)
    with open_store(url).transaction() as db:
        db.execute("UPDATE events SET body = '{}' WHERE session_id = ?", (cut,))
    progress = go(url, prompts, Direct())
    assert set(progress.unreadable) == {cut}
    assert progress.done == prompts.n - 1


@pytest.mark.parametrize("early_stop", [False, True])
@pytest.mark.parametrize("deadline_s", [None, 0.02])
def test_early_stops_and_deadlines_end_no_season(url, prompts, early_stop, deadline_s):
    class Uneven(Direct):
        async def call(self, call, on_text=None, *_):
            await asyncio.sleep(0.018 + 0.001 * (self.n_calls % 5))
            return await super().call(call, on_text)

    session_config = make_config(SEATS, early_stop=early_stop, deadline_s=deadline_s)
    assert go(url, prompts, Uneven(), session_config=session_config).complete
    store = open_store(url)
    for row in store.sessions():
        outcomes = Counter(
            (
                event.body.get("seat") or event.body["reviewer"],
                event.body.get("stage") or event.kind,
            )
            for event in store.events(row.id)
            if event.kind in ("answered", "reviewed", "failed")
        )
        stage = {"answered": "answer", "reviewed": "review"}
        folded = Counter((seat, stage.get(kind, kind)) for seat, kind in outcomes)
        assert set(outcomes.values()) | set(folded.values()) == {1}
