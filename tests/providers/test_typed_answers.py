"""Marks with probabilities: how typed answers are read, and how they count as soft votes."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerage import config
from peerage.council.counting import count, exact_mark, overall, place
from peerage.providers.typed_answers import (
    TypedAnswer,
    answer_document,
    approval_question,
    ballot_questions,
    concentration,
    read_approval,
    read_choice,
    read_marks,
    tie_question,
)
from peerage.scoring import score_session
from peerage.types import (
    Ballot,
    MarkChances,
    Query,
    Response,
    Review,
    ScoringOptions,
    Session,
    Slot,
)

RUBRIC = config.rubric("general")
NAMES = ("ann", "bob", "cyd", "dan")


def ballot_of(names, reviewer="judge"):
    slots = tuple(Slot(label, name, "text") for label, name in zip("ABCDEF", names, strict=False))
    return Ballot(reviewer, slots)


def answered(questions, draw):
    answers = {one.name: draw(one) for one in questions}
    return answer_document(answers)


def peaked(question, at, height=0.8):
    rest = (1 - height) / (question.n_options - 1)
    parts = [rest] * question.n_options
    parts[at] = height
    return TypedAnswer(tuple(parts), concentration(parts))


def test_every_answer_and_dimension_is_a_score_by_its_anchors():
    questions = ballot_questions(ballot_of(NAMES), RUBRIC)
    assert len(questions) == len(NAMES) * len(RUBRIC.dimensions)
    first = questions[0]
    assert (first.name, first.kind) == ("A.accuracy", "score")
    anchors = RUBRIC.dimensions[0].anchors
    assert [(o.value, o.description) for o in first.options] == list(reversed(anchors))


def test_expected_values_are_the_marks():
    ballot = ballot_of(NAMES[:2])
    questions = ballot_questions(ballot, None)
    text = answered(questions, lambda one: peaked(one, 4 if one.name == "A" else 0))
    review = read_marks(text, ballot, None).review
    middle = 0.05 * (1.5 + 3.5 + 5.5 + 7.5)
    assert review.scores["A"] == pytest.approx(0.8 * 9.5 + middle)
    assert review.ranking == (("A",), ("B",))
    assert review.chances["A"][""].levels == (1.5, 3.5, 5.5, 7.5, 9.5)


def test_a_refused_question_leaves_its_mark_out_and_all_refused_is_an_abstention():
    ballot = ballot_of(NAMES[:2])
    questions = ballot_questions(ballot, RUBRIC)
    one_out = answered(questions, lambda q: None if q.name == "A.clarity" else peaked(q, 2))
    review = read_marks(one_out, ballot, RUBRIC).review
    assert "clarity" not in review.marks["A"]
    assert "clarity" in review.marks["B"]
    none = read_marks(answered(questions, lambda _: None), ballot, RUBRIC).review
    assert none.abstained == "refused"
    assert read_marks("not JSON", ballot, RUBRIC).review.abstained == "refused"


@pytest.mark.parametrize(
    ("chance", "approved"), [(0.7, True), (0.2, False), (0.5, None), (1.0, True)]
)
def test_a_predicate_is_a_vote_on_the_verdict(chance, approved):
    one = TypedAnswer((chance, 1 - chance), abs(2 * chance - 1))
    text = answer_document({approval_question().name: one})
    vote = read_approval(text)
    assert (vote.approved, vote.probability) == (approved, chance)


def test_a_choice_breaks_a_tie_by_probability():
    ballot = ballot_of(NAMES[:3])
    question = tie_question(ballot.slots)
    text = answer_document({question.name: TypedAnswer((0.2, 0.7, 0.1), 0.5)})
    assert read_choice(text, ballot).review.ranking == (("B",), ("A",), ("C",))


# -- soft votes against a plain reading of the definition ------------------------------------------


@st.composite
def distributions(draw, n):
    weights = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n).filter(any))
    return tuple(weight / sum(weights) for weight in weights)


@st.composite
def reviews(draw, dimensions=("",), own=False):
    names = NAMES[: draw(st.integers(2, 4))]
    ballot = ballot_of(names, names[0] if own else "judge")
    levels = (1.5, 3.5, 5.5, 7.5, 9.5)
    chances = {
        slot.label: {name: MarkChances(levels, draw(distributions(5)), 0.5) for name in dimensions}
        for slot in ballot.slots
    }
    marks = {label: {n: m.expected for n, m in by.items()} for label, by in chances.items()}
    if dimensions == ("",):
        scores = {label: by[""] for label, by in marks.items()}
        return ballot, Review(ballot.reviewer, scores=scores, chances=chances)
    return ballot, Review(ballot.reviewer, marks=marks, chances=chances)


def plain_probability(first, second, mark_of):
    """P(X > Y) + P(X = Y) / 2, by going through every pair of outcomes."""
    total = 0.0
    for xs in itertools.product(*(range(5) for _ in first)):
        for ys in itertools.product(*(range(5) for _ in second)):
            p = math.prod(first[n].probabilities[i] for n, i in zip(first, xs, strict=True))
            p *= math.prod(second[n].probabilities[i] for n, i in zip(second, ys, strict=True))
            x = mark_of({n: first[n].levels[i] for n, i in zip(first, xs, strict=True)})
            y = mark_of({n: second[n].levels[i] for n, i in zip(second, ys, strict=True)})
            total += p * ((x > y) + (x == y) / 2)
    return total


@settings(max_examples=40)
@given(reviews(), st.sampled_from(["out", "in", "place_kept"]))
def test_a_soft_vote_is_the_mean_probability_of_being_above_each_rival(drawn, own_votes):
    ballot, review = drawn
    placing = place(count(ballot, review), own_votes, len(ballot.slots))
    for slot in ballot.slots:
        others = [one for one in ballot.slots if one is not slot]
        expected = [
            plain_probability(
                review.chances[slot.label],
                review.chances[one.label],
                lambda marks: exact_mark(marks[""]),
            )
            for one in others
        ]
        assert float(placing.share(slot.author)) == pytest.approx(sum(expected) / len(others))


@settings(max_examples=8, deadline=None)
@given(reviews(dimensions=("accuracy", "clarity")))
def test_ceilings_hold_for_each_possible_mark_of_accuracy(drawn):
    ballot, review = drawn
    placing = place(count(ballot, review, RUBRIC), "out", len(ballot.slots))
    first, second, *rest = ballot.slots
    if rest:
        return
    share = plain_probability(
        review.chances[first.label],
        review.chances[second.label],
        lambda marks: overall(marks, RUBRIC),
    )
    assert float(placing.share(first.author)) == pytest.approx(share)


@given(reviews(own=True))
def test_shares_of_a_ballot_add_up_and_an_own_answer_is_no_rival(drawn):
    ballot, review = drawn
    counted = count(ballot, review)
    n = len(ballot.slots) - 1
    placing = place(counted, "out", len(ballot.slots))
    if n < 2:
        assert placing is None
        return
    assert float(sum(placing.soft.values())) == pytest.approx(n / 2)
    assert ballot.reviewer not in placing.soft


@given(reviews())
def test_without_soft_votes_the_order_of_the_marks_counts(drawn):
    ballot, review = drawn
    placing = place(count(ballot, review, soft_votes=False), "out", len(ballot.slots))
    hard = place(count(ballot, replace(review, chances={})), "out", len(ballot.slots))
    assert placing == hard
    assert not placing.soft


def test_certain_probabilities_count_like_an_ordinary_vote():
    ballot = ballot_of(NAMES[:3])
    questions = ballot_questions(ballot, None)
    at = {"A": 4, "B": 2, "C": 2}
    text = answered(questions, lambda one: peaked(one, at[one.name], 1.0))
    review = read_marks(text, ballot, None).review
    soft = place(count(ballot, review), "out", 3)
    hard = place(count(ballot, review, soft_votes=False), "out", 3)
    for name in NAMES[:3]:
        assert soft.share(name) == hard.share(name)


def test_an_answer_that_fails_the_gate_is_below_all_that_pass():
    ballot = ballot_of(NAMES[:3])
    text = answered(ballot_questions(ballot, None), lambda one: peaked(one, 4 - ord(one.name) % 3))
    counted = count(ballot, read_marks(text, ballot, None).review, gated=frozenset({"ann"}))
    placing = place(counted, "out", 3)
    assert placing.share("ann") == 0
    assert float(placing.share("bob") + placing.share("cyd")) == pytest.approx(1.5)


def test_the_share_of_a_session_mixes_soft_and_hard_votes():
    ballots, reviews_ = [], []
    for reviewer in ("d1", "w1"):
        ballot = ballot_of(NAMES[:2], reviewer)
        ballots.append(ballot)
        if reviewer == "d1":
            text = answered(
                ballot_questions(ballot, None),
                lambda one: peaked(one, 3, 0.5 + 0.1 * (one.name > "A")),
            )
            reviews_.append(replace(read_marks(text, ballot, None).review, reviewer=reviewer))
        else:
            reviews_.append(Review(reviewer, (("A",), ("B",))))
    session = Session(
        "s",
        Query("?"),
        candidates=NAMES[:2],
        responses=tuple(Response(name, "text") for name in NAMES[:2]),
        ballots=tuple(ballots),
        reviews=tuple(reviews_),
    )
    soft = {one.model: one.share for one in score_session(session, ScoringOptions()).scores}
    assert 0.5 < soft["ann"] < 1.0
    assert soft["ann"] + soft["bob"] == pytest.approx(1.0)
    hard = score_session(session, ScoringOptions(soft_votes=False)).scores
    assert {one.share for one in hard} <= {0.0, 0.25, 0.5, 0.75, 1.0}
