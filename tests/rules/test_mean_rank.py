from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from peerage.rules import rules
from peerage.rules.borda import borda
from peerage.rules.mean_rank import mean_rank


def test_first_is_one_and_the_mean_is_exact(read):
    assert mean_rank(read("A>B>C", "B>A>C", "A>C>B"), "ABC") == {
        "A": Fraction(4, 3),
        "B": Fraction(2),
        "C": Fraction(8, 3),
    }


def test_tied_candidates_share_their_mean_place(read):
    """Two tied for second of four both stand at two and a half."""
    places = mean_rank(read("A>B=C>D"), "ABCD")
    assert places == {"A": 1, "B": Fraction(5, 2), "C": Fraction(5, 2), "D": 4}


def test_the_unranked_have_no_place(read):
    """An unranked candidate is neither last nor anything else."""
    assert mean_rank(read("A>B", n=4), "ABCD") == {"A": 1, "B": 2}


def test_lower_is_better():
    """A board sorts this rule upwards."""
    assert rules.get("mean_rank").lower_is_better


@given(data=st.data())
def test_on_ballots_of_one_size_mean_rank_is_borda_upside_down(data, elections):
    """place = 1 + (1 - share)(n - 1) wherever n is the same."""
    placings, names = data.draw(elections)
    same = [placing for placing in placings if placing.n == len(names)]
    shares = borda(same, names)
    assert mean_rank(same, names) == {
        name: 1 + (1 - share) * (len(names) - 1) for name, share in shares.items()
    }
