"""The batch path gives what the scalar path gives, bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerage import config
from peerage.council.batch import Batch, score_batch
from peerage.council.counting import count
from peerage.council.tally import tally
from peerage.errors import InputError
from peerage.rules import rules
from peerage.types import Ballot, Review, Slot

BORDA = rules.get("borda")
RUBRIC = config.rubric("general")
LETTERS = "ABCDEFGH"


@st.composite
def batches(draw):
    n = draw(st.integers(1, 5))
    n_reviewers = draw(st.integers(1, 6))
    n_sessions = draw(st.integers(1, 3))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    rank = rng.integers(0, n + 1, (n_sessions, n_reviewers, n))
    own = rng.integers(-1, n, (n_sessions, n_reviewers))
    for session in own:  # no two reviewers own the same answer
        seen = set()
        for i, c in enumerate(session):
            session[i] = -1 if c in seen else c
            seen.add(c)
    gated = rng.random((n_sessions, n)) < draw(st.sampled_from([0, 0.3]))
    marks = rng.integers(0, 11, (n_sessions, n_reviewers, n, len(RUBRIC.weights)))
    marks[rng.random(marks.shape[:2]) < 0.2] = 0
    return Batch(rank, own, gated, marks)


def scalar(batch, session, own_votes, rubric):
    """One session of a batch through the scalar path."""
    n = batch.rank.shape[2]
    names = [f"c{i}" for i in range(n)]
    gated = frozenset(names[i] for i in np.flatnonzero(batch.gated[session]))
    counted = []
    for r, rank in enumerate(batch.rank[session]):
        own = batch.own[session, r]
        reviewer = names[own] if own >= 0 else f"x{r}"
        ballot = Ballot(reviewer, tuple(Slot(LETTERS[i], names[i]) for i in range(n)))
        tiers = tuple(
            tuple(LETTERS[i] for i in np.flatnonzero(rank == at))
            for at in np.unique(rank[rank > 0])
        )
        marks = {
            LETTERS[i]: {d: int(m) for d, m in zip(RUBRIC.weights, row, strict=True) if m}
            for i, row in enumerate(batch.marks[session, r])
        }
        review = Review(reviewer, tiers, marks=marks if rubric else {})
        counted.append(count(ballot, review, rubric, gated))
    scores = {s.model: s for s in tally(counted, names, BORDA, BORDA, own_votes)}
    return [scores[name] for name in names]


@settings(max_examples=300, deadline=None)
@given(batches(), st.sampled_from(["out", "in", "seed"]), st.sampled_from([None, RUBRIC]))
def test_a_batch_is_bit_identical_to_the_scalar_path(batch, own_votes, rubric):
    got = score_batch(batch, own_votes, rubric)
    for session in range(len(batch.rank)):
        for c, want in enumerate(scalar(batch, session, own_votes, rubric)):
            at = session, c
            assert (got.share[at], got.borda[at]) == (want.share, want.borda)
            assert (got.votes[at], got.wins[at], got.rank[at]) == (want.votes, want.wins, want.rank)
            assert got.confidence[at] == want.confidence


def test_a_batch_of_no_sessions_is_empty():
    empty = Batch(np.zeros((0, 3, 4), int), np.zeros((0, 3), int))
    assert score_batch(empty).share.shape == (0, 4)


def test_marks_finer_than_a_batch_can_hold_exactly_are_refused():
    marks = np.full((1, 1, 2, len(RUBRIC.weights)), 7.12345)
    batch = Batch(np.array([[[1, 2]]]), np.array([[-1]]), marks=marks)
    with pytest.raises(InputError, match="three decimals"):
        score_batch(batch, "out", RUBRIC)
