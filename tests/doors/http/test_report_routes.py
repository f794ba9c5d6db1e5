"""Boards, audits and rings over HTTP: as the command line gives them, under an ETag."""

import json
import os
from pathlib import Path

import pytest

PROBLEM = "application/problem+json"


@pytest.fixture(scope="module", autouse=True)
def sessions(server):
    return [server.hold(f"Question {n}?", category="code" if n % 2 else "") for n in range(4)]


def test_a_board_is_the_one_of_the_command_line(server, forks):
    answer = server.client.get("/api/boards/models", params={"since": "all", "by-category": True})
    command = ["board", "models", "--since", "all", "--by-category", "--json"]
    store = server.service.settings.store
    said = forks.run([*command, "--store", store], cwd=Path.cwd(), env=os.environ)
    assert answer.json() == json.loads(said.stdout)


def test_an_unchanged_board_is_not_sent_again_and_a_changed_one_is(server):
    first = server.client.get("/api/boards/models")
    tag = first.headers["etag"]
    again = server.client.get("/api/boards/models", headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert server.client.get("/api/boards/models").content == first.content
    other = server.client.get("/api/boards/models", params={"rule": "elo"})
    assert other.headers["etag"] != tag
    server.hold("Another?")
    changed = server.client.get("/api/boards/models", headers={"If-None-Match": tag})
    assert (changed.status_code, changed.headers["etag"] != tag) == (200, True)


def test_an_audit_and_the_rings_have_their_documents(server):
    audit = server.client.get("/api/audit", params={"reviewer": "ann"}).json()
    assert {finding["subject"].split(">")[0] for finding in audit["findings"]} == {"ann"}
    assert server.client.get("/api/rings").json()["rings"] == []


def test_large_answers_are_compressed(server):
    answer = server.client.get("/api/audit", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    "place",
    [
        "/api/boards/models?rule=dice",
        "/api/boards/models?colour=red",
        "/api/boards/models?since=yesterday",
        "/api/boards/contributors?sort=luck",
        "/api/boards/items?half-life=-1",
        "/api/audit?reviewer=nobody",
        "/api/rings?as-of=never",
    ],
)
def test_an_unknown_option_is_a_problem(server, place):
    answer = server.client.get(place)
    assert (answer.status_code, answer.headers["content-type"]) == (422, PROBLEM)
    assert answer.json()["detail"]


def test_there_is_no_other_board(server):
    assert server.client.get("/api/boards/luck").status_code == 404


def test_a_board_by_category_of_an_empty_window_is_empty(server):
    server.hold("Why?", category="science")
    reply = server.client.get("/api/boards/models?by-category=true&as-of=3.3")
    assert (reply.status_code, reply.json()["rows"]) == (200, [])
