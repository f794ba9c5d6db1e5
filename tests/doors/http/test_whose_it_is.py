"""Whose sessions, seasons and decisions a token may change, and what a deletion takes with it."""

import io
import json
import zipfile

import pytest

from peerage.doors.http import AppSettings
from peerage.doors.http.gate import AccessRules


@pytest.fixture
def team(serving):
    """A server with two people who may run sessions, and an admin; requests under their names."""
    with serving(settings=AppSettings(AccessRules(needs_token=True))) as server:
        headers = {
            name: {"Authorization": f"Bearer {server.add_token(name, scope)}"}
            for name, scope in (("ada", "run"), ("bea", "run"), ("lead", "admin"))
        }

        def request(who, method, path, **given):
            return server.client.request(method, path, headers=headers[who], **given)

        request.server = server
        yield request


def hold(team, who):
    """A finished session of a person, and the names of its models."""
    id_ = team(who, "POST", "/api/sessions", json={"query": "Why?"}).json()["id"]
    team(who, "GET", f"/api/sessions/{id_}/events")
    return id_


def test_a_token_to_run_names_and_tags_only_sessions_of_its_person(team):
    id_ = hold(team, "ada")
    changes = (
        ("POST", f"/api/sessions/{id_}/name", {"name": "The sky"}),
        ("POST", "/api/tags", {"sessions": [id_], "add": ["good"]}),
    )
    for method, path, body in changes:
        assert team("bea", method, path, json=body).status_code == 403
        assert team("ada", method, path, json=body).status_code < 300
        assert team("lead", method, path, json=body).status_code < 300
    for path in ("name", "tags"):
        form = {"name": "x", "add": "y"}
        assert team("bea", "POST", f"/sessions/{id_}/{path}", data=form).status_code == 403
    entry = team("ada", "GET", f"/api/sessions/{id_}").json()
    assert entry["tags"] == ["good"]
    said = team("bea", "POST", f"/api/sessions/{id_}/comments", json={"text": "I agree."})
    assert (said.status_code, said.json()["by"]) == (201, "bea")


def test_a_later_token_of_a_person_owns_what_the_earlier_one_started(team):
    id_ = hold(team, "ada")
    later = {"Authorization": f"Bearer {team.server.add_token('ada', 'run')}"}
    path = f"/api/sessions/{id_}/name"
    named = team.server.client.post(path, json={"name": "Later"}, headers=later)
    assert named.status_code == 200


def test_a_token_to_run_changes_only_seasons_of_its_person(team):
    prompts = {"content": b'{"query": "Why?"}\n', "params": {"name": "trial"}}
    id_ = team("ada", "POST", "/api/seasons", **prompts).json()["id"]
    changes = (
        ("PATCH", f"/api/seasons/{id_}", {"name": "mine"}),
        ("POST", f"/api/seasons/{id_}/name", {"name": "mine"}),
        ("POST", f"/api/seasons/{id_}/prompts", {"query": "What?"}),
        ("POST", f"/api/seasons/{id_}/start", None),
        ("POST", f"/api/seasons/{id_}/pause", None),
    )
    for method, path, body in changes:
        assert team("bea", method, path, json=body).status_code == 403, path
    for path in ("", "/go", "/pause", "/name"):
        form = {"name": "theirs"}
        # the form of a season shows the refusal on its page, with the status of a wrong field
        refused = team("bea", "POST", f"/seasons/{id_}{path}", data=form)
        assert refused.status_code in (403, 422), path
    assert team("bea", "GET", f"/api/seasons/{id_}").json()["options"]["name"] == "trial"
    for method, path, body in changes:
        assert team("ada", method, path, json=body).status_code < 300, path
    judged = {"judges": ["ann"]}
    rejudged = team("bea", "POST", f"/api/seasons/{id_}/rejudging", json=judged)
    assert rejudged.status_code == 403


def test_a_decision_is_changed_by_its_author_or_an_admin_only(team):
    id_ = hold(team, "ada")
    path = f"/api/sessions/{id_}/decision"
    assert team("bea", "POST", path, json={"correct": ["ann"]}).status_code == 201
    assert team("ada", "POST", path, json={"correct": ["bob"]}).status_code == 403
    assert team("ada", "DELETE", path).status_code == 403
    assert team("ada", "POST", f"/adjudicate/{id_}", data={"undo": "yes"}).status_code == 403
    assert team("bea", "POST", path, json={"correct": ["cyd"]}).status_code == 201
    assert team("lead", "POST", path, json={"correct": ["bob"]}).status_code == 201
    assert team("bea", "DELETE", path).status_code == 403
    assert team("lead", "DELETE", path).status_code == 200
    assert team("ada", "POST", path, json={"correct": ["ann"]}).status_code == 201


def test_a_deleted_session_is_gone_from_every_link_and_comes_back_when_restored(team):
    first, second = hold(team, "ada"), hold(team, "ada")
    kinds = ({"kind": "session", "of": first}, {"kind": "board"})
    one, board = (
        team("lead", "POST", "/api/publications", json=given).json()["path"] for given in kinds
    )
    pages = (one, f"{board}sessions/{first}.html")
    read = team.server.client.get
    for page in pages:  # also what was made before and is kept
        assert read(page).status_code == 200
    team("lead", "POST", "/api/deletions", json={"sessions": [first]})
    for page in pages:
        assert read(page).status_code == 404
    assert first not in read(f"{board}sessions.html").text
    assert read(f"{board}sessions/{second}.html").status_code == 200
    archive = team("lead", "GET", "/api/publications/bundle").content
    assert not any(first in name for name in zipfile.ZipFile(io.BytesIO(archive)).namelist())
    team("lead", "POST", "/api/deletions", json={"sessions": [first], "undo": True})
    for page in pages:
        assert read(page).status_code == 200


def test_a_season_whose_sessions_were_deleted_is_gone_from_its_link(team):
    prompts = {"content": b'{"query": "Why?"}\n', "params": {"name": "trial"}}
    id_ = team("lead", "POST", "/api/seasons", **prompts).json()["id"]
    team("lead", "POST", f"/api/seasons/{id_}/start")
    state = ""
    while state != "done":
        state = team("lead", "GET", f"/api/seasons/{id_}").json()["state"]
    given = {"kind": "season", "of": id_}
    path = team("lead", "POST", "/api/publications", json=given).json()["path"]
    assert team.server.client.get(path).status_code == 200
    season = team("lead", "GET", f"/api/seasons/{id_}").json()["season"]
    team("lead", "POST", "/api/deletions", json={"seasons": [season]})
    for page in ("", "audit.html", "sessions.html"):
        assert team.server.client.get(path + page).status_code == 404
    assert team("lead", "POST", "/api/publications", json=given).status_code == 422


def test_answers_of_a_season_may_not_have_the_name_of_a_seat(team):
    def hold_season(who, name):
        prompt = json.dumps({"query": "Why?", "answers": {name: "EVIL", "other": "text"}})
        return team(who, "POST", "/api/seasons", content=prompt.encode(), params={"name": "trial"})

    seat = team("lead", "GET", "/api/panels").json()["panels"][0]["seats"][0]["name"]
    assert hold_season("ada", seat).status_code == 403
    assert hold_season("ada", "outsider").status_code == 201
    assert hold_season("lead", seat).status_code == 201
