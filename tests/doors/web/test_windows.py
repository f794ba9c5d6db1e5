"""The pages of boards name the window, what it leaves out, and the way to all time."""

import json

import pytest

from tests.doors.http.conftest import running, simulated
from tests.reports.test_windows import MODELS, reviews

END = '<time datetime="2026-09-21T14:13:20Z" data-local>2026-09-21 14:13 UTC</time>'


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    store = f"sqlite:///{tmp_path_factory.mktemp('windows')}/s.db"
    with running(store, simulated("ann", "bob")) as server:
        lines = "\n".join(map(json.dumps, reviews()))
        headers = {"Content-Type": "application/jsonl"}
        sent = server.client.post("/api/imports?as=reviews", content=lines, headers=headers)
        assert sent.status_code == 201
        yield server.client


def test_the_page_and_the_json_of_a_board_have_one_window(client):
    page = client.get("/boards/models").text
    assert f"The last 30 days up to {END}; 12 reviews left out." in page
    assert 'href="/boards/models?since=all">Show all time</a>' in page
    document = client.get("/api/boards/models").json()
    assert (document["parameters"]["since"], document["reviews_left_out"]) == ("30d", 12)
    assert document["rows"] == client.get("/boards/models/json").json()["rows"]


def test_all_time_is_one_press_away_and_keeps_the_other_settings(client):
    page = client.get("/boards/models?rule=elo").text
    assert 'href="/boards/models?rule=elo&amp;since=all"' in page
    page = client.get("/boards/models?since=all").text
    assert f"All time up to {END}; no review left out." in page
    assert "Show all time" not in page


def test_a_board_whose_window_leaves_out_everything_offers_all_time(client):
    page = client.get("/boards/models?category=old").text
    assert "12 reviews left out." in page
    assert "All reviews are outside this window." in page
    assert 'class="button" href="/boards/models?category=old&amp;since=all"' in page


def test_the_page_of_a_model_has_the_window_of_the_board_it_was_opened_from(client):
    page = client.get("/models", params={"name": MODELS[0]}).text
    assert f"The last 30 days up to {END}; 12 reviews left out." in page
    assert "<dt>Sessions</dt><dd>6</dd>" in page
    page = client.get("/models", params={"name": MODELS[0], "since": "all"}).text
    assert "<dt>Sessions</dt><dd>10</dd>" in page
    assert "&amp;since=all" in client.get("/boards/models?since=all").text
    names = {"a": MODELS[0], "b": MODELS[1]}
    assert (
        "6 ballots of others in the last 30 days" in client.get("/models/versus", params=names).text
    )
