"""`peerage delete`, `tag`, `imports` and `sessions --search`, as their user runs them."""

import json
import re
import sys

import pytest

from tests.doors.http.conftest import running, simulated
from tests.doors.pseudo_terminal import watch
from tests.doors.test_data_commands import document, reviews
from tests.small_seasons import hold_season

LONG = [f"provider/some-long-model-2026-1{i}" for i in (1, 2)]


@pytest.fixture
def season(tmp_path):
    hold_season(f"sqlite:///{tmp_path}/peerage.db", [*LONG, "carol"])
    return "--store", f"sqlite:///{tmp_path}/peerage.db"


def listed(peerage, *arguments):
    return [one["id"] for one in document(peerage("sessions", "--json", *arguments))["sessions"]]


def test_a_pipe_needs_yes_and_says_what_would_be_deleted(peerage, season):
    ids = listed(peerage)
    refused = peerage("delete", ids[0])
    assert refused.returncode == 2
    assert "1 session" in refused.stderr
    assert "--yes" in refused.stderr
    assert listed(peerage) == ids
    done = peerage("delete", ids[0], "--yes")
    assert "1 session deleted" in done.stdout
    assert ids[0] in done.stdout
    assert listed(peerage) == ids[1:]
    again = peerage("delete", ids[0], "--yes").stdout
    assert again.startswith("1 ")
    assert "already" in again
    assert listed(peerage, "--deleted") == ids[:1]
    assert "Deleted" in peerage("show", ids[0]).stdout
    undone = document(peerage("delete", ids[0], "--undo", "--json"))
    assert (undone["sessions"], undone["already"]) == (ids[:1], 0)
    assert listed(peerage) == ids


def test_a_deletion_names_the_folders_that_were_published_with_the_session(
    peerage, season, tmp_path
):
    first, second, _ = listed(peerage)
    assert peerage("publish", "one", "--session", first, *season).returncode == 0
    assert peerage("publish", "all", *season).returncode == 0
    done = document(peerage("delete", second, "--yes", "--json", *season))
    assert done["publish_again"] == [str(tmp_path / "all")]
    said = peerage("delete", first, "--yes", *season).stdout
    assert all(f"{tmp_path / name} was published with it" in said for name in ("one", "all"))
    assert document(peerage("delete", first, "--undo", "--json"))["publish_again"] == []


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "left"), [("y", 2), ("", 3)])
def test_a_person_on_a_terminal_is_asked(peerage, season, tmp_path, answer, left):
    ids = listed(peerage)
    command = [sys.executable, "-m", "peerage", "delete", ids[0], *season]
    seen = watch(command, tmp_path, peerage.environ, answers={"[y/N]": answer})
    assert "Nothing is erased" in seen.text
    assert len(listed(peerage)) == left
    assert seen.code == (0 if answer else 1)


@pytest.mark.parametrize("option", ["--season", "--reuse-answers"])
def test_a_deleted_season_is_not_run_again_and_the_error_says_why(
    peerage, season, tmp_path, option
):
    (name,) = {one["season"] for one in document(peerage("sessions", "--json"))["sessions"]}
    peerage("delete", "--season", name, "--yes")
    (tmp_path / "prompts.csv").write_text("query\nWhy?\n")
    refused = peerage("run", "prompts.csv", option, name)
    assert refused.returncode == 2
    assert f"season {name} was deleted" in refused.stderr
    assert "--undo" in refused.stderr


def test_a_season_and_an_import_are_deleted_by_name(peerage, season, tmp_path):
    reviews(tmp_path / "reviews.csv")
    assert peerage("import", "reviews.csv", "--as", "reviews").returncode == 0
    (entry,) = document(peerage("imports", "--json"))["imports"]
    assert "reviews.csv" in peerage("imports").stdout
    board = document(peerage("board", "models", "--since", "all", "--json"))
    name = document(peerage("sessions", "--json"))["sessions"][0]["season"]
    done = document(peerage("delete", "--season", name[:6], "--import", "1", "--yes", "--json"))
    assert (len(done["sessions"]), done["imports"][0]["id"]) == (3, entry["id"])
    empty = peerage("board", "models", "--json")
    assert json.loads(empty.stdout)["rows"] == []
    assert "no reviews yet" in empty.stderr
    again = peerage("import", "reviews.csv", "--as", "reviews").stdout
    assert "to restore it: peerage delete --import 1 --undo" in again
    peerage("delete", "--season", name, "--import", "reviews.csv", "--undo")
    assert document(peerage("board", "models", "--since", "all", "--json")) == board


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80])
def test_sessions_are_tagged_and_searched_at_any_width(peerage, season, tmp_path, columns):
    ids = listed(peerage)
    added = peerage("tag", ids[0], ids[1], "--add", "good", "fine").stdout.splitlines()
    for line, id_ in zip(added, ids[:2], strict=True):
        assert id_ in line
        assert {"fine", "good"} <= set(re.findall(r"\w+", line))
    peerage("tag", ids[1], "--remove", "good")
    assert listed(peerage, "--tag", "good") == ids[:1]
    assert listed(peerage, "--search", "QUESTION 2") == ids[2:]
    assert listed(peerage, "--search", "2026-12") == ids
    assert "No session matches." in peerage("sessions", "--search", "zebra").stdout
    command = [sys.executable, "-m", "peerage", "sessions", *season]
    text = watch(command, tmp_path, peerage.environ, columns).text
    assert all(id_ in text for id_ in ids)
    assert max(map(len, text.splitlines())) <= columns
    wrong = peerage("tag", ids[0], "--add", "two words")
    assert wrong.returncode == 2
    assert "is not a tag" in wrong.stderr


@pytest.mark.slow
def test_the_same_over_http_and_on_the_pages(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    hold_season(url, [*LONG, "carol"])
    with running(url, simulated("ann", "bob")) as server:
        client = server.client
        first, second, third = [one["id"] for one in client.get("/api/sessions").json()["sessions"]]
        tagged = client.post("/api/tags", json={"sessions": [first, second], "add": ["good"]})
        assert tagged.json() == {"tags": {first: ["good"], second: ["good"]}}
        found = client.get("/api/sessions", params={"tag": "good", "search": "question 1"}).json()
        assert [one["id"] for one in found["sessions"]] == [second]
        assert third in client.get("/sessions").text
        assert third not in client.get("/sessions?tag=good").text
        assert second in client.get("/sessions?search=2026-11").text
        board = client.get("/boards/models").text
        gone = client.post("/api/deletions", json={"sessions": [first]})
        assert gone.json()["sessions"] == [first]
        assert client.get("/boards/models").text != board
        assert str(client.get("/api/boards/models").json()["sessions"]) == "2"
        assert first not in client.get("/sessions").text
        assert "<b>This session was deleted</b>" in client.get(f"/sessions/{first}").text
        assert client.get(f"/api/sessions/{first}").json()["deleted"] is True
        listed = client.get("/api/sessions?deleted=true").json()["sessions"]
        assert [one["id"] for one in listed] == [first]
        assert client.delete(f"/api/sessions/{first}").status_code == 409  # cancels, and it is over
        client.post("/api/deletions", json={"sessions": [first], "undo": True})
        assert client.get("/api/boards/models").json()["sessions"] == 3
        assert client.post("/api/deletions", json={}).status_code == 422
        assert client.post("/api/deletions", json={"sessions": ["zz"]}).status_code == 404
        assert client.get("/api/imports").json() == {"imports": []}
