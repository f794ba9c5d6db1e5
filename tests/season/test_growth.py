"""A season that grows: newcomers are asked for what is missing, and nobody is asked twice."""

import asyncio
import json
import re
from collections import Counter
from dataclasses import replace

import pytest

from peerage import Council
from peerage.config import rubric
from peerage.errors import NotFoundError
from peerage.event_facts import panel_of
from peerage.events import read_events
from peerage.imports.prompt_files import open_prompts
from peerage.providers.simulated import SimulatedProvider
from peerage.scoring import recorded_rubric
from peerage.season import (
    Progress,
    Season,
    changed_seats,
    reused_answers,
    run_season,
    season_cost,
)
from peerage.seating import settings_of
from peerage.stores import open_store
from peerage.types import ScoringOptions, Seat
from peerage.view import SessionView, fold
from tests.shared.session_configs import make_config
from tests.stored_boards import board_of_store, files_of_store

N = 4


def seats(names, roles=("answer", "review")):
    return tuple(
        Seat(name, provider="simulated", roles=roles, options={"quality": 8.0 - ord(name) % 5})
        for name in names
    )


class Counting:
    """Asks simulated seats, and remembers whom it asked for what."""

    def __init__(self, crash_after=None):
        self.calls = Counter()
        self.shown = []
        self.crash_after = crash_after

    def can_constrain(self, _):
        return True

    def wants_brief(self, _):
        return False

    async def call(self, call, on_text=None, on_wait=None):  # noqa: ARG002
        if self.crash_after is not None and self.calls.total() >= self.crash_after:
            raise RuntimeError("the machine went off")
        self.calls[call.stage, call.seat.name] += 1
        if call.ballot:
            self.shown.append(frozenset(call.ballot.authors))
        await asyncio.sleep(0)
        return await SimulatedProvider(call.seat).complete(call)


