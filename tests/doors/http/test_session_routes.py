"""Sessions over HTTP: start, list, read, follow, cancel, score again."""

import json

import pytest

from peerage.types import Seat
from tests.doors.http.conftest import simulated

PROBLEM = "application/problem+json"
TOO_MANY = {f"answer {i}": "4" for i in range(201)}
JSON = {"content-type": "application/json"}


def read_stream(response):
    """The id, kind and document of every server-sent event."""
    events = []
    for block in response.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            id_ = int(fields["id"]) if "id" in fields else None
            events.append((id_, fields["event"], json.loads(fields["data"])))
    return events


def test_a_session_is_started_followed_and_read(server):
    started = server.client.post("/api/sessions", json={"query": "Why?", "verdict": "debate"})
    assert started.status_code == 202
    place = started.headers["location"]
    assert place == f"/api/sessions/{started.json()['id']}"
    events = read_stream(server.client.get(f"{place}/events"))
    places = [id_ for id_, _, _ in events if id_ is not None]
    assert places == list(range(len(places)))
    assert events[-1][1] == "finished"
    document = server.client.get(place).json()
    assert document["status"] == "done"
    assert document["verdict"]["kind"] == "debate"


def test_a_session_is_estimated_before_it_is_asked_and_nothing_is_stored(serving):
    with serving(
        seats=[
            Seat(name, provider="simulated", price_in=price, price_out=price)
            for name, price in (("ann", 1.0), ("bob", 1.0), ("cyd", None))
        ]
    ) as server:
        ask = {"query": "Why?", "verdict": "none"}
        document = server.client.post("/api/sessions/estimate", json=ask).json()
        assert server.client.get("/api/sessions").json()["sessions"] == []
        page = server.client.get(
            "/ask/estimate", params={**ask, "seats": ["ann", "bob", "cyd"]}
        ).text
        wrong = server.client.post("/api/sessions/estimate", json={**ask, "seats": ["nobody"]})
    assert (document["dry_run"], document["calls"]) == (True, 6)
    assert [one["seat"] for one in document["seats"]] == ["ann", "bob", "cyd"]
    assert 0 < document["cost_usd"] < document["at_most_usd"]
    assert "6 calls" in page
    assert wrong.status_code == 422


def test_a_stream_resumes_after_the_last_event_seen(server):
    id_ = server.hold()
    place = f"/api/sessions/{id_}/events"
    whole = read_stream(server.client.get(place))
    rest = read_stream(server.client.get(place, headers={"Last-Event-ID": "3"}))
    assert rest == whole[4:]
    wrong = server.client.get(place, headers={"Last-Event-ID": "x"})
    assert (wrong.status_code, wrong.headers["content-type"]) == (422, PROBLEM)


def test_the_list_is_paged_from_the_latest_back(server):
    ids = [server.hold(f"Question {n}?") for n in range(3)]
    pages, before = [], None
    while before is not None or not pages:
        query = {"limit": 2, **({"before": before} if before else {})}
        page = server.client.get("/api/sessions", params=query).json()
        pages.append([one["id"] for one in page["sessions"]])
        before = page["next"]
    listed = [id_ for page in pages for id_ in reversed(page)]
    assert listed[:3] == ids[::-1]
    assert len(set(listed)) == len(listed)


def test_a_replay_scores_the_same_ballots_by_other_options(server):
    place = f"/api/sessions/{server.hold()}/replay"
    replayed = server.client.get(place, params={"rule": "elo", "own-votes": "in"}).json()
    assert (replayed["rule"], replayed["own_votes"]) == ("elo", "in")
    wrong = server.client.get(place, params={"rule": "dice"})
    assert (wrong.status_code, wrong.headers["content-type"]) == (422, PROBLEM)
    assert "borda" in wrong.json()["hint"]


def test_answers_are_compared_with_every_review_of_each(server):
    id_ = server.hold("Compare?")
    best = server.client.get(f"/api/sessions/{id_}/compare").json()["answers"]
    assert len(best) == 2
    assert best[0]["rank"] <= best[1]["rank"]
    assert [one["is_own"] for one in best[0]["reviews"]].count(True) == 1
    names = [one["model"] for one in best]
    chosen = server.client.get(f"/api/sessions/{id_}/compare", params={"of": names[1:]}).json()
    assert [one["model"] for one in chosen["answers"]] == names[1:]
    missing = server.client.get(f"/api/sessions/{id_}/compare", params={"of": "nobody"})
    assert missing.status_code == 404
    assert "'nobody'" in missing.json()["detail"]


def test_a_running_session_is_cancelled_and_an_ended_one_is_not(serving):
    slow = Seat("ann", provider="simulated", options={"latency_ms": 60_000})
    with serving([slow, *simulated("bob", "cyd")]) as server:
        id_ = server.client.post("/api/sessions", json={"query": "Why?"}).json()["id"]
        place = f"/api/sessions/{id_}"
        assert server.client.get(place).json()["status"] == "unfinished"
        listed = server.client.get("/api/sessions").json()["sessions"]
        assert [one["status"] for one in listed] == ["unfinished"]
        assert server.client.delete(place).status_code == 204
        assert server.client.get(place).json()["status"] == "cancelled"
        again = server.client.delete(place)
        assert (again.status_code, again.headers["content-type"]) == (409, PROBLEM)


