"""People over HTTP: blind ballots, reviews with the order really shown, opinions and items."""

import hashlib

import pytest

from peerage.stores import open_store
from peerage.view import fold

PROBLEM = "application/problem+json"
NAMES = ("ann", "bob", "cyd")


@pytest.fixture
def person(server, token):
    """A client with a token to review, under a name of its own."""

    def make(name, scope="review"):
        return {"Authorization": f"Bearer {token(server, name, scope)}"}

    return make


def test_a_ballot_has_no_names_and_every_person_gets_their_own_order(server, person):
    id_ = server.hold("Whose is it?")
    orders = []
    for name in ("Ada", "Bea", "Cleo"):
        headers = person(name)
        answer = server.client.get(f"/api/ballots/next?session={id_}", headers=headers)
        ballot = answer.json()
        shown = [response["text"] for response in ballot["responses"]]
        assert not any(f'"{one}"' in answer.text for one in NAMES)
        assert [response["label"] for response in ballot["responses"]] == ["A", "B", "C"]
        said = {"ballot": ballot["ballot"], "ranking": ["A", "B", "C"]}
        assert server.client.post("/api/ballots", json=said, headers=headers).status_code == 201
        orders.append(tuple(shown))
    assert len(set(orders)) == 3
    firsts = {order[0] for order in orders}
    assert len(firsts) == 3


def test_a_ballot_is_accepted_only_from_its_person(server, person):
    place = f"/api/ballots/next?session={server.hold('Whose ballot?')}"
    ballot = server.client.get(place, headers=person("Flo")).json()
    said = {"ballot": ballot["ballot"], "ranking": ["A", "B", "C"]}
    refused = server.client.post("/api/ballots", json=said, headers=person("Gus"))
    assert refused.status_code == 404
    assert "was not dealt to Gus" in refused.json()["detail"]


def test_a_ballot_that_was_not_dealt_is_refused(server, person):
    """A person who knows how ids are made cannot choose the order that they are shown."""
    id_ = server.hold("Which order?")
    headers = person("Ivo")
    dealt = server.client.get(f"/api/ballots/next?session={id_}", headers=headers).json()["ballot"]
    whose = hashlib.sha256(f"{id_}|Ivo".encode()).hexdigest()[:8]
    place = int(dealt.rpartition(".")[2])
    seal = dealt.split(".")[1]
    for forged in (f"{id_}.{whose}.{place}", f"{id_}.{seal}.{place + 1}", f"{id_}..{place}"):
        said = {"ballot": forged, "ranking": ["A", "B", "C"]}
        refused = server.client.post("/api/ballots", json=said, headers=headers)
        assert (refused.status_code, refused.headers["content-type"]) == (404, PROBLEM), forged
    said = {"ballot": dealt, "ranking": ["A", "B", "C"]}
    assert server.client.post("/api/ballots", json=said, headers=headers).status_code == 201


def test_a_review_token_reads_no_session_and_runs_none(server, person):
    id_ = server.hold("Who is who?")
    headers = person("Dot")
    for method, place in [
        ("GET", f"/api/sessions/{id_}"),
        ("GET", f"/api/sessions/{id_}/events"),
        ("GET", "/api/sessions"),
        ("GET", "/api/boards/models"),
        ("GET", "/api/export"),
        ("DELETE", f"/api/sessions/{id_}"),
    ]:
        refused = server.client.request(method, place, headers=headers)
        assert (refused.status_code, refused.headers["content-type"]) == (403, PROBLEM), place
    refused = server.client.post("/api/sessions", json={"query": "?"}, headers=headers)
    assert refused.status_code == 403