@pytest.fixture
def url(store_url):
    return store_url


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    rows = [{"id": f"q{i}", "query": f"question {i}"} for i in range(N)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return open_prompts(path)


def held(url, prompts, panel, caller=None, **options):
    """A run of the season by a panel; what it came to, and whom it called."""
    caller = caller or Counting()
    options = {"verdict": "none", **options}
    config = make_config(panel, rubric("general"), **{"quorum": 2, **options})
    progress = Progress(prompts.n)

    async def scene():
        store = open_store(url)
        try:
            await run_season(
                Season("z", "7", lambda _: config),
                prompts,
                caller,
                store,
                concurrency=2,
                clock=lambda: 0.0,
                progress=progress,
            )
        finally:
            await store.close()

    asyncio.run(scene())
    return progress, caller


def sessions(url):
    store = open_store(url)
    return {row.id: fold(store.events(row.id)) for row in store.sessions() if row.status}


def without_codes(by_id):
    """Sessions without the codes of their pages, which each store draws for itself."""
    code = re.compile(r'"ballot": "\w+"')
    return {
        id_: replace(
            session, reviews=tuple(replace(r, raw=code.sub("", r.raw)) for r in session.reviews)
        )
        for id_, session in by_id.items()
    }


def test_a_candidate_who_joins_answers_and_is_judged_beside_the_others(url, prompts):
    held(url, prompts, seats("abc"))
    progress, caller = held(url, prompts, seats("abcd"))
    assert progress.extended == progress.done == N
    assert caller.calls == {("answer", "d"): N, **{("review", name): N for name in "abcd"}}
    assert set(caller.shown) == {frozenset("abcd")}
    for session in sessions(url).values():
        assert {score.model for score in session.scores} == set("abcd")
        assert {score.votes for score in session.scores} == {3}
    assert not held(url, prompts, seats("abcd"))[1].calls


def test_a_reviewer_who_joins_is_the_only_one_asked(url, prompts):
    held(url, prompts, seats("abc"))
    panel = (*seats("abc"), *seats("r", roles=("review",)))
    _, caller = held(url, prompts, panel)
    assert caller.calls == {("review", "r"): N}
    for session in sessions(url).values():
        assert [ballot.round for ballot in session.ballots] == [0, 0, 0, 0]
        assert {score.votes for score in session.scores} == {3}


def test_a_verdict_is_given_anew_when_there_is_something_new_to_say(url, prompts):
    held(url, prompts, seats("abc"), verdict="synthesis")
    _, caller = held(url, prompts, seats("abcd"), verdict="synthesis")
    assert caller.calls["conclude", "a"] == N


def test_second_thoughts_are_had_again_among_those_who_were_there(url, prompts):
    held(url, prompts, seats("abc"), rounds=2)
    _, caller = held(url, prompts, seats("abcd"), rounds=2)
    assert caller.calls["review", "a"] == 2 * N
    rounds = {ballot.round for session in sessions(url).values() for ballot in session.ballots}
    assert rounds == {0, 1, 2, 3}


@pytest.mark.parametrize("crash_after", [0, 1, 5, 14])
def test_growth_that_was_cut_off_goes_on_where_it_stopped(tmp_path, url, prompts, crash_after):
    held(url, prompts, seats("abc"))
    with pytest.raises(RuntimeError):
        held(url, prompts, seats("abcd"), Counting(crash_after))
    held(url, prompts, seats("abcd"))
    whole = f"sqlite:///{tmp_path / 'whole.db'}"
    held(whole, prompts, seats("abc"))
    held(whole, prompts, seats("abcd"))
    assert without_codes(sessions(url)) == without_codes(sessions(whole))


def test_a_seat_that_left_keeps_its_answers_and_its_vote(url, prompts):
    held(url, prompts, seats("abc"))
    _, caller = held(url, prompts, seats("abd"))
    assert caller.calls == {("answer", "d"): N, **{("review", name): N for name in "abd"}}
    for session in sessions(url).values():
        assert set(session.candidates) == set("abcd")
        votes = {score.model: score.votes for score in session.scores}
        assert votes == {"a": 3, "b": 3, "c": 3, "d": 2}


def test_a_session_that_grew_is_shown_with_all_who_sit_in_it(url, prompts):
    held(url, prompts, seats("abc"))
    with pytest.raises(RuntimeError):
        held(url, prompts, seats("abcd"), Counting(1))
    store = open_store(url)
    grown = next(
        events
        for row in store.sessions()
        if len(panel_of(read_events(events := store.events(row.id)))) == 4
    )
    view = SessionView.of(grown, scoring=ScoringOptions())
    assert [seat.name for seat in view.seats] == list("abcd")
    assert view.status == "unfinished"
    assert "review" in {one.stage for one in view.missing}


# -- what boards see of it -----------------------------------------------------------------------


def rubric_of(opened):
    return recorded_rubric(settings_of(None, {}), opened)


def board(store):
    return board_of_store(store, rubric_of)


def test_a_board_counts_a_session_that_grew_once(url, prompts):
    held(url, prompts, seats("abc"))
    assert {row["total_votes"] for row in board(open_store(url)).rows} == {2 * N}
    held(url, prompts, seats("abcd"))
    grown = board(open_store(url))
    assert {row["total_votes"] for row in grown.rows} == {3 * N}
    assert {row["appearances"] for row in grown.rows} == {N}
    assert grown.flags == ()


def test_a_board_says_when_candidates_were_not_always_in_the_same_company(url, prompts):
    held(url, prompts, seats("abc"))
    with pytest.raises(RuntimeError):
        held(url, prompts, seats("abcd"), Counting(14))
    (flag,) = board(open_store(url)).flags
    assert flag.startswith("not_in_every_session:1: d (")


def table_of(store):
    import duckdb

    return duckdb.read_parquet(files_of_store(store, rubric_of), union_by_name=True)


def test_ids_of_two_files_that_collide_do_not_make_questions_the_same(url, prompts, tmp_path):
    held(url, prompts, seats("abc"))
    other = tmp_path / "other.jsonl"
    rows = [{"id": "q0", "query": "question 0"}, {"id": "q1", "query": "another question"}]
    other.write_text("\n".join(map(json.dumps, rows)))
    config = make_config(seats("abc"), verdict="none")

    async def scene():
        store = open_store(url)
        season = Season("other", "7", lambda _: config)
        await run_season(
            season,
            open_prompts(other),
            Counting(),
            store,
            concurrency=1,
            clock=lambda: 1.0,
            progress=Progress(2),
        )
        await store.close()

    asyncio.run(scene())
    query_ids = table_of(open_store(url)).aggregate(
        "query_id, count(distinct session_id)", "query_id"
    )
    found = dict(query_ids.fetchall())
    assert found["q0"] == 2  # the same question, asked again
    assert found["q1"] == 1
    assert sorted(name[:2] for name in found) == ["q-", "q0", "q1", "q2", "q3"]


def test_rows_without_an_id_are_known_by_their_question(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"query": "one?"}\n{"query": "two?"}\n')
    (tmp_path / "b.jsonl").write_text('{"query": "two?"}\n{"query": "three?"}\n')
    ids = [[row.query_id for row in open_prompts(tmp_path / f"{name}.jsonl")] for name in "ab"]
    assert ids[0][1] == ids[1][0]
    assert len({*ids[0], *ids[1]}) == 3


def test_the_texts_of_stored_answers_reach_the_table(url, prompts):
    held(url, prompts, seats("abc"))
    texts = table_of(open_store(url)).filter("text is not null").fetchall()
    assert len(texts) == 3 * N


# -- answers of an earlier season ----------------------------------------------------------------


def test_another_panel_judges_stored_answers_and_nobody_answers(url, prompts):
    held(url, prompts, seats("abc"))
    store = open_store(url)
    reused = reused_answers(store, "z", prompts)
    assert reused.n == N
    _, caller = held(url, reused, seats("xyz"))
    assert caller.calls == {("review", name): N for name in "xyz"}
    judged = [s for s in sessions(url).values() if {b.reviewer for b in s.ballots} == set("xyz")]
    assert len(judged) == N
    assert all(set(session.candidates) == set("abc") for session in judged)
    with pytest.raises(NotFoundError, match="there is no season 'nope'"):
        reused_answers(store, "nope", prompts)


# -- what a season is ----------------------------------------------------------------------------


def council(url, *panel, **options):
    return Council(seats=panel, store=url, **options)


def test_a_season_is_the_same_when_seats_join_and_another_when_one_is_changed(url, prompts):
    plain = council(url, *seats("abc"))
    first = plain.season("f")

    async def scene(progress):
        async with plain:
            await plain.run_season(first, prompts, concurrency=2, progress=progress)

    asyncio.run(scene(Progress(prompts.n)))
    assert council(url, *seats("abcd")).season("f").id == first.id
    assert council(url, *seats("ab")).season("f").id == first.id
    hot = Seat("a", provider="simulated", temperature=0.1)
    changed = council(url, hot, *seats("bc")).season("f")
    assert (changed.id != first.id, changed.changed) == (True, ("a",))
    slow = Seat("a", provider="simulated", timeout_s=7, options=seats("a")[0].options)
    assert changed_seats(open_store(url), first.id, (slow, *seats("bc"))) == []


def test_a_budget_counts_what_earlier_runs_of_the_season_have_spent(url, prompts):
    panel = [
        Seat(
            name,
            provider="simulated",
            price_in=100.0,
            price_out=100.0,
            max_tokens=500,
            max_tokens_review=500,
            options={"words": 60},
        )
        for name in "abc"
    ]

    def run(budget_usd):
        async def scene():
            async with council(url, *panel, budget_usd=budget_usd, verdict="none") as one:
                season, progress = one.season("f"), Progress(prompts.n)
                await one.run_season(season, prompts, concurrency=1, progress=progress)
                return season, progress

        return asyncio.run(scene())

    season, first = run(2.0)
    assert first.out_of_budget
    assert 0 < first.cost_usd <= 2.0
    _, second = run(2.0)
    assert second.out_of_budget
    assert second.earlier_cost_usd == pytest.approx(first.cost_usd)
    assert season_cost(open_store(url), season.id)[0] <= 2.0
    _, third = run(100.0)
    assert third.complete
