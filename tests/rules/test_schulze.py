from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from peerage.rules.copeland import copeland
from peerage.rules.pairwise import count_pairs
from peerage.rules.schulze import schulze, strongest_paths

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


def test_forty_five_voters_order_e_a_c_b_d(read):
    """Schulze's own example."""
    assert schulze(read(*SCHULZE_45), "ABCDE") == {"E": 4, "A": 3, "C": 2, "B": 1, "D": 0}


def test_forty_five_voters_have_the_published_paths(read):
    """The strengths printed with the example, by winning votes."""
    paths = strongest_paths(count_pairs(read(*SCHULZE_45), "ABCDE").wins)
    assert paths.tolist() == [
        [0, 28, 28, 30, 24],
        [25, 0, 28, 33, 24],
        [25, 29, 0, 29, 24],
        [25, 28, 28, 0, 24],
        [25, 28, 28, 31, 0],
    ]


def test_a_cycle_is_broken_at_its_weakest_majority(read):
    """A>B by 7 of 9, B>C by 6, C>A by 5: the last one gives way."""
    ballots = read("4: A>B>C", "2: B>C>A", "3: C>A>B")
    assert schulze(ballots, "ABC") == {"A": 2, "B": 1, "C": 0}


def test_an_even_cycle_and_an_even_pair_are_level(read):
    """Level rivals count half."""
    assert schulze(read("A>B>C", "B>C>A", "C>A>B"), "ABC") == {"A": 1, "B": 1, "C": 1}
    assert schulze(read("A=B>C"), "ABC") == {"A": Fraction(3, 2), "B": Fraction(3, 2), "C": 0}


def test_separate_groups_are_level_with_each_other(read):
    """No ballot ranks them together, so neither is ahead; the unranked are left out."""
    assert schulze(read("A>B", "C>D", n=5), "ABCDE") == {"A": 2, "B": 1, "C": 2, "D": 1}


def test_no_ballots_give_no_values():
    """Who has no vote is the tally's business."""
    assert schulze([], "AB") == {}


@given(data=st.data())
def test_a_condorcet_winner_is_always_first_and_alone(data, elections):
    """For Copeland and Schulze alike."""
    placings, names = data.draw(elections)
    majorities = copeland(placings, names)
    winner = next((n for n, value in majorities.items() if value == len(majorities) - 1), None)
    assume(winner is not None)
    for values in (majorities, schulze(placings, names)):
        assert all(values[winner] > value for name, value in values.items() if name != winner)


@given(data=st.data())
def test_the_values_sort_as_the_order_of_paths_does(data, elections):
    """Whoever is ahead on paths has the larger value, so nothing is lost by counting."""
    placings, names = data.draw(elections)
    pairs = count_pairs(placings, names)
    values = schulze(placings, names)
    paths = strongest_paths(pairs.wins)
    for i, j in np.argwhere(paths > paths.T):
        assert values[pairs.names[i]] > values[pairs.names[j]]


@given(data=st.data())
def test_paths_are_those_found_by_walking_every_chain(data, elections):
    """Against a search through all simple chains."""
    wins = count_pairs(*data.draw(elections)).wins

    def widest(at: int, goal: int, width: float, seen: frozenset[int]) -> float:
        if at == goal:
            return width
        onward = [
            widest(to, goal, min(width, int(wins[at, to])), seen | {to})
            for to in range(len(wins))
            if to not in seen and wins[at, to] > wins[to, at]
        ]
        return max(onward, default=0)

    paths = strongest_paths(wins)
    for i in range(len(wins)):
        for j in range(len(wins)):
            expected = 0 if i == j else widest(i, j, float("inf"), frozenset({i}))
            assert paths[i, j] == pytest.approx(expected)
