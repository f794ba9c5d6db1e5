"""A season is dropped, previewed, estimated, run, paused, continued and compared in the browser."""

import json

import pytest
from playwright.sync_api import expect

from tests.doors.http.conftest import running, simulated

pytestmark = pytest.mark.needs("chromium")


def url(server):
    return str(server.client.base_url).rstrip("/")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """A server whose four seats take a moment for everything."""
    store = f"sqlite:///{tmp_path_factory.mktemp('seasons')}/s.db"
    with running(store, simulated("ann", "bob", "cyd", "dan", latency_ms=40)) as started:
        yield started


def drop(tab, name, text):
    tab.locator("input[type=file]").set_input_files(
        {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
    )
    tab.get_by_role("button", name="Preview").click()


def test_wrong_lines_are_named_and_nothing_is_stored(bench, browse):
    tab = browse()
    tab.faults.clear()
    tab.goto(f"{url(bench)}/seasons")
    drop(tab, "bad.jsonl", '{"query": "Why?"}\nnonsense\n{"category": "x"}\n{"query": "How?"}\n')
    expect(tab.locator("main")).to_contain_text("2 of 4 rows")
    expect(tab.locator("main")).to_contain_text("Line 2: this line is not JSON.")
    expect(tab.locator("main")).to_contain_text("Line 3:")
    assert bench.client.get("/api/seasons").json()["seasons"] == []
    tab.faults[:] = [one for one in tab.faults if "422" not in one]


def test_a_season_is_previewed_estimated_watched_paused_and_continued(bench, browse):
    tab = browse()
    tab.goto(f"{url(bench)}/seasons")
    rows = [f"q{i},What is {i} and {i}?,sums,x" for i in range(30)]
    drop(tab, "sums.csv", "\n".join(["id,query,category,colour", *rows]))
    expect(tab.locator("main")).to_contain_text("30 prompts, in 1 category")
    expect(tab.locator("main")).to_contain_text("not used: colour")
    tab.get_by_label("Sessions at a time").fill("2")
    tab.get_by_role("button", name="Dry run").click()
    expect(tab.locator("#estimate")).to_contain_text("270 calls")
    tab.get_by_role("button", name="Start").click()
    expect(tab.locator("#season-status")).to_contain_text("running")
    expect(tab.locator("#season-status")).to_contain_text("a minute")
    tab.get_by_role("button", name="Pause").click()
    expect(tab.get_by_role("button", name="Go on")).to_be_visible()
    id_ = tab.url.rsplit("/", 1)[-1]
    paused = bench.client.get(f"/api/seasons/{id_}").json()
    assert paused["state"] == "paused"
    assert 0 < paused["done"] < 30
    tab.get_by_role("button", name="Go on").click()
    expect(tab.locator("#season-status .badge")).to_have_text("done", timeout=60_000)
    tab.reload()
    expect(tab.locator("#results")).to_contain_text("Share of rivals beaten")
    expect(tab.locator("#results tbody tr").first).to_contain_text("30")


@pytest.mark.slow
def test_two_seasons_are_compared_with_intervals(bench, browse):
    rows = "\n".join(json.dumps({"query": f"What is {i}?"}) for i in range(12))
    ids = []
    for name, rubric in (("first", "general"), ("second", "none")):
        made = bench.client.post(f"/api/seasons?name={name}&rubric={rubric}", content=rows)
        assert made.status_code == 201, made.text
        id_ = made.json()["id"]
        assert bench.client.post(f"/api/seasons/{id_}/start").status_code == 200
        ids.append(id_)
    tab = browse()
    for id_ in ids:
        tab.goto(f"{url(bench)}/seasons/{id_}")
        expect(tab.locator("#season-status .badge")).to_have_text("done", timeout=60_000)
    tab.get_by_label("Compare with").select_option("first")
    tab.get_by_role("button", name="Compare").click()
    expect(tab.locator("main")).to_contain_text("12 questions were asked in both")
    expect(tab.locator("tbody tr")).not_to_have_count(0)
    compared = bench.client.get(f"/api/seasons/{ids[1]}/compare", params={"with": ids[0]}).json()
    assert {one["model"] for one in compared["models"]} == {"ann", "bob", "cyd", "dan"}
    for one in compared["models"]:
        assert one["paired"]
        assert one["low"] <= one["difference"] <= one["high"]
