from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from peerage.rules.copeland import copeland

SCHULZE_45 = (
    "5: A>C>B>E>D",
    "5: A>D>E>C>B",
    "8: B>E>D>A>C",
    "3: C>A>B>E>D",
    "7: C>A>E>B>D",
    "2: C>B>A>D>E",
    "7: D>C>E>B>A",
    "8: E>B>A>D>C",
)


def test_forty_five_voters_give_the_known_counts(read):
    """E beats A, B and D; A, B and C beat two each; D only C."""
    assert copeland(read(*SCHULZE_45), "ABCDE") == {"A": 2, "B": 2, "C": 2, "D": 1, "E": 3}


def test_a_cycle_leaves_everyone_level(read):
    """Rock, paper, scissors."""
    assert copeland(read("A>B>C", "B>C>A", "C>A>B"), "ABC") == {"A": 1, "B": 1, "C": 1}


def test_an_even_pair_gives_half_to_each(read):
    """Evenly split ballots, and ballots that tie."""
    half = Fraction(1, 2)
    assert copeland(read("A>B", "B>A"), "AB") == {"A": half, "B": half}
    assert copeland(read("A=B"), "AB") == {"A": half, "B": half}


def test_a_pair_that_no_ballot_ranks_together_adds_nothing(read):
    """Unranked is not judged."""
    assert copeland(read("A>B", "C>D", n=4), "ABCD") == {"A": 1, "B": 0, "C": 1, "D": 0}
    assert copeland(read("A", n=4), "ABCD") == {}


def test_the_margin_does_not_matter(read):
    """A majority of one is a majority."""
    assert copeland(read("5: A>B", "4: B>A"), "AB") == {"A": 1, "B": 0}


@given(data=st.data())
def test_values_are_the_majorities_counted_one_by_one(data, elections):
    """A plain recount over every pair."""
    placings, names = data.draw(elections)
    slow: dict[str, Fraction] = {}
    for a in names:
        for b in names:
            both = [p.doubled for p in placings if a in p.doubled and b in p.doubled]
            if a == b or not both:
                continue
            above = sum(p[a] < p[b] for p in both)
            below = sum(p[a] > p[b] for p in both)
            points = Fraction(1 + (above > below) - (above < below), 2)
            slow[a] = slow.get(a, Fraction(0)) + points
    assert copeland(placings, names) == slow


@given(data=st.data())
def test_only_a_condorcet_winner_beats_all_the_others(data, elections):
    """The check that Copeland is here for."""
    placings, names = data.draw(elections)
    values = copeland(placings, names)
    assume(values)
    full = [name for name, value in values.items() if value == len(values) - 1]
    assert len(full) <= 1
    for name in full:
        for rival in values.keys() - {name}:
            both = [p.doubled for p in placings if {name, rival} <= p.doubled.keys()]
            assert sum((p[name] < p[rival]) - (p[name] > p[rival]) for p in both) > 0
