"""The spread of tastes: how far lasting departures usually lie from what is predicted.

The pool of all reviewers' departures gives the usual spread. Reviewers with stronger tastes than
others would look biased next to it, so a reviewer's own spread is used where reviewers differ. It
is shrunk towards the pool, by less the more they differ, and is never below the pool: a reviewer
that seems to have no tastes may be lucky.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from peerage.reviews.cells import Bools, Floats, Ints
from peerage.stats.tails import trigamma

USUAL_TASTE = 0.25  # spread that is assumed if tastes cannot be measured, in a reviewer's sds
FEW_PAIRS = 400  # with at most this many pairs, a pair is compared with a pool without its own
MEDIAN_TO_SD = 1.4826
MEDIAN_DF = 0.4  # degrees of freedom of a median, relative to those of a mean of squares
OWN_DF = 0.7  # the same of the mean of a median and a mean of squares
TRIMMED_DF = 0.8  # the same of a mean of squares without the largest
MIN_PAIRS = 3  # of a reviewer, to measure its own spread
MIN_REVIEWERS = 3  # to see whether their spreads differ
LEAST_PRIOR_DF, MOST_PRIOR_DF = 0.5, 1e4
N_HALVINGS = 60


class Spread(NamedTuple):
    """The spread of tastes in units of the reviewer's standard deviation of scores."""

    sd: float
    df: float
    is_known: bool  # False if a usual value is assumed


class UsualDeparture(NamedTuple):
    """The departure of one pair, squared, and the part of it that is sessions' noise.

    Both are relative to what one taste adds to such a square.
    """

    reviewer: int
    candidate: int
    square: float
    noise: float


class TasteScatter:
    """The departures of usual pairs, and the spreads of tastes that they show."""

    def __init__(self, departures: Sequence[UsualDeparture] | Floats) -> None:
        table = np.array(departures, dtype=np.float64).reshape(-1, 4)
        self.table = table = table[np.argsort(table[:, 0], kind="stable")]
        reviewer, candidate, self.square, self.noise = table.T
        self.reviewer, self.candidate = reviewer.astype(np.int64), candidate.astype(np.int64)
        self.all = self._measure_pool(np.ones(len(self.square), dtype=bool))
        self.prior_df = self._prior_df()

    def for_own_answers(self, reviewer: int) -> Spread:
        """Return the spread with which a reviewer's preference for itself is compared."""
        return self._shrunk(self.all, self._of(reviewer, ()))

    def for_pair(self, reviewer: int, candidate: int) -> Spread:
        """Return the spread without this pair, and without others of the reviewer or candidate.

        If there are many pairs, the latter hardly matter and are not left out.
        """
        pool = self.all
        if len(self.square) <= FEW_PAIRS:
            pool = self._measure_pool((self.reviewer != reviewer) & (self.candidate != candidate))
        return self._shrunk(pool, self._of(reviewer, (candidate,)))

    def for_family(self, reviewer: int, kin: Collection[int]) -> Spread:
        """Return the spread without the reviewer's departures on its family."""
        rest, is_kin = self, (self.reviewer == reviewer) & np.isin(self.candidate, list(kin))
        if is_kin.any() and len(self.square) <= FEW_PAIRS:
            rest = TasteScatter(self.table[~is_kin])
        return rest._shrunk(rest.all, rest._of(reviewer, kin))

    def _of(self, reviewer: int, without: Collection[int]) -> Ints:
        """Return the places of a reviewer's pairs, without some candidates."""
        start, end = np.searchsorted(self.reviewer, [reviewer, reviewer + 1]).tolist()
        is_left = ~np.isin(self.candidate[start:end], list(without))
        return start + np.flatnonzero(is_left)

    def _measure_pool(self, among: Bools) -> Spread:
        """Return the spread beyond sessions' noise of some pairs, from their median.

        One standard error is added, because a small median of a few values does not prove that
        there are no tastes.
        """
        n = int(among.sum())
        df = MEDIAN_DF * (n - len(np.unique(self.reviewer[among])) - 1.0)
        if df < 1.0:
            return Spread(USUAL_TASTE, math.inf, False)
        middle = MEDIAN_TO_SD**2 * float(np.median(self.square[among]))
        variance = max(0.0, middle - float(self.noise[among].mean()))
        return Spread(math.sqrt(variance + middle * math.sqrt(2.0 / df)), df, True)

    def _shrunk(self, pool: Spread, own: Ints) -> Spread:
        """Return a reviewer's own spread, shrunk towards the pool and never below it."""
        if math.isinf(self.prior_df) or len(own) < MIN_PAIRS:
            return pool
        square, df = self.square[own], OWN_DF * (len(own) - 1.0)
        middle = MEDIAN_TO_SD**2 * float(np.median(square))
        variance = max(0.0, (middle + float(square.mean())) / 2.0 - float(self.noise[own].mean()))
        total = self.prior_df + df
        variance = (self.prior_df * pool.sd**2 + df * variance) / total
        sd = max(pool.sd, math.sqrt(variance))
        return Spread(sd, min(self.prior_df, pool.df) + df, pool.is_known)

    def _prior_df(self) -> float:
        """Return the weight of the pool in each reviewer's spread; infinite if all are alike.

        It is the df at which log variances drawn from one prior would differ as much as the
        reviewers' do. Each reviewer's largest departure is left out: it may be a bias.
        """
        logs, noise = [], []
        for reviewer in np.unique(self.reviewer).tolist():
            square = np.sort(self.square[self._of(reviewer, ())])
            if len(square) < MIN_PAIRS:
                continue
            square = square[: max(MIN_PAIRS, len(square) - 1)]
            mean = float(square.mean())
            if mean > 0.0:
                logs.append(math.log(mean))
                noise.append(trigamma(TRIMMED_DF * (len(square) - 1.0) / 2.0))
        if len(logs) < MIN_REVIEWERS:
            return math.inf
        excess = float(np.var(logs, ddof=1)) - float(np.mean(noise))
        return _df_of_variance(excess)


def _df_of_variance(variance: float) -> float:
    """Return the df at which a log variance has this variance; infinite for none."""
    if variance <= trigamma(MOST_PRIOR_DF / 2.0):
        return math.inf
    low, high = math.log(LEAST_PRIOR_DF), math.log(MOST_PRIOR_DF)
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2.0
        above = trigamma(math.exp(middle) / 2.0) > variance
        low, high = (middle, high) if above else (low, middle)
    return math.exp((low + high) / 2.0)
