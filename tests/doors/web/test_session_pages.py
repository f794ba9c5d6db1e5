"""Asking, watching, and looking at a session, in a real browser."""

import base64
import json

import pytest
from playwright.sync_api import expect

from peerage.types import Seat
from tests.doors.http.conftest import running, simulated

pytestmark = pytest.mark.needs("chromium")


def url(server):
    return str(server.client.base_url).rstrip("/")


def test_a_question_is_asked_and_watched_to_its_verdict(council, browse):
    tab = browse()
    tab.goto(url(council))
    tab.get_by_label("Question").fill("Why is the sky blue?")
    expect(tab.locator("#estimate")).to_contain_text("9 calls")
    tab.get_by_role("button", name="Ask", exact=True).click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("Why is the sky blue?")
    expect(tab.locator("#status")).to_contain_text("Finished")
    expect(tab.locator(".card .place, .card .text p")).to_have_count(4)
    expect(tab.locator("table.votes .place")).to_have_count(16)
    expect(tab.locator("table.ranking tbody tr")).to_have_count(4)
    expect(tab.locator("#verdict")).to_contain_text("Taken together")
    expect(tab.get_by_label("Show names")).to_be_checked()


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_an_image_is_attached_and_the_page_says_which_seats_get_it(tmp_path, browse):
    seats = [Seat("eye", provider="simulated", images=True), *simulated("bob", "cyd")]
    with running(f"sqlite:///{tmp_path}/s.db", seats) as server:
        tab = browse()
        tab.goto(url(server))
        expect(tab.locator("#images-note")).to_contain_text("Only eye gets them")
        tab.get_by_label("Question").fill("What is this?")
        file = {"name": "dot.png", "mimeType": "image/png", "buffer": PIXEL}
        tab.get_by_label("Images").set_input_files(file)
        tab.get_by_role("button", name="Ask", exact=True).click()
        expect(tab.locator("#status")).to_contain_text("Finished")
        assert tab.locator(".images img").evaluate("one => one.naturalWidth") == 1
        assert "Not seen by bob, cyd" in tab.locator(".question").inner_text()


def test_a_file_that_is_not_an_image_is_refused_and_the_question_stays(council):
    files = {"images": ("notes.png", b"only words", "image/png")}
    page = council.client.post("/ask", data={"query": "What is <this>?"}, files=files)
    assert page.status_code == 422
    assert "notes.png: this file is not an image." in page.text
    assert "What is &lt;this&gt;?</textarea>" in page.text


def test_a_page_mentions_own_answers_only_where_a_reviewer_wrote_one(council, browse):
    given = {"answers": {"one": "Blue light scatters.", "two": "The sea is mirrored."}}
    tab = browse()
    for extra, says in (({}, True), (given, False)):
        asked = {"query": "Why is the sky blue?", **extra}
        id_ = council.client.post("/api/sessions", json=asked).json()["id"]
        tab.goto(f"{url(council)}/sessions/{id_}")
        expect(tab.locator("#status")).to_contain_text("Finished")
        assert ("own answer (dashed)" in tab.locator("#grid").inner_text()) == says
        assert ("vote on its own answer" in tab.locator("#ranking").inner_text()) == says


def test_names_are_hidden_until_the_end_and_can_be_switched(tmp_path, browse):
    seats = simulated("ann", "bob", "cyd", latency_ms=600_000)
    with running(f"sqlite:///{tmp_path}/s.db", seats) as server:
        id_ = server.client.post("/api/sessions", json={"query": "Why?"}).json()["id"]
        tab = browse()
        tab.goto(f"{url(server)}/sessions/{id_}")
        assert "ann" not in tab.locator("main").inner_text()
        expect(tab.locator("#ranking")).to_contain_text("Not counted yet")
        tab.get_by_label("Show names").check()
        assert "ann" in tab.locator("main").inner_text()
        assert "names=shown" in tab.url
        tab.get_by_label("Show names").uncheck()
        server.client.delete(f"/api/sessions/{id_}")
        expect(tab.locator("#status")).to_contain_text("Ended early: the session was cancelled")
        expect(tab.get_by_label("Show names")).to_be_checked()