def test_beyond_the_queue_a_session_is_refused_with_a_time_to_come_back(serving):
    slow = [Seat(name, provider="simulated", options={"latency_ms": 60_000}) for name in "abc"]
    with serving(slow, limits={"max_running": 1, "max_queued": 1}) as server:
        answers = [server.client.post("/api/sessions", json={"query": "?"}) for _ in range(3)]
        assert [one.status_code for one in answers] == [202, 202, 429]
        assert int(answers[2].headers["retry-after"]) >= 1
        for one in answers[:2]:
            assert server.client.delete(one.headers["location"]).status_code == 204


def test_missing_and_invalid_requests_get_a_problem_document(server):
    client = server.client
    cases = [
        (client.get("/api/sessions/none"), 404),
        (client.get("/api/sessions/none/events"), 404),
        (client.delete("/api/sessions/none"), 404),
        (client.get("/nowhere"), 404),
        (client.get("/api/boards/luck"), 404),
        (client.put("/api/sessions"), 405),
        (client.post("/api/sessions", content=b'{"query"', headers=JSON), 400),
        (client.post("/api/sessions", json={"query": 7}), 422),
        (client.post("/api/sessions", json={"query": ""}), 422),
        (client.post("/api/sessions", json={"query": "?", "verdict": "maybe"}), 422),
        (client.post("/api/sessions", json={"query": "?", "colour": "red"}), 422),
        (client.post("/api/sessions", json={"query": "?", "answers": TOO_MANY}), 422),
        (client.post("/api/sessions", json=[1, 2]), 422),
        (client.get("/api/sessions", params={"limit": 0}), 422),
    ]
    for answer, status in cases:
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == PROBLEM
        assert answer.json()["status"] == status
        assert answer.json()["detail"]


def test_a_body_that_is_not_said_to_be_json_is_refused_with_what_to_send(server):
    for headers in ({}, {"Content-Type": "application/x-www-form-urlencoded"}):
        answer = server.client.post("/api/sessions", content=b'{"query": "?"}', headers=headers)
        assert answer.status_code == 422
        assert answer.json()["detail"] == "send JSON with Content-Type: application/json."


def test_a_client_that_has_seen_the_end_is_told_not_to_come_again(server):
    id_ = server.hold()
    last = max(event.seq for event in server.service.store.events(id_))
    url = f"/api/sessions/{id_}/events"
    assert server.client.get(url, headers={"Last-Event-ID": str(last)}).status_code == 204
    assert server.client.get(url, headers={"Last-Event-ID": str(last - 1)}).status_code == 200


# -- what a token of scope run may not do ----------------------------------------------------------


def test_a_token_ends_its_own_sessions_and_no_others(serving, token):
    slow = {"latency_ms": 60_000}
    seats = [Seat(name, provider="simulated", options=slow) for name in ("ann", "bob", "cyd")]
    with serving(seats) as server:
        ada, bob, op = (
            {"Authorization": f"Bearer {token(server, name, scope)}"}
            for name, scope in [("Ada", "run"), ("Bob", "run"), ("Op", "admin")]
        )
        first, second, local = (
            server.client.post("/api/sessions", json={"query": "?"}, headers=headers).json()["id"]
            for headers in (ada, ada, {})
        )
        for id_ in (first, local):
            refused = server.client.delete(f"/api/sessions/{id_}", headers=bob)
            assert (refused.status_code, refused.headers["content-type"]) == (403, PROBLEM)
            assert server.service.hosts(id_)
        assert server.client.delete(f"/api/sessions/{first}", headers=ada).status_code == 204
        assert server.client.delete(f"/api/sessions/{second}", headers=op).status_code == 204
        assert server.client.delete(f"/api/sessions/{local}").status_code == 204


@pytest.mark.parametrize("name", ["ann", " ann ", "ANN", "\uff41nn"])
def test_an_answer_is_not_given_under_the_name_of_a_seat(server, token, name):
    run, admin = (
        {"Authorization": f"Bearer {token(server, who, who)}"} for who in ("run", "admin")
    )
    given = {"query": "?", "answers": {name: "Mine.", "other": "Yours."}, "verdict": "none"}
    refused = server.client.post("/api/sessions", json=given, headers=run)
    assert (refused.status_code, refused.headers["content-type"]) == (403, PROBLEM)
    assert "is a seat of this panel" in refused.json()["detail"]
    assert refused.json()["hint"].startswith("Give the answer another name")
    assert server.client.post("/api/sessions", json=given, headers=admin).status_code == 202


def test_the_demo_leaves_the_store_of_the_installation_as_it_is(serving):
    with serving() as server:
        items = {"item_id": "p1", "text": "Why?"}
        assert server.client.post("/api/items", json=items).status_code == 201
        started = server.client.post("/demo", follow_redirects=False)
        assert (started.status_code, started.headers["location"]) == (303, "/demo")
        assert server.service.store.sessions() == []


@pytest.mark.parametrize(
    "option", [{"budget_usd": 1e308}, {"budget_usd": True}, {"seed": True}, {"seed": 10**400}]
)
def test_a_number_of_a_request_has_bounds_and_is_a_number(server, option):
    before = len(server.service.store.sessions())
    refused = server.client.post("/api/sessions", json={"query": "?", **option})
    assert (refused.status_code, refused.headers["content-type"]) == (422, PROBLEM)
    assert len(server.service.store.sessions()) == before
