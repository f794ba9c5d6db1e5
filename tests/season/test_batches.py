"""Seasons whose calls are sent together: the same board, at half the price, paid for once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess as Process
from pathlib import Path
from typing import Any

import pytest

import peerage
from peerage import config
from peerage.hosted_seasons import SeasonHost, SeasonOptions, find_plan
from peerage.panel import Council
from peerage.season import BATCH, SeasonPrompt
from peerage.service import Service
from peerage.stores import open_store
from tests.shared.batch_seasons import (
    SEATS,
    BatchMock,
    Mock,
    batch_seats,
    batch_settings,
    serving,
)
from tests.shared.batch_seasons import hold_batch_season as hold
from tests.shared.waiting import wait_until

N = 4
SHAPES = ("openai", "anthropic")
N_CALLS = N * 2 * len(SEATS)
ENDS = ("ok", "expired", "partial", "duplicate", "missing", "foreign", "failed", "aborted")


@pytest.fixture(scope="module")
def server() -> Iterator[Mock]:
    with serving("--seed", "5") as mock:
        yield mock


@pytest.fixture
def mock(server: Mock) -> BatchMock:
    mock = BatchMock(server)
    mock.reset()
    return mock


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    rows = [{"id": f"p{i}", "query": f"What is {i} + {i}?"} for i in range(N)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def settings_at(mock: BatchMock, shape: str, path: Path, **flags: Any) -> config.Settings:
    return batch_settings(mock, shape, f"sqlite:///{path}", **flags)


def board(store: Path) -> list[dict[str, Any]]:
    """Return what the board says of each model."""
    with peerage.open(f"sqlite:///{store}") as opened:
        rows: list[dict[str, Any]] = opened.board_models(since="all").document()["rows"]
    return rows


def reviews(store: Path) -> dict[Any, Any]:
    """Return every mark of a store by session, reviewer and candidate."""
    opened = open_store(f"sqlite:///{store}")
    marks: dict[Any, Any] = {}
    for listed in opened.sessions():
        for event in opened.events(listed.id):
            if event.kind in ("answered", "reviewed"):
                seat = event.body.get("seat") or event.body.get("reviewer")
                review = dict(event.body.get("review") or {})
                marks[listed.id, event.kind, seat] = (event.body.get("text", "")[:20], review)
    return marks


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("end", ENDS)
def test_every_session_completes_however_batches_end(mock, prompts, tmp_path, shape, end):
    mock.control(ends=[end, "ok"] if end == "aborted" else [end])
    progress = hold(settings_at(mock, shape, tmp_path / "p.db"), prompts, batch=True)
    stats, n_single = mock.stats(), mock.mock.stats()["n_calls"]
    assert progress.complete, progress
    assert not progress.failures
    assert set(stats["paid"].values()) <= {1}
    assert sum(stats["paid"].values()) + n_single == N_CALLS
    assert (n_single == 0) == (end in ("ok", "duplicate", "foreign", "aborted"))
    assert any("left out" in note for note in progress.batch_notes) == (
        end in ("duplicate", "foreign")
    )


def test_a_batch_whose_results_cannot_be_asked_for_is_not_polled_for_ever(mock, prompts, tmp_path):
    mock.control(ends=["odd_file"])
    progress = hold(settings_at(mock, "openai", tmp_path / "p.db"), prompts, batch=True)
    assert any("cannot be used in an address" in note for note in progress.batch_notes)
    assert mock.mock.stats()["n_calls"] > 0  # the calls were made one by one


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_season_gives_the_replies_of_an_ordinary_one_at_half_the_price(
    mock, prompts, tmp_path, shape
):
    in_batches = hold(settings_at(mock, shape, tmp_path / "b.db"), prompts, batch=True)
    ordinary = hold(settings_at(mock, shape, tmp_path / "o.db"), prompts, batch=False)
    assert reviews(tmp_path / "b.db").keys() == reviews(tmp_path / "o.db").keys()
    assert len(reviews(tmp_path / "o.db")) == N_CALLS
    if shape == "openai":
        assert in_batches.cost_usd == pytest.approx(ordinary.cost_usd / 2, rel=0.05)
    assert in_batches.cost_usd < 0.6 * ordinary.cost_usd


def test_a_season_of_a_server_is_sent_in_batches_where_its_plan_says_so(mock, tmp_path):
    settings = settings_at(mock, "openai", tmp_path / "s.db")
    rows = [SeasonPrompt(f"p{i}", f"What is {i} + {i}?") for i in range(N)]

    async def scene() -> str:
        service = Service(Council(settings))
        host = SeasonHost(service)
        try:
            plan = await host.create(rows, SeasonOptions(batch=True), "ann")
            estimate = await host.estimate(plan.id)
            await host.start(plan.id)
            await host.running[plan.id].task
            assert estimate["calls"] == N_CALLS
            return (await service.read(find_plan, service.store, plan.id)).state
        finally:
            await service.close()

    assert asyncio.run(scene()) == "done"
    assert sum(mock.stats()["n_rows"]) == N_CALLS


def test_batches_are_bounded_and_hold_one_model_each(mock, prompts, tmp_path):
    settings = settings_at(mock, "openai", tmp_path / "p.db", **{"batch.size": 3})
    assert hold(settings, prompts, batch=True).complete
    stats = mock.stats()
    assert max(stats["n_rows"]) <= 3
    assert sum(stats["n_rows"]) == N_CALLS


def test_calls_without_a_result_wait_for_a_later_batch_where_that_is_asked(mock, prompts, tmp_path):
    mock.control(ends=["partial"] * len(SEATS) + ["ok"])
    settings = settings_at(mock, "openai", tmp_path / "p.db", **{"batch.failures": "wait"})
    progress = hold(settings, prompts, batch=True)
    assert progress.complete
    assert not progress.failures
    assert mock.mock.stats()["n_calls"] == 0
    assert sum(mock.stats()["paid"].values()) == N_CALLS


def test_a_call_that_no_batch_answers_fails_in_the_end(mock, prompts, tmp_path):
    mock.control(ends=["failed"])
    settings = settings_at(mock, "openai", tmp_path / "p.db", **{"batch.failures": "wait"})
    progress = hold(settings, prompts, batch=True)
    assert progress.complete
    assert len(progress.no_quorum) == N
    assert mock.mock.stats()["n_calls"] == 0


def test_an_endpoint_that_takes_no_batches_is_called_one_by_one(mock, prompts, tmp_path):
    mock.control(ends=["refused"])
    progress = hold(settings_at(mock, "openai", tmp_path / "p.db"), prompts, batch=True)
    assert progress.complete
    assert mock.mock.stats()["n_calls"] == N_CALLS
    assert "did not accept a batch" in progress.batch_notes[0]


def test_seats_without_batches_answer_at_once_in_a_batch_season(mock, prompts, tmp_path):
    seats = batch_seats(mock, "openai")
    seats[0]["batch"] = "none"
    seats.append({"name": "d", "provider": "simulated"})
    settings = settings_at(mock, "openai", tmp_path / "p.db", seat=seats)
    assert hold(settings, prompts, batch=True).complete
    assert mock.mock.stats()["n_calls"] == 2 * N
    assert sum(mock.stats()["paid"].values()) == 2 * 2 * N


def test_a_budget_is_kept_in_batches(mock, prompts, tmp_path):
    whole = hold(settings_at(mock, "openai", tmp_path / "w.db"), prompts, batch=True).cost_usd
    tight = {"council.budget_usd": whole / 2}
    progress = hold(settings_at(mock, "openai", tmp_path / "p.db", **tight), prompts, batch=True)
    assert progress.out_of_budget
    assert progress.cost_usd <= whole / 2


# -- a run that is killed ------------------------------------------------------------------------

# Steps at which the server does not answer; a run is killed at each.
STATES = ("upload", "create", "created", "poll", "results")


@contextmanager
def running(settings: config.Settings, prompts: Path) -> Iterator[Process]:
    """Run the season in another process, and kill that process at the end of the block."""
    process = get_context("fork").Process(target=hold, args=(settings, prompts, True))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_that_is_killed_in_any_state_goes_on_and_pays_nothing_twice(
    mock, prompts, tmp_path, shape
):
    store, ordinary = tmp_path / "p.db", tmp_path / "o.db"
    settings = settings_at(mock, shape, store, lease_s=0.5)
    states = [state for state in STATES if shape == "openai" or state != "upload"]
    for n, state in enumerate([*states, *states]):  # in the answers, then in the reviews
        n_before = mock.stats()["steps"].get(state, 0)
        mock.control(hold=state, hold_from=0 if n < len(states) else N * len(SEATS))
        with running(settings, prompts) as process:
            wait_until(partial(is_reached, mock, state, n_before), process)
            documents = open_store(f"sqlite:///{store}").documents(BATCH)
            assert documents
            if shape == "openai" and state in ("poll", "results"):
                assert any(document.body["batch"] for document in documents)
    mock.control(hold="")
    assert hold(settings, prompts, batch=True).complete
    stats = mock.stats()
    assert set(stats["paid"].values()) == {1}
    assert len(stats["paid"]) == N_CALLS
    assert mock.mock.stats()["n_calls"] == 0
    assert hold(settings_at(mock, shape, ordinary), prompts, batch=False).complete
    assert board(store) == board(ordinary)


def is_reached(mock: BatchMock, state: str, n_before: int) -> bool:
    n: int = mock.stats()["steps"].get(state, 0)
    return n > n_before
