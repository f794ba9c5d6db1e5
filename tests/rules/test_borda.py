from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from peerage.rules import rules
from peerage.rules.borda import borda
from peerage.types import Placing


def test_first_of_three_has_a_full_share_and_last_none(read):
    """(n-1-i)/(n-1)."""
    assert borda(read("A>B>C"), "ABC") == {"A": 1, "B": Fraction(1, 2), "C": 0}


def test_the_share_times_rivals_is_the_usual_points_for_outside_reviewers(read):
    """With N = 4, points 3, 2, 1, 0 averaged over ballots."""
    shares = borda(read("A>B>C>D", "B>A>C>D", "A>C>B>D"), "ABCD")
    points = {"A": Fraction(8, 3), "B": Fraction(6, 3), "C": Fraction(4, 3), "D": 0}
    assert {name: share * 3 for name, share in shares.items()} == points


def test_unranked_candidates_count_as_beaten_but_get_no_vote(read):
    """One of four shown is placed above three; the three are not judged."""
    assert borda(read("A", n=4), "ABCD") == {"A": 1}
    assert borda(read("A>B", n=4), "ABCD") == {"A": 1, "B": Fraction(2, 3)}


def test_a_tie_shares_the_mean_of_its_places(read):
    """In the middle, and at the top."""
    assert borda(read("A>B=C>D"), "ABCD") == {
        "A": 1,
        "B": Fraction(1, 2),
        "C": Fraction(1, 2),
        "D": 0,
    }
    assert borda(read("A=B>C"), "ABC") == {"A": Fraction(3, 4), "B": Fraction(3, 4), "C": 0}


def test_ballots_of_different_sizes_weigh_the_same(read):
    """A share is a mean over ballots, however many each one shows."""
    shares = borda(read("A>B") + read("B>C>D>A"), "ABCD")
    assert shares["A"] == Fraction(1, 2)
    assert shares["B"] == Fraction(1, 2)


def test_no_ballots_give_no_values():
    """Who has no vote is the tally's business: the rule names only those it can value."""
    assert borda([], "AB") == {}


def test_borda_is_registered_as_higher_is_better():
    assert rules.get("borda").values is borda
    assert not rules.get("borda").lower_is_better


@given(data=st.data())
def test_the_share_is_the_mean_count_of_rivals_beaten(data, elections):
    """The share in plain words: count who is placed below, half the tied, all unranked."""
    placings, names = data.draw(elections)

    def on_one_ballot(placing: Placing, name: str) -> Fraction:
        places = placing.doubled
        below = sum(place > places[name] for place in places.values())
        tied = sum(place == places[name] for place in places.values()) - 1
        unranked = placing.n - len(places)
        return (below + Fraction(tied, 2) + unranked) / (placing.n - 1)

    slow = {}
    for name in names:
        shares = [on_one_ballot(placing, name) for placing in placings if name in placing.doubled]
        if shares:
            slow[name] = sum(shares, Fraction(0)) / len(shares)
    assert borda(placings, names) == slow


@given(data=st.data())
def test_shares_lie_between_nothing_and_all(data, elections):
    """A share is in [0, 1], and exact."""
    values = borda(*data.draw(elections)).values()
    assert all(isinstance(value, Fraction) and 0 <= value <= 1 for value in values)
