import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.rules.elo import elo
from peerage.types import Placing


def test_one_match_between_equals_moves_half_of_k(read):
    """An even match won is worth 16 of 32 points."""
    assert elo(read("A>B"), "AB") == {"A": 1516, "B": 1484}


def test_the_second_win_is_worth_less(read):
    """Expected 1/(1 + 10^(-32/400)) = 0.545922 after the first win."""
    ratings = elo(read("2: A>B"), "AB")
    assert ratings["A"] == pytest.approx(1516 + 32 * (1 - 0.5459219), abs=1e-4)
    assert ratings["A"] + ratings["B"] == pytest.approx(3000)


def test_a_tie_is_half_a_win_each(read):
    """Equals that tie stay where they are; the stronger loses by a tie."""
    assert elo(read("A=B"), "AB") == {"A": 1500, "B": 1500}
    assert elo(read("A>B", "A=B"), "AB")["A"] < 1516


def test_a_long_ballot_moves_no_one_by_more_than_half_of_k_from_even(read):
    """k is divided by the number of opponents."""
    assert elo(read("A>B>C"), "ABC") == {"A": 1516, "B": 1500, "C": 1484}


def test_the_order_of_ballots_matters(read):
    """That is Elo's nature, and the page on rules says so."""
    assert elo(read("A>B", "B>A"), "AB")["A"] < 1500 < elo(read("B>A", "A>B"), "AB")["A"]


def test_a_candidate_that_met_no_rival_has_no_rating(read):
    """Unranked is not judged, and a sole ranked candidate played no match."""
    assert set(elo(read("A>B", "C", n=4), "ABCD")) == {"A", "B"}
    assert elo([], "AB") == {}


def test_k_start_and_scale_can_be_chosen(read):
    """Another k makes another rule."""
    assert elo(read("A>B"), "AB", k=10, start=0) == {"A": 5, "B": -5}


@given(data=st.data())
def test_how_a_ballot_is_written_down_changes_no_bit(data, elections):
    """All pairs of a ballot are played at once, and candidates come in any order."""
    placings, names = data.draw(elections)
    shuffled = [
        Placing(p.reviewer, p.n, dict(reversed(p.doubled.items())), p.first) for p in placings
    ]
    assert elo(placings, names) == elo(shuffled, names[::-1])


@given(data=st.data())
def test_points_are_only_passed_around(data, elections):
    """The mean rating stays where it began."""
    ratings = elo(*data.draw(elections))
    assert sum(ratings.values()) == pytest.approx(1500 * len(ratings))
