"""What a person sees and presses: real names, keys, two answers side by side."""

import re

import pytest
from playwright.sync_api import expect

from tests.doors.http.conftest import running, simulated

pytestmark = pytest.mark.needs("chromium")

REAL = (
    "anthropic/claude-sonnet-4.5-20260929:thinking",
    "anthropic/claude-sonnet-4.5-20260929",
    "anthropic/claude-opus-4.1-20260805",
    "openai/gpt-5.2-2026-08-07:high",
    "openai/gpt-5.2-mini-2026-08-07",
    "google/gemini-3.0-pro-preview-09-2026",
    "google/gemini-3.0-flash-lite-preview",
    "meta-llama/llama-4-maverick-17b-128e-instruct-fp8",
    "mistralai/mistral-large-2411",
    "qwen/qwen3-235b-a22b-thinking-2607",
    "deepseek/deepseek-r2-0528:free",
    "x-ai/grok-5-fast-reasoning",
)
SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifted += one.value;
}).observe({ type: "layout-shift", buffered: true });
"""


def url(server):
    return str(server.client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Twelve seats with names as providers give them, and one session."""
    store = f"sqlite:///{tmp_path_factory.mktemp('real')}/s.db"
    with running(store, simulated(*REAL)) as server:
        server.id = server.hold("Why?\r\nReally?")
        yield server


def test_real_names_hold_in_every_table_on_a_phone_and_on_a_desk(real, browse):
    for width in (390, 1280):
        tab = browse(viewport={"width": width, "height": 844})
        for path in (
            f"/sessions/{real.id}",
            "/boards/models?matrix=on",
            f"/sessions/{real.id}/compare",
        ):
            tab.goto(url(real) + path)
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            broken = tab.evaluate(
                """() => [...document.querySelectorAll('.model')].filter((one) => {
                  const box = one.closest('th, td, h2, h3, a, span, p');
                  if (getComputedStyle(box).display === 'inline') return false;
                  return box.scrollWidth > box.clientWidth + 2;
                }).length"""
            )
            assert broken == 0, path
        if width == 1280:
            tab.goto(f"{url(real)}/sessions/{real.id}")
            heads = tab.locator("table.votes thead th .model span[aria-hidden]").all_inner_texts()
            assert len(set(heads)) == len(heads) > 8


LISTS = ("/", "/sessions", "/seasons", "/panels", "/panels/configuration", "/settings", "/judges")


def test_lists_hold_on_a_phone_and_on_a_tablet_and_show_no_raw_times(real, browse):
    for width in (390, 800):
        tab = browse(viewport={"width": width, "height": 844})
        for path in (*LISTS, "/boards/models", "/team", "/imports"):
            tab.goto(url(real) + path)
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            cut = "[...document.querySelectorAll('.box')].some(x => x.scrollWidth > x.clientWidth)"
            assert not tab.evaluate(cut), path
            assert not re.search(r"\d{4}-\d\d-\d\dT", tab.locator("main").inner_text()), path


def test_answers_are_chosen_by_digits_and_compared_side_by_side(real, browse):
    tab = browse(viewport={"width": 1280, "height": 900})
    tab.goto(f"{url(real)}/sessions/{real.id}")
    for key in ("1", "3", "c"):
        tab.keyboard.press(key)
    expect(tab.locator(".side")).to_have_count(2)
    expect(tab.locator(".sidetext mark").first).to_be_visible()
    expect(tab.locator(".sidereviews li")).to_have_count(24)
    before = tab.locator(".side h2").last.inner_text()
    tab.keyboard.press("j")
    expect(tab.locator(".side h2").last).not_to_have_text(before)
    tab.keyboard.press("5")
    expect(tab.locator(".side")).to_have_count(3)
    tab.keyboard.press("?")
    expect(tab.get_by_role("dialog", name="Keys")).to_be_visible()


