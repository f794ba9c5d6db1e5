from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.errors import UsageError
from peerage.rules.borda import borda
from peerage.rules.hybrid import hybrid
from peerage.types import Placing


def scored(placing: Placing, **scores: float) -> Placing:
    return replace(placing, scores={name: Fraction(score) for name, score in scores.items()})


def test_half_the_share_and_half_the_score(read):
    """A middle place and a score of 7 are 1/4 + 1/3."""
    (ballot,) = read("A>B>C")
    assert hybrid([scored(ballot, A=10, B=7, C=1)], "ABC") == {
        "A": 1,
        "B": Fraction(7, 12),
        "C": 0,
    }


def test_scores_are_averaged_over_the_ballots_that_have_one(read):
    """A ballot without scores moves the share and leaves the score alone."""
    one, two, bare = read("A>B", "A>B", "B>A")
    values = hybrid([scored(one, A=9, B=4), scored(two, A=8, B=4), bare], "AB")
    assert values["A"] == Fraction(1, 2) * Fraction(2, 3) + Fraction(1, 2) * Fraction(15, 18)


def test_a_score_on_a_ballot_that_does_not_vote_for_it_is_not_counted(read):
    """The mean is over the ballots that vote for the candidate."""
    full, partial = read("A>B", "B", n=2)
    values = hybrid([scored(full, A=10, B=1), scored(partial, A=1, B=1)], "AB")
    assert values["A"] == 1


def test_a_candidate_without_any_score_is_left_out(read):
    """A share alone is on another scale."""
    (ballot,) = read("A>B")
    assert set(hybrid([scored(ballot, A=5)], "AB")) == {"A"}
    assert hybrid([ballot], "AB") == {}


def test_alpha_weighs_the_share(read):
    """Alpha 1 is Borda, alpha 0 the score alone."""
    (ballot,) = read("A>B")
    ballots = [scored(ballot, A=4, B=10)]
    assert hybrid(ballots, "AB", alpha=Fraction(1)) == borda(ballots, "AB")
    assert hybrid(ballots, "AB", alpha=Fraction(0)) == {"A": Fraction(1, 3), "B": 1}


def test_an_impossible_alpha_is_refused(read):
    """Alpha is a weight."""
    with pytest.raises(UsageError, match="from 0 to 1"):
        hybrid(read("A>B"), "AB", alpha=Fraction(3, 2))


def test_a_score_capped_at_zero_falls_below_the_scale(read):
    """The formula is kept as it is."""
    (ballot,) = read("A>B")
    assert hybrid([scored(ballot, A=10, B=0)], "AB")["B"] == Fraction(-1, 18)


@given(data=st.data())
def test_values_are_exact_and_within_the_unit(data, elections):
    """Marks of 1 to 10 keep the blend in [0, 1], as fractions."""
    values = hybrid(*data.draw(elections)).values()
    assert all(isinstance(value, Fraction) and 0 <= value <= 1 for value in values)


def test_scores_on_another_scale_are_refused(read):
    (ballot,) = read("A>B")
    for scores in ({"A": 87, "B": 40}, {"A": 0.9, "B": 0.2}, {"A": 5, "B": -1}):
        with pytest.raises(UsageError, match="from 1 to 10"):
            hybrid([scored(ballot, **scores)], "AB")
    assert hybrid([scored(ballot, A=0, B=0)], "AB")["B"] == Fraction(-1, 18)  # both failed a gate