def test_a_persons_review_is_in_the_log_as_it_was_shown_and_changes_no_score(server, person):
    id_ = server.hold("What was shown?")
    before = server.client.get(f"/api/sessions/{id_}").json()
    headers = person("Eve")
    ballot = server.client.get(f"/api/ballots/next?session={id_}", headers=headers).json()
    said = {
        "ballot": ballot["ballot"],
        "order": ["C", "A", "B"],
        "ranking": ["B", ["A", "C"]],
        "scores": {"A": 3, "B": 9.5},
        "notes": {"A": "Half of it is missing."},
    }
    assert server.client.post("/api/ballots", json=said, headers=headers).status_code == 201
    store = open_store(server.service.settings.store)
    event = store.events(id_)[-1]
    assert event.kind == "person_reviewed"
    assert event.body["ballot"]["reviewer"] == "Eve"
    assert event.body["ballot"]["labels"] == ["C", "A", "B"]
    assert len(fold(store.events(id_)).reviews) == 3
    after = server.client.get(f"/api/sessions/{id_}").json()
    assert after["scores"] == before["scores"]
    again = server.client.post("/api/ballots", json=said, headers=headers)
    assert (again.status_code, again.headers["content-type"]) == (409, PROBLEM)


def test_boards_and_audits_count_a_persons_votes(server, person):
    id_ = server.hold("Does it count?", category="people")
    query = {"category": "people", "since": "all"}

    def votes():
        rows = server.client.get("/api/boards/models", params=query).json()["rows"]
        return {row["model"]: row["total_votes"] for row in rows}

    before = votes()
    headers = person("Flo")
    ballot = server.client.get(f"/api/ballots/next?session={id_}", headers=headers).json()
    said = {"ballot": ballot["ballot"], "ranking": ["A", "B", "C"]}
    server.client.post("/api/ballots", json=said, headers=headers)
    assert votes() == {name: n + 1 for name, n in before.items()}
    audit = server.client.get("/api/audit", params={"reviewer": "Flo"})
    assert audit.status_code == 200
    assert audit.json()["findings"]
    assert "Flo" in audit.json()["parameters"]["people"]


def test_a_person_who_has_judged_all_sessions_gets_no_ballot(server, person):
    server.hold("One at least?")
    headers, seen = person("Gus"), []
    while (answer := server.client.get("/api/ballots/next", headers=headers)).status_code == 200:
        seen.append(answer.json()["ballot"].split(".")[0])
        said = {"ballot": answer.json()["ballot"], "abstained": "I know too little of it."}
        assert server.client.post("/api/ballots", json=said, headers=headers).status_code == 201
    assert answer.status_code == 204
    assert len(set(seen)) == len(seen) >= 1


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"ballot": "nobody.1"}, 404),
        ({"ballot": ""}, 404),
        ({"order": ["A", "A", "B"]}, 422),
        ({"ranking": ["A", "Z"]}, 422),
        ({"ranking": ["A", "A"]}, 422),
        ({"scores": {"A": 11}}, 422),
        ({"scores": {"A": "nine"}}, 422),
        ({"scores": {"A": True, "B": True}}, 422),
        ({"scores": {"A": 1e308}}, 422),
        ({"marks": {"A": {"accuracy": True}}}, 422),
        ({"ranking": ["A", True]}, 422),
        ({"ranking": []}, 422),
        ({"author": "ann"}, 422),
    ],
)
def test_a_review_that_does_not_fit_its_ballot_is_refused(server, person, change, status):
    server.hold("Fits?")
    headers = person("Hal")
    ballot = server.client.get("/api/ballots/next", headers=headers).json()
    said = {"ballot": ballot["ballot"], "ranking": ["A", "B"], **change}
    refused = server.client.post("/api/ballots", json=said, headers=headers)
    assert (refused.status_code, refused.headers["content-type"]) == (status, PROBLEM)


def test_opinions_and_items_reach_the_community_boards_under_their_givers_names(server, person):
    given = server.client.post("/api/items", json={"item_id": "p1"}, headers=person("Ida"))
    assert (given.status_code, given.json()["item_ids"]) == (201, ["p1"])
    for name, opinion in [("Joe", 1), ("Kit", 1), ("Lou", -1)]:
        said = [{"item_id": "p1", "opinion": opinion}]
        answer = server.client.post("/api/opinions", json=said, headers=person(name))
        assert answer.status_code == 201, answer.text
    (row,) = server.client.get("/api/boards/items").json()["rows"]
    assert (row["contributor"], row["reviews"]) == ("Ida", 3)
    wrong = server.client.post(
        "/api/opinions", json={"item_id": "p1", "opinion": 7}, headers=person("Mia")
    )
    assert (wrong.status_code, wrong.headers["content-type"]) == (422, PROBLEM)