def test_cells_of_the_grid_are_reached_by_arrow_keys(real, browse):
    tab = browse()
    tab.goto(f"{url(real)}/sessions/{real.id}")
    tab.locator("table.votes tbody tr").first.locator("td a").first.focus()
    for key in ("ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    place = "document.activeElement.closest('td')"
    assert tab.evaluate(f"[{place}.parentElement.rowIndex, {place}.cellIndex]") == [2, 2]


def test_no_column_of_the_ranking_is_cut_on_narrow_desktops(real, browse):
    for width in (900, 1056, 1100, 1152, 1280):
        tab = browse(viewport={"width": width, "height": 900})
        for query in ("", "?rule=copeland"):
            tab.goto(f"{url(real)}/sessions/{real.id}{query}")
            table = tab.get_by_role("group", name="Ranking")
            assert table.evaluate("one => one.scrollWidth - one.clientWidth") <= 0, (width, query)


def test_an_address_opens_an_answer_and_lines_are_ended_as_on_any_system(real, browse):
    tab = browse()
    tab.goto(f"{url(real)}/sessions/{real.id}?open=answers/1")
    expect(tab.get_by_role("dialog", name="Details")).to_contain_text("words")
    assert real.client.get(f"/api/sessions/{real.id}").json()["query"]["text"] == "Why?\nReally?"


def test_unknown_addresses_are_pages_and_head_is_answered(real):
    page = real.client.get("/nowhere", headers={"accept": "text/html"})
    assert (page.status_code, page.headers["content-type"][:9]) == (404, "text/html")
    assert real.client.get("/api/nowhere").headers["content-type"] == "application/problem+json"
    assert real.client.head("/sessions").status_code == 200


def test_a_panel_that_cannot_vote_is_said_before_it_is_asked(real):
    words = real.client.get("/ask/estimate", params={"query": "?", "seats": REAL[:2]}).text
    assert "no vote can count" in words
    assert "no vote" not in real.client.get("/ask/estimate", params={"seats": REAL[:3]}).text


def test_a_board_is_sorted_searched_and_downloaded_without_leaving_it(real, browse):
    tab = browse(viewport={"width": 1280, "height": 900})
    tab.goto(f"{url(real)}/boards/models")
    names = tab.locator("#board-table tbody th[scope=row]")
    expect(names).to_have_count(12)
    tab.get_by_label("Search").fill("gemini")
    expect(names.filter(visible=True)).to_have_count(2)
    tab.get_by_label("Search").fill("")
    tab.get_by_role("button", name="Wins").click()
    wins = [int(x) for x in tab.locator("td[data-col=total_wins]").all_inner_texts()]
    assert wins == sorted(wins, reverse=True)
    tab.get_by_text("Columns", exact=True).click()
    tab.get_by_role("checkbox", name="Votes").check()
    expect(tab.locator("th[data-col=total_votes]")).to_be_visible()
    text = real.client.get("/api/boards/models/csv").text
    assert text.startswith("model,rank,rank_low,rank_high,tier,provisional")
    assert real.client.get("/api/boards/models/parquet").content[:4] == b"PAR1"


@pytest.mark.slow
def test_a_running_session_moves_nothing_and_its_verdict_leads(tmp_path, browse):
    with running(f"sqlite:///{tmp_path}/s.db", simulated(*REAL[:5], latency_ms=700)) as server:
        tab = browse(viewport={"width": 1280, "height": 900})
        tab.add_init_script(SHIFTS)
        id_ = server.client.post("/api/sessions", json={"query": "Why?"}).json()["id"]
        tab.goto(f"{url(server)}/sessions/{id_}")
        expect(tab.locator("#status.done")).to_be_visible()
        order = (
            "[...document.querySelectorAll('#verdict, #ranking, #answers, #grid')].map(x => x.id)"
        )
        assert tab.evaluate(order) == ["verdict", "ranking", "answers", "grid"]
        ranks = tab.locator("#answers .badge").all_inner_texts()
        assert ranks[0] == "1st"
        assert tab.evaluate("window.shifted") < 0.1


@pytest.mark.slow
def test_a_running_session_has_a_clock_and_is_stopped_after_a_question(tmp_path, browse):
    tab = browse()
    with running(
        f"sqlite:///{tmp_path}/s.db", simulated("ann", "bob", "cyd", latency_ms=600_000)
    ) as server:
        id_ = server.client.post("/api/sessions", json={"query": "Why?"}).json()["id"]
        tab.goto(f"{url(server)}/sessions/{id_}")
        expect(tab.locator("#status .elapsed")).to_have_text(re.compile(r"^([2-9]|\d\d) s$"))
        tab.get_by_text("Stop", exact=True).click()
        tab.get_by_role("button", name="Stop this session").click()
        expect(tab.locator("#status")).to_contain_text("the session was cancelled")
        expect(tab.locator("#verdict")).to_contain_text("without a verdict")
