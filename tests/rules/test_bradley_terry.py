import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from peerage.errors import UsageError
from peerage.rules.bradley_terry import bradley_terry
from peerage.stats.strengths import covariance, level, needs_prior, strengths

WINS = [[0, 3, 2, 1], [1, 0, 0, 0], [0, 4, 0, 4], [2, 3, 4, 0]]
TIES = [[0, 1, 1, 2], [0, 0, 2, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
EVALICA = [1.4603510083428057, 0.30803010733893343, 1.2501380965728681, 1.7782449659337458]


@st.composite
def win_matrices(draw):
    n = draw(st.integers(2, 6))
    doubled = draw(arrays(np.int64, (n, n), elements=st.integers(0, 6)))
    np.fill_diagonal(doubled, 0)
    return doubled / 2


def connected_matrices():
    return win_matrices().filter(lambda wins: not needs_prior(wins))


def minorised(wins: np.ndarray, rounds: int = 20_000) -> np.ndarray:
    """Hunter's plain MM iteration, slow and independent of the solver."""
    n_met = wins + wins.T
    strength = np.ones(len(wins))
    for _ in range(rounds):
        before = strength
        strength = wins.sum(axis=1) / (n_met / (before[:, None] + before[None, :])).sum(axis=1)
        strength /= np.exp(np.log(strength).mean())
        if np.abs(np.log(strength / before)).max() < 1e-13:
            break
    return np.log(strength)


def test_two_candidates_stand_apart_by_their_log_odds(read):
    """Three wins to one are odds of 3, or 400 log10(3) points."""
    ratings = bradley_terry(read("3: A>B", "B>A"), "AB")
    assert ratings["A"] - ratings["B"] == pytest.approx(400 * math.log10(3), abs=1e-9)
    assert ratings["A"] + ratings["B"] == pytest.approx(3000, abs=1e-9)


def test_a_tie_is_half_a_win_for_each(read):
    """Two wins and two ties are three points to one."""
    tied = bradley_terry(read("2: A>B", "2: A=B"), "AB")
    assert tied == pytest.approx(bradley_terry(read("3: A>B", "B>A"), "AB"), abs=1e-9)


def test_four_candidates_with_ties_have_the_figures_of_evalica():
    """evalica 0.4.2, whose scores have geometric mean 1, as ours have mean log 0."""
    won = np.array(WINS)
    tied = np.array(TIES)
    logs = strengths(won + (tied + tied.T) / 2)
    assert np.exp(logs) == pytest.approx(EVALICA, abs=1e-9)


@given(wins=connected_matrices())
def test_strengths_are_those_of_the_plain_iteration(wins):
    """Wherever the likelihood has a maximum."""
    assert strengths(wins) == pytest.approx(minorised(wins), abs=1e-6)


@given(wins=connected_matrices())
def test_expected_wins_are_the_counted_wins(wins):
    """The likelihood's own condition, which no other point satisfies."""
    logs = strengths(wins)
    chance = 1 / (1 + np.exp(logs[None, :] - logs[:, None]))
    assert ((wins + wins.T) * chance).sum(axis=1) == pytest.approx(wins.sum(axis=1), abs=1e-9)
    assert logs.mean() == pytest.approx(0, abs=1e-12)


@given(wins=win_matrices(), seed=st.integers(0, 1000))
def test_the_order_of_candidates_does_not_matter(wins, seed):
    """With and without the prior."""
    order = np.random.default_rng(seed).permutation(len(wins))
    assert strengths(wins[np.ix_(order, order)]) == pytest.approx(strengths(wins)[order], abs=1e-9)


@given(wins=win_matrices())
def test_strengths_always_exist_and_more_wins_never_hurt(wins):
    """One more win over the next lifts a candidate above where it was against it."""
    before = strengths(wins)
    assert np.isfinite(before).all()
    if needs_prior(wins):
        return
    more = wins.copy()
    more[0, 1] += 1
    after = strengths(more)
    assert after[0] - after[1] >= before[0] - before[1] - 1e-9


def test_an_unbeaten_candidate_is_first_at_a_finite_distance():
    """4 to 0 is read as 4.5 to 0.5 by the virtual tie."""
    wins = np.array([[0.0, 4.0], [0.0, 0.0]])
    assert needs_prior(wins)
    assert np.diff(strengths(wins)) == pytest.approx([-math.log(9)], abs=1e-9)


def test_a_winless_candidate_and_a_one_way_group_need_the_prior_too():
    """The maximum exists only if wins lead from everyone to everyone."""
    cycle = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=float)
    assert not needs_prior(cycle)
    winless = np.zeros((4, 4))
    winless[:3, :3] = cycle
    winless[:3, 3] = 1
    assert needs_prior(winless)
    assert strengths(winless).argmin() == 3


def test_separate_groups_are_centred_on_each_other(read):
    """With no ballot between them only the prior speaks, and it says level."""
    ratings = bradley_terry(read("2: A>B", "B>A", "2: C>D", "D>C", n=4), "ABCD")
    assert ratings["A"] == ratings["C"] > 1500 > ratings["B"] == ratings["D"]


def test_the_prior_is_one_virtual_tie_per_candidate_however_many_there_are():
    """Spread over all rivals, so that a long field is not pulled together more."""
    wins = np.triu(np.ones((5, 5)), 1)
    supported = wins + (1 - np.eye(5)) / 8
    assert strengths(wins) == pytest.approx(minorised(supported), abs=1e-6)


def test_the_prior_stays_out_where_it_is_not_needed():
    """A connected matrix gets the plain maximum, to the last digit of its odds."""
    assert np.diff(strengths(np.array([[0.0, 1.0], [999.0, 0.0]]))) == pytest.approx(
        [math.log(999)], abs=1e-9
    )


def test_the_same_record_gives_the_same_rating_to_the_last_bit(read):
    """Equal candidates must share a rank."""
    ratings = bradley_terry(read("A>C>B>D", "B>C>A>D", "D>A=B>C", n=4), "ABCD")
    assert ratings["A"] == ratings["B"]


def test_a_candidate_without_comparisons_has_no_rating(read):
    """Unranked is not judged."""
    assert set(bradley_terry(read("A>B", "C", n=4), "ABCD")) == {"A", "B"}
    assert bradley_terry([], "AB") == {}


def test_candidates_in_another_order_change_no_bit(read):
    """Names are sorted before anything is summed."""
    ballots = read("A>C>B>D", "D>B>A>C", "B>A=D>C")
    assert bradley_terry(ballots, "ABCD") == bradley_terry(ballots, "DBCA")


def test_lopsided_chains_are_solved_to_the_last_digits():
    """A billion wins to one, forty times in a row."""
    wins = np.diag(np.full(40, 1e9), 1) + np.diag(np.ones(40), -1)
    assert np.diff(strengths(wins)) == pytest.approx(np.full(40, -math.log(1e9)), abs=1e-9)


def test_seven_hundred_and_two_candidates_recover_their_strengths():
    """The most a ballot can label, with counts in the millions."""
    rng = np.random.default_rng(7)
    truth = rng.normal(0, 1, 702)
    truth -= truth.mean()
    chance = 1 / (1 + np.exp(truth[None, :] - truth[:, None]))
    n_met = np.triu(rng.poisson(20, (702, 702)), 1)
    won = rng.binomial(n_met, chance)
    wins = (won + (n_met - won).T).astype(float)
    logs = strengths(wins)
    errors = (logs - truth) / np.sqrt(covariance(wins, logs).diagonal())
    assert errors.std() == pytest.approx(1, abs=0.1)


def test_the_covariance_of_one_pair_is_the_textbook_one():
    """The variance of a log odds is 1/wins + 1/losses."""
    wins = np.array([[0.0, 30.0], [10.0, 0.0]])
    spread = covariance(wins, strengths(wins))
    difference = spread[0, 0] + spread[1, 1] - 2 * spread[0, 1]
    assert difference == pytest.approx(1 / 30 + 1 / 10)


@given(wins=connected_matrices())
def test_the_covariance_is_symmetric_positive_and_blind_to_shifts(wins):
    """Strengths are known only up to a common shift."""
    spread = covariance(wins, strengths(wins))
    assert spread == pytest.approx(spread.T, abs=1e-9)
    assert spread.sum(axis=1) == pytest.approx(np.zeros(len(wins)), abs=1e-8)
    assert np.linalg.eigvalsh(spread).min() > -1e-8


@pytest.mark.parametrize(
    "wins",
    [[[0, -1], [1, 0]], [[0, math.nan], [1, 0]], [[1, 1], [1, 0]], [[0, 1]], [0, 1]],
    ids=["negative", "not a number", "against itself", "not square", "flat"],
)
def test_counts_that_cannot_be_are_refused(wins):
    """A wrong matrix must not become a plausible rating."""
    with pytest.raises(UsageError):
        strengths(np.array(wins, dtype=float))


def test_no_one_and_a_lone_candidate_have_nothing_to_solve():
    """The empty cases."""
    assert strengths(np.zeros((0, 0))).tolist() == []
    assert strengths(np.zeros((1, 1))).tolist() == [0.0]
    assert covariance(np.zeros((1, 1)), np.zeros(1)).tolist() == [[0.0]]
    assert not needs_prior(np.zeros((1, 1)))


def test_ratings_apart_by_rounding_only_are_levelled():
    """Runs of near-equals share their mean, and real differences stay."""
    assert level(np.array([2.0, 1.0, 1.0 + 1e-12])).tolist()[1:] == [1.0 + 5e-13] * 2
    assert level(np.array([2.0, 1.0])).tolist() == [2.0, 1.0]
