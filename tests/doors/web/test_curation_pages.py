"""Disagreements are decided; sessions are named, tagged, commented, deleted, and published."""

import json
import zipfile
from io import BytesIO

import duckdb
import pytest
from playwright.sync_api import expect

from peerage.events import Adjudicated, read_events
from tests.doors.http.conftest import running, simulated
from tests.doors.web.hostile_texts import HOSTILE

pytestmark = pytest.mark.needs("chromium")


def url(server):
    return str(server.client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """A server with five sessions that a person called local has judged backwards."""
    store = f"sqlite:///{tmp_path_factory.mktemp('curation')}/s.db"
    with running(store, simulated("ann", "bob", "cyd", "dan")) as started:
        started.ids = [started.hold(f"Question {i}?") for i in range(5)]
        for id_ in started.ids:
            ballot = started.client.get(f"/api/ballots/next?session={id_}").json()
            labels = [one["label"] for one in ballot["responses"]]
            review = {"ballot": ballot["ballot"], "ranking": labels[::-1]}
            assert started.client.post("/api/ballots", json=review).status_code == 201
        yield started


def test_a_disagreement_is_decided_and_the_decision_is_gold(bench, browse):
    tab = browse()
    tab.goto(f"{url(bench)}/adjudicate")
    expect(tab.locator("tbody tr")).to_have_count(5)
    tab.locator("tbody a").first.click()
    id_ = tab.url.split("/")[-1].split("?")[0]
    expect(tab.locator("table.votes")).to_contain_text("local")
    tab.get_by_label("Correct").first.check()
    tab.get_by_label("Reason").fill("It is checked.")
    tab.get_by_role("button", name="Decide").click()
    expect(tab.locator("nav.bar")).to_contain_text("2 of 5")
    facts = list(read_events(bench.service.store.events(id_)))
    (decision,) = [fact for fact in facts if isinstance(fact, Adjudicated)]
    assert (len(decision.correct), len(decision.judged), decision.by) == (1, 4, "local")
    files = bench.service.reports.review_files()
    rows = duckdb.execute(
        "select candidate, correct from read_parquet($files)"
        " where session_id = $id and reviewer = 'local'",
        {"files": [str(file) for file in files], "id": id_},
    ).fetchall()
    assert {name: value for name, value in rows if value} == {decision.correct[0]: 1.0}
    tab.goto(f"{url(bench)}/adjudicate")
    expect(tab.locator("tbody tr").first).to_contain_text(decision.correct[0])


def test_a_session_is_named_tagged_commented_deleted_and_restored(bench, browse):
    id_, tab = bench.ids[0], browse()
    tab.goto(f"{url(bench)}/sessions/{id_}")
    tab.locator("#notes").get_by_label("Comment").fill("Look **here**.")
    tab.get_by_role("button", name="Add a comment").click()
    expect(tab.locator("#notes")).to_contain_text("Look here.")
    tab.get_by_text("Tags, name, decision, delete").click()
    tab.get_by_label("Add tags").fill("good first")
    tab.get_by_role("button", name="Add", exact=True).click()
    expect(tab.locator("#notes .badge")).to_have_count(2)
    tab.get_by_text("Tags, name, decision, delete").click()
    tab.locator("#notes").get_by_label("Name").fill("The good one")
    tab.get_by_role("button", name="Rename").click()
    tab.goto(f"{url(bench)}/sessions")
    expect(tab.locator("#sessions-table")).to_contain_text("The good one")
    tab.goto(f"{url(bench)}/sessions/{id_}")
    tab.get_by_text("Tags, name, decision, delete").click()
    tab.get_by_role("button", name="Delete this session").click()
    tab.goto(f"{url(bench)}/deleted")
    tab.get_by_role("button", name="Restore").click()
    expect(tab.locator("main")).not_to_contain_text("This session was deleted")


def test_a_published_board_is_read_without_a_token_and_without_names_of_people(bench, browse):
    tab = browse()
    tab.goto(f"{url(bench)}/publish")
    tab.get_by_role("button", name="Make a link").click()
    link = tab.locator("#made-link").input_value()
    reader = browse(java_script_enabled=False)
    reader.goto(link)
    expect(reader.get_by_role("heading", level=1)).to_have_text("Board of models")
    for name in ("Audit", "Sessions"):
        reader.get_by_role("link", name=name).click()
        assert "local" not in reader.locator("main").inner_text()
    reader.get_by_role("link", name="Question").first.click()
    words = reader.locator("main").inner_text()
    assert "local" not in words
    assert "Look here." not in words
    text = link.rstrip("/").rsplit("/", 1)[-1]
    assert text not in str(bench.service.store.links("published"))
    tab.get_by_role("button", name="Revoke").click()
    assert reader.goto(link).status == 410
    reader.faults.clear()
    actions = bench.client.get("/api/actions").text
    assert text not in actions


def test_the_bundle_has_every_page_with_relative_links(bench):
    data = bench.client.get("/api/publications/bundle").content
    with zipfile.ZipFile(BytesIO(data)) as archive:
        names = set(archive.namelist())
        assert {"index.html", "audit.html", "sessions.html"} <= names
        assert sum(name.startswith("sessions/") for name in names) >= 5
        page = archive.read("sessions.html").decode()
        for id_ in bench.ids:
            assert f'href="sessions/{id_}.html"' in page
        html = archive.read(f"sessions/{bench.ids[1]}.html").decode()
        assert "local" not in html.partition("</style>")[2]


@pytest.mark.slow
def test_hostile_texts_run_nothing_on_the_new_pages(bench, browse):
    tab = browse()
    id_ = bench.ids[2]
    for text in HOSTILE[:40]:
        bench.client.post(f"/api/sessions/{id_}/comments", json={"text": text})
    hostile = HOSTILE[0]
    bench.client.post(f"/api/sessions/{id_}/name", json={"name": hostile[:200]})
    rows = "\n".join(json.dumps({"query": text}) for text in HOSTILE[:40])
    season = bench.client.post(f"/api/seasons?name={'%3Cb%3Ex'}", content=rows).json()["id"]
    invited = {"role": "reviewer", "name": "<img src=x onerror=alert(1)>"}
    bench.client.post("/api/invitations", json=invited)
    published = bench.client.post("/api/publications", json={"kind": "session", "of": id_}).json()
    paths = ("/seasons", f"/seasons/{season}", "/team", "/publish", f"/adjudicate/{id_}")
    for path in (*paths, f"/sessions/{id_}", published["path"]):
        tab.goto(url(bench) + path)
        assert tab.evaluate("window.ran") is None
