"""The real `openai` client asks the council as a decision model; System One's shape does too."""

import openai
import pytest

from peerage.doors.render.session_views import session_blocks
from peerage.events import Advised, read_events
from peerage.types import Seat
from peerage.view import SessionView
from tests.doors.http.conftest import running, simulated
from tests.shared.batch_seasons import serving

QUESTIONS = [
    {"type": "predicate", "name": "urgent", "instructions": "The message is urgent."},
    {
        "type": "choice",
        "name": "team",
        "instructions": "Who should read it?",
        "choices": [
            {"value": "billing"},
            {"value": "sales", "description": "prices"},
            {"value": True},
        ],
    },
    {
        "type": "score",
        "instructions": "How angry is it?",
        "levels": [{"label": "calm"}, {"label": "cross"}, {"label": "furious"}],
    },
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    store = f"sqlite:///{tmp_path_factory.mktemp('decisions')}/s.db"
    with serving() as mock:
        seats = [
            *simulated("ann", "bob"),
            *(
                Seat(
                    f"d{i}",
                    "decisions",
                    f"d{i}",
                    base_url=mock.base_url,
                    dialect=("openai", "systemone")[i % 2],
                    roles=("review",),
                    price_in=0.1,
                    price_out=0.0,
                )
                for i in range(3)
            ),
        ]
        with running(store, seats) as started:
            yield started


@pytest.fixture
def client(server):
    url = f"{server.client.base_url}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


def ask(client, **changes):
    body = {"model": "council", "input": "I was charged twice!", "questions": QUESTIONS, **changes}
    return client.decisions.create(**body)


def test_every_reviewing_seat_votes_and_the_answer_has_the_panels_probability(client, server):
    decision = ask(client)
    urgent, team, angry = decision.answers
    assert (urgent.type, urgent.name) == ("predicate", "urgent")
    assert 0 < urgent.probability < 1
    assert [one.value for one in team.probabilities] == ["billing", "sales", True]
    assert team.choice in ("billing", "sales", True)
    assert sum(one.probability for one in team.probabilities) == pytest.approx(1, abs=1e-5)
    assert angry.name is None
    assert [one.label for one in angry.probabilities] == ["calm", "cross", "furious"]
    extras = decision.peerage
    assert set(extras["votes"]["urgent"]) == {"ann", "bob", "d0", "d1", "d2"}
    votes = [vote[0] for vote in extras["votes"]["urgent"].values()]
    effective = 5 / (1 + 4 * 0.5)
    expected = (effective * sum(votes) / 5 + 0.5) / (effective + 1)
    assert urgent.probability == pytest.approx(expected, abs=1e-5)
    assert extras["effective_votes"]["urgent"] == pytest.approx(effective, abs=1e-3)
    assert extras["calibrated"] == {"urgent": False, "team": False, "question 3": False}
    assert extras["cost_usd"] > 0
    assert decision.usage.input_tokens > 0
    facts = list(read_events(server.service.store.events(extras["session"])))
    cast = [fact for fact in facts if isinstance(fact, Advised)]
    assert {fact.seat for fact in cast} == set(extras["votes"]["urgent"])
    assert set(
        dict(cast[0].votes["urgent"])
        if isinstance(cast[0].votes["urgent"], dict)
        else cast[0].votes["urgent"]
    ) <= {*cast[0].votes["urgent"]}


def test_it_is_stored_as_a_session_like_any_other(client, server):
    id_ = ask(client).peerage["session"]
    document = server.client.get(f"/api/sessions/{id_}").json()
    assert document["kind"] == "decision"
    assert document["status"] == "done"
    assert [one["name"] for one in document["verdict"]["answers"]] == [
        "urgent",
        "team",
        "question 3",
    ]
    listed = server.client.get("/api/sessions").json()["sessions"]
    assert id_ in {one["id"] for one in listed}
    view = SessionView.of(server.service.store.events(id_))
    assert view.kind == "decision"
    page = server.client.get(f"/sessions/{id_}")
    assert page.status_code == 200
    assert "urgent" in page.text
    assert page.text.count(">decision model<") == 9  # three of the seats, on each question
    shown = "\n".join(map(str, session_blocks(view)))
    assert "decision models, without reasons: d0, d1, d2" in shown


def test_messages_and_parts_are_an_input(client):
    messages = [
        {"role": "developer", "content": "Messages of customers."},
        {"role": "user", "content": [{"type": "input_text", "text": "I was charged twice."}]},
        {"role": "assistant", "content": "Sorry."},
        {"role": "user", "content": [{"type": "input_json", "data": {"order": 7}}]},
    ]
    decision = ask(client, input=messages, questions=QUESTIONS[:1])
    assert decision.answers[0].type == "predicate"


def test_systemone_has_its_own_shape(server):
    body = {
        "model": "council/d0,d1",
        "state": {"message": "I was charged twice!"},
        "questions": {
            "urgent": {"type": "noul", "instructions": "Is it urgent?"},
            "team": {"type": "choice", "instructions": "Who?", "criteria": {"a": "x", "b": None}},
            "angry": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "cross"]},
        },
    }
    reply = server.client.post("/v1/systemone", json=body).json()
    assert 0 < reply["answers"]["urgent"]["noul"] < 1
    assert set(reply["answers"]["team"]["probabilities"]) == {"a", "b"}
    assert reply["answers"]["angry"]["legend"] == {"0": "calm", "1": "cross"}
    assert 0 <= reply["answers"]["angry"]["score"] <= 1
    assert set(reply["peerage"]["votes"]["urgent"]) == {"d0", "d1"}


@pytest.mark.parametrize(
    "changes",
    [
        {"questions": []},
        {"questions": [QUESTIONS[0] | {"name": f"q{i}"} for i in range(401)]},
        {"questions": [QUESTIONS[0], QUESTIONS[0]]},
        {"questions": [{"type": "choice", "instructions": "?", "choices": [{"value": "a"}]}]},
        {"questions": [QUESTIONS[1] | {"choices": [{"value": "a"}, {"value": "a"}]}]},
        {"questions": [{"type": "predicate", "instructions": " "}]},
        {"questions": [{"type": "other", "instructions": "?"}]},
        {"input": ""},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
    ],
)
def test_a_request_that_cannot_be_decided_is_refused_in_a_sentence(client, changes):
    with pytest.raises(openai.APIStatusError) as caught:
        ask(client, **changes)
    assert caught.value.status_code in (400, 422)
    assert caught.value.body["message"]
