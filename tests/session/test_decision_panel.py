"""Panels with decision models: asked through a mock of both dialects, stored, shown and counted."""

import json

import pytest

import peerage
from peerage import Council, Seat
from peerage.doors.render.session_reviews import review_reason
from peerage.events import Advised, Failed, Reviewed, read_events
from peerage.view import SessionView
from tests.shared.batch_seasons import serving


@pytest.fixture(scope="module")
def mock():
    with serving() as server:
        yield server


def decision_seat(mock, name, behaviour="", dialect="openai", **about):
    model = f"{name}{'?' if behaviour else ''}{behaviour}"
    about = {"price_in": 0.1, "price_out": 0, "roles": ("review",), **about}
    return Seat(name, "decisions", model, base_url=mock.base_url, dialect=dialect, **about)


def writer(mock, name, **about):
    prices = {"price_in": 1.0, "price_out": 2.0}
    return Seat(name, "openai", name, base_url=mock.base_url, **prices, **about)


@pytest.fixture
def council(mock, tmp_path):
    def make(*others, n=6, **options):
        seats = [
            *(
                decision_seat(mock, f"d{i}", dialect=("openai", "systemone")[i % 2])
                for i in range(n)
            ),
            writer(mock, "w1"),
            writer(mock, "w2"),
            *others,
        ]
        return Council(seats=seats, store=f"sqlite:///{tmp_path}/s.db", seed=7, **options)

    return make


def events_of(council, session):
    return list(read_events(council.store.events(session.id)))


def test_decision_models_review_and_their_probabilities_count(council):
    panel = council()
    session = panel.ask_sync("Why is the sky blue?")
    view = SessionView.of(panel.store.events(session.id))
    assert session.status == "done"
    assert session.verdict.by in ("w1", "w2")
    assert {fact.reviewer for fact in events_of(panel, session) if isinstance(fact, Reviewed)} == {
        f"d{i}" for i in range(6)
    }
    first = session.scores[0]
    assert 0.5 < first.share < 1
    expected = [view.review(f"d{i}", 0).remark_by_candidate[first.model] for i in range(6)]
    assert first.share == pytest.approx(sum(one.probability for one in expected) / 6)
    assert all(review_reason(one, view) == "decision model" for one in view.reviews)
    assert session.cost_usd > 0
    assert session.unpriced_calls == 0


def test_the_reviews_table_and_the_board_have_the_probabilities(council, tmp_path):
    panel = council()
    session = panel.ask_sync("Why is the sky blue?")
    store = peerage.open(f"sqlite:///{tmp_path}/s.db")
    rows = store.reviews().to_pylist()
    first = session.scores[0]
    mine = [row for row in rows if row["candidate"] == first.model]
    assert sum(row["probability"] for row in mine) / len(mine) == pytest.approx(first.share)
    assert all(row["confidence"] == pytest.approx(0.5) for row in mine)
    board = store.board_models()
    assert board.rows[0]["share"] == pytest.approx(first.share)


def test_without_soft_votes_the_order_of_the_marks_counts(council, tmp_path):
    panel = council(soft_votes=False)
    session = panel.ask_sync("Why is the sky blue?")
    first = session.scores[0]
    assert first.share == first.wins / first.votes
    rows = peerage.open(f"sqlite:///{tmp_path}/s.db").reviews().to_pylist()
    assert all(row.get("probability") is None for row in rows)


def test_a_binary_verdict_is_a_predicate_and_adds_probabilities(council):
    panel = council(verdict="binary")
    session = panel.ask_sync("Should we ship it?")
    votes = {f.seat: f.decision for f in events_of(panel, session) if isinstance(f, Advised)}
    chances = [
        votes[name].probability if name.startswith("d") else float(votes[name].approved)
        for name in votes
    ]
    assert len(chances) == 8
    approves = sum(chances)
    assert session.verdict.approved is (approves > 4)
    assert session.verdict.confidence == pytest.approx(max(approves, 8 - approves) / 8)
    assert "decision models by their probability" in session.verdict.note


def test_a_decision_model_breaks_a_tie_by_a_choice(mock, tmp_path):
    panel = Council(
        seats=[writer(mock, "w2"), decision_seat(mock, "d", "do=refusal,ok")],
        store=f"sqlite:///{tmp_path}/tie.db",
        verdict="tie_breaker",
        chair="d",
        rubric="none",
        seed=1,
    )
    panel.allows_unranked = True
    answers = {"w2": "the same text", "y": "the same text"}
    session = panel.ask_sync("Which?", answers=answers)  # w2 may not vote, and d declines
    assert session.verdict.kind == "tie_breaker"
    assert session.verdict.by == "d"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("sum", "bad_probabilities"), ("nan", "bad_probabilities"), ("missing", "missing_answer")],
)
def test_a_fault_costs_that_review_and_is_in_the_log(council, mock, fault, kind):
    broken = decision_seat(mock, f"broken {fault}", f"do={fault}")
    panel = council(broken, n=2)
    session = panel.ask_sync("Why?")
    failed = [fact for fact in events_of(panel, session) if isinstance(fact, Failed)]
    assert [(one.seat, one.kind) for one in failed] == [(broken.name, kind)]
    assert failed[0].usage.cost_usd > 0
    assert session.status == "done"


def test_refusals_are_abstentions(council, mock):
    panel = council(decision_seat(mock, "shy", "do=refusal"), n=2)
    session = panel.ask_sync("Why?")
    (review,) = [one for one in session.reviews if one.reviewer == "shy"]
    assert review.abstained == "refused"
    assert not session.failures


def test_a_stored_review_reads_as_it_was(council):
    panel = council(n=1)
    session = panel.ask_sync("Why?")
    again = SessionView.of(panel.store.events(session.id)).session
    assert again.reviews == session.reviews
    reviewed = [fact for fact in events_of(panel, session) if isinstance(fact, Reviewed)]
    assert "answers" in json.loads(reviewed[0].text)
    assert reviewed[0].made_by.output == "probabilities"
