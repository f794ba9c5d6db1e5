"""A season stops as soon as it knows, looking at its sessions in one order."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from peerage import Council
from peerage.errors import UsageError
from peerage.imports.prompt_files import open_prompts
from peerage.reports.options import BarOptions
from peerage.reports.stopping import SeasonWatch, StoppingRule, check_until, count_by_query
from peerage.season import Progress
from peerage.types import Event, Query, Seat

QUALITY = {"old": 9.0, "new": 3.0, "third": 6.0}
N = 36
Logs = list[list[Event]]


def run_panel(folder: Path, qualities: dict[str, float], questions: list[str]) -> Logs:
    """Return the logs of a season of simulated answers and three simulated judges."""
    rows = [{"query": one} for one in questions]
    prompts, store = folder / "prompts.jsonl", f"sqlite:///{folder / 'season.db'}"
    prompts.write_text("\n".join(map(json.dumps, rows)))
    seats = [
        Seat(name, provider="simulated", options={"quality": one, "spread": 0.7}, roles=("answer",))
        for name, one in qualities.items()
    ]
    judging = {"provider": "simulated", "roles": ("review",), "options": {"noise": 0.5}}
    seats += [Seat(name, **judging) for name in ("x", "y", "z")]

    async def hold() -> Logs:
        async with Council(store=store, seats=seats, seed=3, verdict="none") as council:
            season = council.season("stop")
            progress = Progress(len(rows))
            await council.run_season(
                season, open_prompts(prompts), concurrency=4, progress=progress
            )
            places = {one.ordinal: one.id for one in council.store.sessions(season.id)}
            return [list(council.store.events(places[i])) for i in range(len(rows))]

    return asyncio.run(hold())


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return run_panel(tmp_path_factory.mktemp("season"), QUALITY, [f"q{i}" for i in range(N)])


def watching(until: str = "decided", n_by_query: Any = None, **bar: Any) -> SeasonWatch:
    sides = {"base": "old", "candidate": "new", **bar}
    return SeasonWatch(StoppingRule(until, BarOptions(**sides)), n_by_query or {}, lambda _: None)


def test_it_knows_as_soon_as_the_evidence_suffices(logs: Logs) -> None:
    one, n = watching(), 0
    while not one.is_known:
        one.add(n, logs[n])
        n += 1
    (verdict,) = one.verdicts
    assert verdict.verdict == "worse"
    assert (verdict.after, one.n_queries) == (n, n)
    assert 5 < n < N
    assert one.sentence == "new against old: worse"


def test_sessions_after_an_unfinished_one_do_not_count_yet(logs: Logs) -> None:
    one = watching()
    for n in range(1, N):
        one.add(n, logs[n])
    assert (one.n_queries, one.is_known) == (0, False)
    one.add(0, [])  # it has no reviews
    assert one.is_known


def test_a_query_counts_when_its_planned_repeats_are_there(tmp_path: Path) -> None:
    questions = ["q", "q", "other", "other", "other"]
    one = watching(n_by_query=count_by_query(Query(text).own_id for text in questions))
    n_looks = []
    for n, log in enumerate(run_panel(tmp_path, QUALITY, questions)):
        one.add(n, log)
        n_looks.append(one.n_queries)
    assert one.n_repeats == 2
    assert n_looks == [0, 1, 1, 2, 2]  # the third repeat of the other query does not count


def test_a_season_of_several_candidates_goes_on_until_each_is_decided(logs: Logs) -> None:
    one = watching(candidate=("new", "third"))
    alone, n = watching(), 0
    while not one.is_known:
        one.add(n, logs[n])
        alone.add(n, logs[n])
        n += 1
    assert [verdict.verdict for verdict in one.verdicts] == ["worse", "worse"]
    assert alone.n_queries < n < N
    assert one.sentence == "new against old: worse; third against old: worse"


@pytest.mark.parametrize(("until", "top"), [("best", ("old",)), ("top:2", ("old", "third"))])
def test_the_best_are_known_when_each_beats_every_other(
    logs: Logs, until: str, top: tuple[str, ...]
) -> None:
    one = watching(until)
    for n, log in enumerate(logs):
        one.add(n, log)
    assert tuple(sorted(one.top)) == top
    assert 5 < one.n_queries < N  # it stopped as soon as it knew


def test_equal_models_at_the_top_are_never_told_apart(tmp_path: Path) -> None:
    equal = {"a": 7.0, "b": 7.0, "c": 2.0}
    one = watching("best")
    for n, log in enumerate(run_panel(tmp_path, equal, [f"q{i}" for i in range(20)])):
        one.add(n, log)
    assert (one.n_queries, one.is_known) == (20, False)


@pytest.mark.parametrize(
    ("until", "bar", "words"),
    [
        ("never", {}, "--until cannot be 'never'."),
        ("top:0", {}, "--until cannot be 'top:0'."),
        ("decided", {}, "--until decided needs two models to compare."),
        (
            "decided",
            {"base": "a", "candidate": "b,a"},
            "the base and the candidate are the same model, 'a'.",
        ),
        (
            "decided",
            {"base": "a", "candidate": "b", "metric": "dimension"},
            "--until decided with --metric dimension needs --dimensions.",
        ),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(
    until: str, bar: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words.replace("(", r"\(")):
        check_until(until, BarOptions(**bar))
