"""A season under a budget finishes what it begins: money is kept for sessions under way."""

import asyncio
import json

import pytest

from peerage import Council
from peerage.dry_runs import estimate_season
from peerage.errors import ConfigError, NotFoundError
from peerage.imports.prompt_files import open_prompts
from peerage.season import Progress, season_cost
from peerage.types import Seat

N = 12


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(json.dumps({"query": f"What is {i} plus {i}?"}) for i in range(N)))
    return open_prompts(path)


def panel(names="abc", *, words=300, max_tokens=500, **about):
    options = {"words": words, "latency_ms": 2}
    return [
        Seat(
            name,
            provider="simulated",
            price_in=1.0,
            price_out=10.0,
            max_tokens=max_tokens,
            max_tokens_review=500,
            options=options,
            **about,
        )
        for name in names
    ]


def run(url, prompts, budget_usd, *, concurrency=N, seats=None, season=None, **options):
    """Run a season, and return it with how far it came and what is in the store."""

    async def scene():
        async with Council(
            store=url, seats=seats or panel(), budget_usd=budget_usd, **{"seed": 7, **options}
        ) as council:
            begun = council.begun_season(season) if season else council.season("f")
            progress = Progress(prompts.n)
            await council.run_season(begun, prompts, concurrency=concurrency, progress=progress)
            listed = council.store.sessions(begun.id)
            return begun, progress, listed, season_cost(council.store, begun.id)[0]

    return asyncio.run(scene())


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/peerage.db"


@pytest.fixture
def whole_cost(tmp_path, prompts):
    """What the season costs with money enough."""
    _, progress, _, cost = run(f"sqlite:///{tmp_path}/whole.db", prompts, 100.0)
    assert progress.complete
    return cost


@pytest.mark.parametrize("part", [0.4, 0.75])
@pytest.mark.parametrize("concurrency", [1, 4, N])
@pytest.mark.parametrize("max_concurrency", [1, 16])
def test_a_budget_ends_a_season_with_sessions_that_are_finished(
    url, prompts, whole_cost, part, concurrency, max_concurrency
):
    seats = panel(max_concurrency=max_concurrency)
    budget = part * whole_cost
    _, progress, listed, cost = run(url, prompts, budget, concurrency=concurrency, seats=seats)
    assert progress.out_of_budget
    assert cost <= budget
    assert sum(not row.status for row in listed) <= 1
    assert progress.done >= 0.5 * part * N


def test_long_answers_cost_a_season_the_session_they_surprise_and_no_more(url, prompts):
    """Until one session has ended, money is kept for the longest answers there may be."""
    seats = panel(words=2000, max_tokens=4096)
    _, progress, listed, cost = run(url, prompts, 1.0, seats=seats)
    assert progress.out_of_budget
    assert cost <= 1.0
    assert progress.done
    assert sum(not row.status for row in listed) <= 1


def test_a_session_that_the_budget_could_not_finish_is_not_begun(url, prompts):
    _, progress, listed, cost = run(url, prompts, 0.005)
    assert "the next session may cost" in progress.out_of_budget
    assert (listed, cost) == ([], 0.0)


def test_several_sessions_run_at_once_where_there_is_money_for_them(url, prompts):
    most = 0

    async def scene():
        nonlocal most
        async with Council(store=url, seats=panel(), budget_usd=100.0) as council:
            progress = Progress(prompts.n)

            def changed():
                nonlocal most
                most = max(most, progress.in_flight)

            await council.run_season(
                council.season("f"), prompts, concurrency=8, progress=progress, on_change=changed
            )

    asyncio.run(scene())
    assert most == 8


def test_a_season_goes_on_by_its_id_and_repeats_nothing(url, prompts, whole_cost):
    season, first, _, _ = run(url, prompts, 0.5 * whole_cost, verdict="none")
    again, second, _, cost = run(url, prompts, 100.0, season=season.id[:8], verdict="none")
    assert (again.id, again.seed) == (season.id, season.seed)
    assert second.complete
    assert second.reused == first.done
    assert cost == pytest.approx(first.cost_usd + second.cost_usd)


@pytest.mark.parametrize(
    ("options", "seats", "words"),
    [
        ({"rule": "copeland"}, None, "started with rule = 'borda', not 'copeland'"),
        ({"verdict": "synthesis"}, None, "started with verdict = 'none'"),
        ({"seed": 8, "verdict": "none"}, None, "started with seed = 7"),
        ({"verdict": "none"}, panel(temperature=0.1), "other options: a, b, c"),
    ],
)
def test_a_season_goes_on_only_as_it_was_begun(url, prompts, options, seats, words):
    season, *_ = run(url, prompts, 100.0, seed=7, verdict="none")
    with pytest.raises(ConfigError, match=words):
        run(url, prompts, 100.0, season=season.id, seats=seats, **options)


def test_an_unknown_season_is_refused_with_those_there_are(url, prompts):
    season, *_ = run(url, prompts, 100.0)
    with pytest.raises(NotFoundError, match="there is no season 'nope'") as refused:
        run(url, prompts, 100.0, season="nope")
    assert season.id in refused.value.hint


def test_a_question_and_a_season_of_it_are_estimated_alike(url, tmp_path):
    """The page that asks and `--dry-run` run the same session, and call no model."""
    (tmp_path / "one.jsonl").write_text(json.dumps({"query": "What is 2 plus 2?"}))
    rows = open_prompts(tmp_path / "one.jsonl")
    council = Council(store=url, seats=panel(), seed=7)

    async def scene():
        one = await council.estimate("What is 2 plus 2?")
        season = council.season("one", keep=False)
        return one, await estimate_season(season, rows, council.store, council.settings.seats)

    one, season = asyncio.run(scene())
    assert [seat.calls for seat in one] == [seat.calls for seat in season.seats]
    assert sum(seat.calls.total() for seat in one) == 3 + 3 + 1
    assert sum(seat.about for seat in one) == pytest.approx(season.cost_usd * 1e12, rel=0.05)
    assert not council.store.sessions()