def test_a_reviewer_writes_nothing_in_another_persons_name(server, person):
    """Who may only review cannot say whose an item is, nor take an id that is somebody's."""
    ned, opinions = person("Ned"), "/api/opinions"
    assert server.client.post("/api/items", json={"item_id": "n1"}, headers=ned).status_code == 201
    eve = person("Eve2")
    for given in (
        {"item_id": "unknown", "opinion": 1, "contributor": "Ned"},
        {"item_id": "unknown", "opinion": 1, "contributor": "Eve2"},
        {"item_id": "n1", "opinion": 1, "contributor": "Eve2"},
    ):
        refused = server.client.post(opinions, json=given, headers=eve)
        assert (refused.status_code, refused.headers["content-type"]) == (422, PROBLEM), given
    taken = server.client.post("/api/items", json={"item_id": "n1"}, headers=eve)
    assert taken.status_code == 422
    given = {"item_id": "n1", "opinion": 1, "contributor": "Ned"}
    assert server.client.post(opinions, json=given, headers=eve).status_code == 201
    given = {"item_id": "another", "opinion": 1, "contributor": "Ned"}
    assert (
        server.client.post(opinions, json=given, headers=person("Op", "admin")).status_code == 201
    )


def test_opinions_and_items_have_a_rate_without_being_given_one(server, person):
    fast, other = person("Fay"), person("Flo2")
    items = [{"item_id": f"fast{i}"} for i in range(1_000)]
    assert server.client.post("/api/items", json=items, headers=fast).status_code == 201
    refused = server.client.post("/api/items", json=items[:100], headers=fast)
    assert (refused.status_code, refused.headers["content-type"]) == (429, PROBLEM)
    assert int(refused.headers["retry-after"]) >= 1
    opinion = [{"item_id": f"fast{i}", "opinion": 1} for i in range(100)]
    assert server.client.post("/api/opinions", json=opinion, headers=fast).status_code == 429
    assert server.client.post("/api/opinions", json=opinion, headers=other).status_code == 201


@pytest.mark.parametrize("opinion", [True, "1", 1e308, None])
def test_an_opinion_is_a_number_of_the_scale(server, person, opinion):
    item = {"item_id": "scaled"}
    assert server.client.post("/api/items", json=item, headers=person("Owner")).status_code == 201
    refused = server.client.post(
        "/api/opinions", json={**item, "opinion": opinion}, headers=person("Pia")
    )
    assert (refused.status_code, refused.headers["content-type"]) == (422, PROBLEM)


@pytest.mark.parametrize("item", [{}, {"text": ""}, {"text": "  "}, {"category": "x"}])
def test_an_item_that_says_nothing_is_refused(server, person, item):
    refused = server.client.post("/api/items", json=item, headers=person("Nil"))
    assert (refused.status_code, refused.headers["content-type"]) == (422, PROBLEM)


@pytest.mark.parametrize(
    ("path", "row", "field"),
    [
        ("/api/items", {"text": 3}, "text"),
        ("/api/items", {"text": "Why?", "contributor": "ann"}, "contributor"),
        ("/api/opinions", {"item_id": "p", "opinion": True}, "opinion"),
    ],
)
def test_what_is_wrong_with_one_of_several_rows_is_told_by_its_place(
    server, person, path, row, field
):
    for body, place in ((row, f"body.{field}"), ([row], f"body.0.{field}")):
        refused = server.client.post(path, json=body, headers=person("Pia"))
        assert refused.status_code == 422
        assert [one["at"] for one in refused.json()["errors"]] == [place]
