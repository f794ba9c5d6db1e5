"""Boards, what-if, models, judges, rings and settings, in a real browser."""

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from playwright.sync_api import expect
from starlette.requests import Request

from peerage import config
from peerage.doors.demo_store import N_SESSIONS, SEED, demo_seats, run_demo_season
from peerage.doors.http.report_routes import MAX_AT_ONCE
from peerage.doors.web.board_pages import versus
from peerage.doors.web.judge_pages import finding_bars
from peerage.doors.web.templating import computing_words, kept_page
from peerage.findings import Audit, Finding
from peerage.panel import Council
from peerage.reports import Reports
from peerage.reports.options import ModelBoardOptions
from peerage.reports.page_facts import (
    WhatIfOptions,
    stored_rows,
    weighted_kappa,
    what_if_board,
)
from peerage.reports.recounts import recount
from peerage.season import Progress
from tests.doors.http.conftest import running, simulated

pytestmark = pytest.mark.needs("chromium")
PATIENCE_MS = 180_000  # for a season of simulated sessions on a loaded machine


def url(server):
    return str(server.client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """An installation whose store has the demo's season."""
    store = f"sqlite:///{tmp_path_factory.mktemp('demo')}/s.db"
    settings = config.load(
        flags={"store": store, "seat": demo_seats(), "council.seed": SEED}, environ={}
    )

    async def fill():
        async with Council(settings) as council:
            await run_demo_season(council, Progress(N_SESSIONS))

    with ThreadPoolExecutor(1) as thread:  # the browser's event loop runs in this one
        thread.submit(asyncio.run, fill()).result()
    with running(store, simulated("ann", "bob", "cyd")) as server:
        yield server


def ranking(tab):
    return tab.locator("table.board tbody th a").all_inner_texts()


def test_one_press_on_an_empty_installation_leads_to_the_board_of_the_demo(tmp_path, browse):
    with running(f"sqlite:///{tmp_path}/s.db", simulated("ann", "bob", "cyd")) as server:
        tab = browse()
        tab.goto(url(server))
        tab.get_by_role("button", name="Run the demo").click()
        tab.get_by_text("Answer", exact=True).first.click(timeout=PATIENCE_MS)
        tab.get_by_role("link", name="See it on the board").click()
        expect(tab.locator("main")).to_contain_text("able")
        words = tab.locator("main").inner_text()
        places = [words.index(name) for name in ("able", "baker", "charlie", "delta", "echo")]
        assert places == sorted(places)


def test_the_board_has_the_true_order_and_the_first_page_says_who_would_answer(demo, browse):
    tab = browse()
    tab.goto(f"{url(demo)}/boards/models")
    assert ranking(tab) == ["able", "baker", "charlie", "delta", "echo"]
    tab.goto(url(demo))
    expect(tab.locator("main")).to_contain_text("3 seats are simulated")


def test_what_if_changes_the_board_and_its_link_shows_the_same_to_another(demo, browse):
    tab = browse()
    tab.goto(f"{url(demo)}/boards/models")
    tab.get_by_text("What if …").click()
    tab.locator("select[name=own_votes]").select_option("in")
    expect(tab.locator("#board")).to_contain_text("What if:")
    tab.locator("input[name=w_clarity]").fill("90")
    tab.locator("input[name=w_clarity]").dispatch_event("change")
    tab.wait_for_url("**w_clarity=90**")
    for name in ("able", "echo"):
        tab.get_by_label(name, exact=True).check()
    tab.wait_for_url("**without=able&without=echo**")
    expect(tab.locator("#board tbody tr").last).to_contain_text("360")
    assert "own_votes=in" in tab.url
    other = browse()
    other.goto(tab.url)
    assert other.locator("#board").inner_text() == tab.locator("#board").inner_text()


def test_weights_as_recorded_give_the_recorded_board(demo):
    reports = demo.service.reports
    rubric = config.rubric("general")
    weights = {name: float(weight) for name, weight in rubric.weights.items()}
    plain = reports.board(ModelBoardOptions(since="all"))
    same = what_if_board(reports, WhatIfOptions(since="all", weights=weights), rubric)
    assert same.rows == plain.rows
    lone = what_if_board(reports, WhatIfOptions(since="all", without=("able",)), rubric)
    assert [row["total_votes"] for row in lone.rows] != [row["total_votes"] for row in plain.rows]


@pytest.mark.parametrize("change", [{"ceiling": False}, {"without": ("able",)}])
def test_rows_in_memory_and_the_table_of_them_make_the_same_board(demo, change):
    """A window that has an end is read from the table; this one ends after every review."""
    reports, rubric = demo.service.reports, config.rubric("general")
    end = "2100-01-01"
    in_memory = what_if_board(reports, WhatIfOptions(since="all", **change), rubric)
    as_table = what_if_board(reports, WhatIfOptions(since="all", as_of=end, **change), rubric)
    assert in_memory.rows == as_table.rows


def test_an_answer_that_fails_the_gate_goes_last_on_every_ballot(demo):
    rows = stored_rows(demo.service.reports)
    failed = [(rows.session_ids[0], "able")]
    changed = recount(rows, None, {}, failed=failed).numbers
    mine = (rows.session == 0) & (rows.candidate == rows.names.index("able"))
    assert changed["rank"][mine].tolist() == [5.0] * 5
    others = rows.session != 0
    assert np.array_equal(changed["rank"][others], rows.numbers["rank"][others])


def test_kappa_is_one_for_equal_places_and_zero_for_chance():
    assert weighted_kappa(np.eye(3, dtype=np.int64)) == 1
    assert weighted_kappa(np.ones((3, 3), dtype=np.int64)) == pytest.approx(0)
    assert weighted_kappa(np.ones((1, 1), dtype=np.int64)) is None


@pytest.mark.slow
def test_the_last_board_is_shown_while_a_newer_one_is_computed(council, browse):
    turn, tab = council.app.state.report_cache._turn, browse()
    address = f"{url(council)}/boards/models?since=all"
    council.hold("A first question")
    tab.goto(address)
    expect(tab.locator("#board")).to_contain_text("Counted from 1 session")
    council.hold("A second question")
    for _ in range(MAX_AT_ONCE):  # others are being computed, so this board has to wait
        asyncio.run_coroutine_threadsafe(turn.acquire(), council.loop).result(60)
    tab.goto(address)
    expect(tab.locator(".newer")).to_contain_text("1 session is newer")
    expect(tab.locator("#board")).to_contain_text("Counted from 1 session")
    tab.get_by_label("Search").fill("bob")
    for _ in range(MAX_AT_ONCE):
        council.loop.call_soon_threadsafe(turn.release)
    expect(tab.locator("#board")).to_contain_text("Counted from 2 sessions")
    expect(tab.locator(".newer")).to_have_count(0)
    expect(tab.locator("#board-table tr[data-row]").filter(visible=True)).to_have_count(1)
    assert tab.url == f"{address}&search=bob"


@pytest.mark.slow
def test_an_error_while_a_page_is_computed_is_a_sentence_on_it(council):
    can_fail = threading.Event()

    def fail():
        can_fail.wait(60)
        raise RuntimeError("a fault of the program")

    @council.app.get("/faulty")
    async def faulty(request: Request):
        return await kept_page(request, "gate.html", "/boards/models", fail)

    with council.client.stream("GET", "/faulty", headers={"accept": "text/html"}) as answer:
        parts = answer.iter_text()
        top = next(parts)
        can_fail.set()
        rest = "".join(parts)
    assert "Computing from " in top
    assert "internal error; see the server&#39;s log." in rest
    assert rest.rstrip().endswith("</html>")
    assert "a fault" not in rest


def test_a_finding_is_drawn_against_its_own_healthy_range():
    all_, one = (
        Finding(
            "self_preference",
            who,
            value,
            value - 0.04,
            value + 0.04,
            0.01,
            100,
            20,
            status,
            edge=edge,
        )
        for who, value, status, edge in (
            ("all", 0.03, "clear", 0.25),
            ("ann", 0.18, "evidence", 0.125),
        )
    )
    for bar in finding_bars(Audit((all_, one))):
        start, width = bar.healthy
        low, high = bar.axis.x(bar.finding.low), bar.axis.x(bar.finding.high)
        is_inside = start <= low and high <= start + width
        assert is_inside == (bar.finding.status == "clear")


def test_a_head_to_head_cell_leads_to_the_sessions_that_decided_it(demo, browse):
    tab = browse()
    tab.goto(f"{url(demo)}/boards/models?matrix=on")
    tab.locator("table.versus tbody tr").first.locator("td a").last.click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("able against echo")
    tab.locator("tbody th a").first.click()
    expect(tab.locator("#verdict")).to_be_visible()


def test_every_pair_of_two_hundred_models_has_its_cell_a_block_at_a_time():
    names = [f"m{i:03}" for i in range(200)]
    rates = [[None if i == j else 0.5 for j in range(200)] for i in range(200)]
    matrix = {"models": names, "above": rates, "n": [[9] * 200] * 200}
    first = versus(matrix, {})
    assert len(first.rows) == len(first.columns) < 30
    pairs = {
        (name, other)
        for rows, _ in first.row_blocks
        for columns, _ in first.column_blocks
        for name, cells in versus(matrix, {"rows": rows, "columns": columns}).rows
        for other, _, _ in cells
    }
    assert len(pairs) == 200 * 200
    assert [name for name, _ in versus(matrix, {"search": "M19"}).rows] == names[190:]


def test_a_board_of_blind_and_committed_reviews_says_so_and_shows_either_kind(tmp_path):
    store, sessions = f"sqlite:///{tmp_path}/s.db", []

    def hold_sessions():
        for kind in ("blind", "committed"):
            seats = simulated("ann", "bob", "cyd")
            with Council(seats=seats, store=store, seed=7, review=kind) as council:
                sessions[:] = [council.ask_sync(f"Why {i}?").id for i in range(4)]

    with ThreadPoolExecutor(1) as thread:  # the browser's event loop runs in this one
        thread.submit(hold_sessions).result()
    with running(store, simulated("ann", "bob", "cyd")) as server:
        pages = {
            kind: server.client.get("/boards/models", params={"review": kind}).text
            for kind in ("", "blind", "committed")
        }
        board = server.client.get("/boards/models/json?review=committed").json()
        one = server.client.get(f"/sessions/{sessions[0]}").text
        judges = server.client.get("/judges").text
    for kind, page in pages.items():
        assert ("12 blind, 12 committed" in page) == (not kind)
        assert 'name="review"' in page
    assert (board["parameters"]["review"], board["sessions"]) == ("committed", 4)
    assert "12 blind, 12 committed" in judges
    assert "Committed reviews" in one
    assert "Blind reviews" not in one
    assert "did not rank it" in one


def test_a_what_if_that_cannot_be_keeps_the_page_and_says_why(demo, browse):
    tab = browse()
    tab.goto(f"{url(demo)}/boards/models?category=nowhere")
    expect(tab.locator("#board")).to_contain_text("no category")
    assert tab.get_by_label("Category").input_value() == "nowhere"


@pytest.mark.slow
def test_the_bench_names_the_planted_faults_and_compares_two_reviewers(demo, browse):
    tab = browse()
    tab.goto(f"{url(demo)}/judges")
    found = tab.locator(".findings")
    at_first = r"baker gives [\d.]+ points more to answers shown at the first place"
    expect(found).to_contain_text(re.compile(at_first))
    expect(found).to_contain_text(re.compile(r"charlie gives its own answers [\d.]+ points more"))
    expect(tab.locator("main strong")).to_contain_text("1 of 5 reviewers: baker")
    tab.get_by_text("Compare two reviewers").click()
    tab.locator("select[name=a]").select_option("able")
    tab.locator("select[name=b]").select_option("baker")
    expect(tab.locator("#pair")).to_contain_text("κ of places")
    tab.goto(f"{url(demo)}/models?name=charlie")
    expect(tab.locator("main")).to_contain_text("Marks by dimension")
    expect(tab.locator(".findings").first).to_contain_text("its own answers")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_tastes_are_drawn_on_a_phone_with_own_answers_marked(demo, browse, scheme):
    tab = browse(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    tab.goto(f"{url(demo)}/judges")
    pictures = tab.locator(".tastes figure")
    document = demo.client.get("/api/audit").json()["tastes"]
    assert pictures.count() == len({one["reviewer"] for one in document["departures"]}) > 2
    tab.get_by_text("Tastes of each reviewer").click()
    charlie = pictures.filter(has=tab.locator("figcaption", has_text="charlie"))
    own = charlie.locator("li.own")
    expect(own).to_have_count(1)
    expect(own).to_contain_text("own answers")
    (mine,) = (one for one in document["departures"] if one["own"] and one["reviewer"] == "charlie")
    expect(own).to_contain_text(f"{mine['value']:+.2f}")
    mark, band = own.locator("rect.diamond"), own.locator("rect.usual")
    assert mark.bounding_box()["x"] > band.bounding_box()["x"] + band.bounding_box()["width"]
    assert mark.evaluate("one => getComputedStyle(one).fill") != "none"
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_communities_can_be_simulated_and_their_rings_are_drawn_the_same(demo, browse):
    tab = browse()
    changes = "source=simulated&honest=60&affiliation_bonus_points=0&scale=-1,0,1,2"
    tab.goto(f"{url(demo)}/boards/contributors?{changes}")
    expect(tab.locator("#board")).to_contain_text("move")
    document = demo.client.get(f"/boards/contributors/json?{changes}").json()
    assert document["parameters"]["scale"] == [-1, 0, 1, 2]
    expect(tab.locator("#board .facts")).to_contain_text("median")
    pictures = []
    for _ in range(2):
        tab.goto(f"{url(demo)}/rings?source=simulated")
        pictures.append(tab.locator(".graph svg").inner_html())
    assert pictures[0] == pictures[1]
    expect(tab.locator("main")).to_contain_text("Ring of 6")


@pytest.mark.slow
def test_sessions_are_searched_and_settings_show_no_secret(demo, browse):
    tab = browse()
    tab.goto(f"{url(demo)}/sessions")
    tab.get_by_label("Search").fill("ten-year-old: how do tides")
    expect(tab.locator("#sessions-table tbody tr")).to_have_count(1)
    assert "search=ten" in tab.url
    tab.goto(f"{url(demo)}/settings")
    tab.get_by_role("button", name="Test each seat").click()
    expect(tab.locator("#seats")).to_contain_text("A session can run now.")
    assert Reports(demo.service.settings).settings.store in tab.locator("main").inner_text()


def test_a_page_that_is_computed_says_from_how_much(demo):
    words = computing_words(demo.service.store)
    assert words == f"Computing from the reviews of {N_SESSIONS} sessions …"
