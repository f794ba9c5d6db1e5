"""The panel's probability: votes pooled, worth what they are worth, and corrected by labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.decisions import by_seat, draw
from peerage import Council, Seat
from peerage.adjudication import record_decision as label
from peerage.panel_probabilities import (
    ASSUMED_CORRELATION,
    Labelled,
    PanelRecord,
    labelled_questions,
    panel_record,
    record_of,
)
from peerage.stats.probabilities import effective_votes, isotonic, smoothed_isotonic
from peerage.types import Option, TypedQuestion
from tests.shared.rates import calibration_error

PREDICATE = TypedQuestion("urgent", "predicate", "It is urgent.")
CHOICE = TypedQuestion("team", "choice", "Who?", (Option("a"), Option("b"), Option("c")))
chances = st.floats(0, 1)


@given(st.integers(1, 50), st.floats(-1, 1))
def test_votes_are_worth_from_one_to_all_of_them(n, correlation):
    assert 1 <= effective_votes(n, correlation) <= n + 1e-9


@given(st.lists(chances, min_size=1, max_size=9))
def test_the_panels_probability_lies_between_its_mean_vote_and_one_half(votes):
    record = PanelRecord()
    cast = {f"s{i}": (vote, 1 - vote) for i, vote in enumerate(votes)}
    answer = record.answer(PREDICATE, cast)
    mean, p = sum(votes) / len(votes), answer.probabilities[0]
    assert min(mean, 0.5) - 1e-5 <= p <= max(mean, 0.5) + 1e-5
    assert sum(answer.probabilities) == pytest.approx(1, abs=1e-5)


@given(st.lists(st.tuples(chances, st.booleans()), min_size=2, max_size=40), chances, chances)
def test_a_correction_never_falls_and_is_never_certain(pairs, a, b):
    x, y = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    for fit in (isotonic(x, y), smoothed_isotonic(x, y)):
        low, high = fit(np.array([min(a, b)]))[0], fit(np.array([max(a, b)]))[0]
        assert 0 < low <= high < 1


def test_a_hundred_labels_correct_independent_judges_better_than_isotonic_steps_alone():
    rng = np.random.default_rng(11)
    truth, votes = draw(rng, 1_100, 0.0)
    x = np.clip(votes.mean(axis=1) * 0.9 + 0.05, 0, 1)
    errors = [
        calibration_error(fit(x[100:]), truth[100:])
        for fit in (smoothed_isotonic(x[:100], truth[:100]), isotonic(x[:100], truth[:100]))
    ]
    assert errors[0] < errors[1]


def test_labels_tell_how_seats_err_together_and_correct_the_probability():
    rng = np.random.default_rng(3)
    truth, votes = draw(rng, 600, 0.6)
    known = [
        Labelled(f"s{i}", "predicate", by_seat(votes[i]), int(not truth[i])) for i in range(400)
    ]
    few, many = record_of(known[:99]), record_of(known)
    assert not few.fits
    assert many.fits
    assert many.correlation != ASSUMED_CORRELATION

    def error(record):
        answers = [record.answer(PREDICATE, by_seat(one)) for one in votes[400:]]
        assert {one.calibrated for one in answers} == {bool(record.fits)}
        return calibration_error(np.array([one.probabilities[0] for one in answers]), truth[400:])

    assert error(many) < error(few)


def test_corrected_probabilities_of_options_sum_to_one():
    rng = np.random.default_rng(4)
    known = []
    for i in range(120):
        correct = int(rng.integers(3))
        vote = tuple(float(one) for one in rng.dirichlet(np.eye(3)[correct] * 3 + 0.5))
        known.append(Labelled(f"s{i}", "choice", {"s": vote}, correct))
    answer = record_of(known).answer(CHOICE, {"s": (0.7, 0.2, 0.1)})
    assert answer.calibrated
    assert sum(answer.probabilities) == pytest.approx(1, abs=1e-5)


def test_people_label_a_stored_decision_and_the_record_has_it(tmp_path):
    seats = [Seat(name, "simulated", options={"noise": 0.5}) for name in ("ann", "bob", "cyd")]
    council = Council(seats=seats, store=f"sqlite:///{tmp_path}/s.db")
    session = council.ask_sync("Charged twice!", questions=[PREDICATE, CHOICE])
    assert session.verdict.kind == "decision"
    assert [one.name for one in session.verdict.answers] == ["urgent", "team"]
    assert list(labelled_questions(council.store)) == []
    label(council.store, session.id, ["urgent = false"], "", lambda: 1.0, "eve")
    (one,) = labelled_questions(council.store)
    assert (one.kind, one.correct, set(one.votes)) == ("predicate", 1, {"ann", "bob", "cyd"})
    assert panel_record(council.store, ["ann"]).n_labels == 1
    assert panel_record(council.store, ["nobody"]).n_labels == 0
