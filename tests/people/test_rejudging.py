"""Stored answers before other judges: paired shifts, costs, and boards that do not change."""

import asyncio
from dataclasses import replace

import pytest

from peerage import Council, Seat
from peerage import open as open_stored
from peerage.anchors import report_anchors, set_anchors
from peerage.config import Settings
from peerage.errors import BudgetError, PeerageError
from peerage.events import Rechecked, read_events
from peerage.rejudging import estimate_rejudging, rejudge, report_rejudging
from peerage.reports.session_options import AnchorOptions, RejudgeOptions
from peerage.stores import open_store as open_log
from tests.doors.http.conftest import running
from tests.small_seasons import hold_season

N = 12
JUDGES = (
    Seat("strict", provider="simulated", options={"harshness": 2.0, "noise": 0.2}),
    Seat("fair", provider="simulated", options={"noise": 0.2}),
)


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'z.db'}"
    hold_season(url, ["a", "b", "c", "d"], n=N, noise=0.2)
    return url


def judged(url, *names, seats=JUDGES, **options):
    """The report of a re-judging, and the number of calls that it took."""

    async def scene():
        async with Council(store=url, seats=seats, rubric="general", **options) as council:
            season = next(iter(council.store.sessions())).season
            report = await rejudge(council, RejudgeOptions(season=season, judges=names), iter_s())
            return report, looks_of(council.store)

    return asyncio.run(scene())


def iter_s():
    ticks = iter(range(10**6))
    return lambda: 1e9 + next(ticks)


def looks_of(store):
    return [
        fact
        for one in store.sessions()
        for fact in read_events(store.events(one.id))
        if isinstance(fact, Rechecked)
    ]


def test_a_strict_judge_shifts_marks_by_its_strictness_and_boards_stay(url):
    before = open_stored(url).board_models().document()
    report, looks = judged(url, "strict,fair")
    strict, fair = (next(one for one in report.judges if one.name == n) for n in ("strict", "fair"))
    assert strict.low < -2.0 < strict.high or strict.shift == pytest.approx(-2.0, abs=0.4)
    assert fair.low is not None
    assert abs(fair.shift) < 0.4
    assert {one.name for one in report.models} == {"a", "b", "c", "d"}
    assert all(one.n == N and one.low is not None for one in report.models)
    assert [one.reviews for one in report.judges] == [N, N]
    assert all(one["reviews"] is None for one in report.document()["models"])  # models judge none
    assert len(looks) == 2 * N == report.n_sessions * 2
    assert open_stored(url).board_models().document() == before


def test_the_same_command_again_asks_nobody_and_another_setup_asks_anew(url):
    first, looks = judged(url, "fair")
    again, later = judged(url, "fair")
    assert len(later) == len(looks) == N
    assert again.document() == first.document()
    warmer = (JUDGES[0], replace(JUDGES[1], temperature=1.5))
    _, looks = judged(url, "fair", seats=warmer)
    assert len(looks) == 2 * N


def test_failed_reviews_are_named_and_asked_for_again(url):
    flaky = (JUDGES[0], replace(JUDGES[1], options={"failure_rate": 1.0}))
    report, looks = judged(url, "fair", seats=flaky)
    assert not looks
    assert report.failed
    assert report.n_failed >= N


def test_a_budget_that_runs_out_keeps_what_was_heard(url):
    dear = (JUDGES[0], replace(JUDGES[1], price_in=1_000.0, price_out=1_000.0))
    with pytest.raises(BudgetError):
        judged(url, "fair", seats=dear, budget_usd=15.0)
    kept = looks_of(open_log(url))
    assert 0 < len(kept) < N
    report, looks = judged(url, "fair", seats=dear)
    assert len(looks) == N
    assert report.cost_usd == pytest.approx(sum(look.usage.cost_usd for look in looks))


def test_looks_of_a_rejudging_are_no_checks_of_the_anchors(url):
    judged(url, "fair")
    store = open_log(url)
    season = next(iter(store.sessions())).season
    set_anchors(store, AnchorOptions(season=season, n=5), iter_s())
    assert report_anchors(store, Settings()).checks == ()
    assert report_rejudging(store, Settings(), season).n_sessions == N


def test_unknown_seasons_and_seats_are_refused(url):
    with pytest.raises(PeerageError, match="no seat"):
        judged(url, "nobody")
    with pytest.raises(PeerageError, match="no season"):
        report_rejudging(open_log(url), Settings(), "zzz")


def test_a_dry_run_counts_the_calls_that_are_left_and_calls_nobody(url):
    async def estimate(*names):
        async with Council(store=url, seats=priced, rubric="general") as council:
            season = next(iter(council.store.sessions())).season
            options = RejudgeOptions(season=season, judges=names)
            return await estimate_rejudging(council, options)

    priced = tuple(replace(one, price_in=1.0, price_out=1.0) for one in JUDGES)
    before = asyncio.run(estimate("strict,fair"))
    assert (before.n_calls, before.progress.reused) == (2 * N, 0)
    assert 0 < before.cost_usd <= before.at_most_usd
    assert not looks_of(open_log(url))
    judged(url, "fair", seats=priced)
    after = asyncio.run(estimate("strict,fair"))
    assert after.n_calls == N
    assert asyncio.run(estimate("fair")).document()["finished"] == N


def test_a_server_has_a_season_judged_again_and_reports_it(url):
    season = next(iter(open_log(url).sessions())).season
    with running(url, list(JUDGES)) as server:
        path = f"/api/seasons/{season}/rejudging"
        judges = {"judges": ["fair"]}
        estimate = server.client.post(path, json={**judges, "dry_run": True}).json()
        assert (estimate["dry_run"], estimate["calls"]) == (True, N)
        assert not looks_of(open_log(url))
        report = server.client.post(path, json=judges, timeout=120).json()
        assert [one["name"] for one in report["judges"]] == ["fair"]
        assert len(looks_of(open_log(url))) == N
        assert server.client.get(path).json()["models"] == report["models"]
        for body, words in (({"judges": ["zed"]}, "zed"), ({"jugdes": ["a"]}, "jugdes")):
            refused = server.client.post(path, json=body)
            assert refused.status_code == 422
            assert words in refused.text
        assert server.client.get("/api/seasons/nosuch/rejudging").status_code in (404, 422)
