"""A file is dropped, previewed, imported and undone; the demo keeps to a store of its own."""

import io
import re
import zipfile

import pytest
from playwright.sync_api import expect

from tests.doors.http.conftest import running, simulated

pytestmark = pytest.mark.needs("chromium")

ROWS = "session_id,reviewer,candidate,rank\n" + "\n".join(
    f"s{i},r{j},m{k},{k + 1}" for i in range(4) for j in range(2) for k in range(3)
)


def url(server):
    return str(server.client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """A server with an empty store."""
    store = f"sqlite:///{tmp_path_factory.mktemp('transfer')}/s.db"
    with running(store, simulated("ann", "bob", "cyd")) as started:
        yield started


def drop(tab, name, text):
    file = {"name": name, "mimeType": "text/csv", "buffer": text.encode()}
    tab.locator("input[type=file]").set_input_files(file)
    tab.get_by_role("button", name="Preview").click()


def test_a_file_is_previewed_imported_and_undone(bench, browse):
    tab = browse()
    tab.goto(f"{url(bench)}/imports")
    drop(tab, "bad.csv", "session_id,reviewer,candidate,rank\ns1,r1,m1,first")
    expect(tab.get_by_role("alert")).to_contain_text("cannot be imported")
    tab.faults.clear()
    drop(tab, "ratings.csv", "model,rating\nm1,7\nm2,6")
    expect(tab.get_by_role("alert")).to_contain_text("unknown")
    expect(tab.locator("main")).to_contain_text("rename model to candidate, rating to score")
    expect(tab.locator("main")).not_to_contain_text("--")
    tab.faults.clear()
    drop(tab, "mine.csv", ROWS)
    expect(tab.locator("main")).to_contain_text("24 rows of reviews")
    assert bench.client.get("/api/imports").json()["imports"] == []
    tab.get_by_role("button", name="Import 24 rows").click()
    expect(tab.locator("main")).to_contain_text("mine.csv")
    board = bench.client.get("/api/boards/models?since=all").json()
    assert [row["model"] for row in board["rows"]] == ["m0", "m1", "m2"]
    tab.get_by_role("button", name="Undo").click()
    expect(tab.locator("main")).to_contain_text("undone")
    assert bench.client.get("/api/boards/models?since=all").json()["rows"] == []
    drop(tab, "mine.csv", ROWS)
    tab.get_by_role("button", name="Import 24 rows").click()
    expect(tab.get_by_role("status").filter(has_text="undone")).to_be_visible()
    assert bench.client.get("/api/boards/models?since=all").json()["rows"] == []


def test_a_file_of_a_deleted_session_is_refused_with_a_link_that_restores_it(tmp_path, browse):
    with running(f"sqlite:///{tmp_path}/s.db", simulated("ann", "bob", "cyd")) as server:
        id_ = server.hold("Why?")
        exported = zipfile.ZipFile(io.BytesIO(server.client.get("/api/export").content))
        (name,) = (one for one in exported.namelist() if one.endswith("sessions.jsonl"))
        server.client.post("/api/deletions", json={"sessions": [id_]})
        tab = browse()
        tab.goto(f"{url(server)}/imports")
        drop(tab, "sessions.jsonl", exported.read(name).decode())
        tab.get_by_role("button", name="Import 1 session").click()
        expect(tab.get_by_role("alert")).to_contain_text("in the store already")
        expect(tab.get_by_role("alert")).not_to_contain_text("peerage delete")
        tab.faults.clear()
        tab.get_by_role("link", name="Restore it").click()
        tab.get_by_role("button", name="Restore").click()
        expect(tab.get_by_role("heading", name="Why?")).to_be_visible()


def test_the_demo_has_its_own_store_and_shows_what_was_planted(bench, browse):
    tab = browse()
    tab.goto(f"{url(bench)}/demo")
    tab.get_by_role("button", name="Run the demo").click()
    expect(tab.locator("main")).to_contain_text("Who is best?", timeout=120_000)
    expect(tab.locator("main")).to_contain_text(
        re.compile(r"charlie gives 2 points[^.]*own answers")
    )
    expect(tab.locator("ol.guide .answer").first).to_be_hidden()  # also that of the first question
    favours = tab.get_by_role("heading", name="Which judge favours itself?")
    step = tab.locator("li", has=favours)
    expect(step.locator(".answer")).to_be_hidden()
    expect(step).to_contain_text("could not be measured: able and echo")
    step.get_by_text("Answer", exact=True).click()
    expect(step.locator(".answer")).to_have_text("charlie")
    expect(tab.locator("ol.guide > li").last).to_contain_text("480 answers")
    expect(step).to_contain_text(re.compile(r"charlie[^.]*own answers [\d.]+ points"))
    expect(tab.locator("#busy")).to_be_hidden()
    step.get_by_role("link", name="See it in the audit").click()
    card = tab.locator("details[open]", has=tab.locator("#of-charlie"))
    expect(card).to_contain_text(re.compile(r"own answers [\d.]+ points"))
    expect(card.locator("table")).to_contain_text("Preference for own answers")
    tab.get_by_role("link", name="Sessions").click()
    tab.locator(".linklist a").first.click()
    expect(tab.get_by_role("heading", level=1)).to_contain_text("?")
    expect(tab.locator("td.own")).to_have_count(5)
    tab.get_by_role("link", name="Back to the guide").click()
    expect(tab.locator("ol.guide")).to_be_visible()
    assert bench.client.get("/api/sessions").json()["sessions"] == []
    for path in ("/judges", "/boards/models", "/seasons", "/"):
        tab.goto(url(bench) + path)
        expect(tab.locator("main a[href='/demo']")).to_contain_text("results")


def test_without_a_panel_the_first_page_offers_the_demo_before_a_question(tmp_path, browse):
    with running(f"sqlite:///{tmp_path}/s.db", []) as server:
        tab = browse()
        tab.goto(url(server))
        assert tab.locator("main .primary").all_inner_texts() == ["Run the demo"]
        expect(tab.get_by_role("group", name="Panel")).to_have_count(0)
        assert "this panel" not in tab.locator("main").inner_text()