@pytest.mark.slow
def test_the_list_of_sessions_follows_those_that_run_and_nothing_moves(tmp_path, browse):
    with running(
        f"sqlite:///{tmp_path}/s.db", simulated("ann", "bob", "cyd", latency_ms=600_000)
    ) as server:
        id_ = server.client.post("/api/sessions", json={"query": "Why?"}).json()["id"]
        tab = browse()
        tab.goto(f"{url(server)}/sessions")
        row = tab.locator("#sessions-table tbody tr")
        expect(row).to_contain_text("answers 0 of 3")
        place = row.bounding_box()
        server.client.delete(f"/api/sessions/{id_}")
        expect(row).to_contain_text("cancelled")
        expect(tab.locator("#running[hx-get]")).to_have_count(0)
        assert row.bounding_box() == place


def test_a_cell_opens_marks_notes_the_reply_and_the_order_shown(council, browse):
    id_ = council.hold("Which?")
    document = council.client.get(f"/api/sessions/{id_}").json()
    tab = browse()
    tab.goto(f"{url(council)}/sessions/{id_}")
    row = tab.locator('table.votes tbody tr:has(th .model:text-is("ann"))').first
    row.locator("td a").first.click()
    drawer = tab.get_by_role("dialog")
    expect(drawer.locator(".marks div")).not_to_have_count(0)
    expect(drawer).to_contain_text("reads as a")
    order = drawer.locator(".order li .name").all_inner_texts()
    seen = document["reviewer_position_mapping"]["ann"]
    assert order == sorted(seen, key=seen.get)
    drawer.get_by_text("The raw reply").click()
    expect(drawer.locator("pre.raw")).to_contain_text("evaluations")
    assert "open=" in tab.url
    again = browse()
    again.goto(tab.url)
    expect(again.get_by_role("dialog").locator(".order li")).to_have_count(4)
    again.keyboard.press("Escape")
    again.wait_for_url(lambda address: "open=" not in address)
    for link in (row.locator("td a").first, tab.get_by_role("link", name="Read in full").first):
        assert again.goto(url(council) + link.get_attribute("href")).status == 200
        expect(again.get_by_role("heading", level=1)).to_have_text("Which?")
        expect(again.get_by_role("dialog").locator("h2").first).to_be_visible()


@pytest.mark.slow
def test_a_session_can_be_replayed_under_another_rule_and_the_address_says_so(council, browse):
    id_ = council.hold("Replay?")
    tab = browse()
    tab.goto(f"{url(council)}/sessions/{id_}")
    tab.get_by_text("Replay under another rule").click()
    tab.locator("select[name=rule]").select_option("schulze")
    expect(tab.locator("#ranking")).to_contain_text("schulze")
    assert "rule=schulze" in tab.url
    again = browse()
    again.goto(tab.url)
    assert again.locator("#ranking").inner_text() == tab.locator("#ranking").inner_text()


@pytest.mark.slow
def test_a_session_is_copied_as_markdown_and_downloaded_as_json(council, browse):
    id_ = council.hold("Copy?")
    tab = browse(permissions=["clipboard-read", "clipboard-write"])
    tab.goto(f"{url(council)}/sessions/{id_}")
    tab.get_by_role("link", name="Copy as Markdown").click()
    expect(tab.locator("#toast")).to_have_text("Copied as Markdown")
    copied = tab.evaluate("navigator.clipboard.readText()")
    assert "Copy?" in copied
    assert "Taken together" in copied
    with tab.expect_download() as held:
        tab.get_by_role("link", name="Download JSON").click()
    assert json.loads(held.value.path().read_text())["id"] == id_


@pytest.mark.slow
def test_two_browsers_see_one_session_and_its_parts_are_rendered_once(tmp_path, browse):
    seats = simulated("ann", "bob", "cyd", latency_ms=1500)
    with running(f"sqlite:///{tmp_path}/s.db", seats) as server:
        id_ = server.client.post("/api/sessions", json={"query": "Two?"}).json()["id"]
        tabs = [browse(), browse()]
        for tab in tabs:
            tab.goto(f"{url(server)}/sessions/{id_}")
        for tab in tabs:
            expect(tab.locator("#status")).to_contain_text("Finished")
            tab.get_by_role("button", name="Show the whole verdict").click()  # nothing moved so far
        reloaded = browse()
        reloaded.goto(f"{url(server)}/sessions/{id_}")
        for part in ("#grid", "#ranking", "#verdict", "#answers", "#foot"):
            seen = {tab.locator(part).inner_text() for tab in (*tabs, reloaded)}
            assert len(seen) == 1
