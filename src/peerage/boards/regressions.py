"""The guard of a gate: whether a candidate has more clear regressions than chance explains.

Where the panel's votes are noisy, some queries of two equal models look like clear regressions, and
as many like clear improvements. So the guard compares the two numbers by an exact one-sided sign
test. A regression on a single query is shown by repeats of that query: again by a sign test,
corrected by Holm's method for the number of queries with enough repeats.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from peerage.boards.differences import QueryDifferences, RepeatView
from peerage.stats.tails import sign_test_p

MIN_JUDGES = 3  # judges who must have compared both answers of a query
CLEAR_DROP = 0.5  # in share: if all judges are against too, the query is a clear regression
GUARD_ALPHA = 0.05  # of both tests together
# The part of it for single queries, if both tests can show something: their signs are few, so that
# less would need more repeats. With this part one query needs five of them, and ten need eight.
REPEATS_PART = 0.8


@dataclass(frozen=True, slots=True)
class GuardFindings:
    """Clear regressions and improvements by their indices, and the two tests of the guard."""

    n_checked: int  # queries that enough judges compared
    regressions: tuple[int, ...]
    improvements: tuple[int, ...]
    p: float | None  # that there are so many more regressions by chance; None if there is neither
    blocks: bool  # because of the numbers of regressions and improvements
    n_repeated: int  # queries with enough repeats to be tested on their own
    most_repeats: int  # of one query
    repeats_needed: int  # of one query, before a regression on it alone can be shown
    repeated_regressions: tuple[int, ...]  # queries that repeats show to be regressions


def find_regressions(differences: QueryDifferences, n_candidates: int = 1) -> GuardFindings:
    """Return the clear regressions and improvements, and whether chance explains them.

    The two tests share their error, and so do several candidates. If one test cannot show anything
    here, the other has all of it.
    """
    alpha = GUARD_ALPHA / n_candidates
    worse, better = (_clear(differences, sign) for sign in (-1.0, 1.0))
    n_clear = len(worse) + len(better)
    p = sign_test_p(len(worse), n_clear) if n_clear else None
    repeats = differences.repeats
    rest = (1.0 - REPEATS_PART) * alpha
    can_compare = signs_needed(rest) <= n_clear
    for_repeats = REPEATS_PART * alpha if can_compare else alpha
    able, n_tests = _able(repeats, for_repeats)
    on_their_own = _on_their_own(repeats, able, for_repeats, n_tests)
    share = rest if able else alpha
    return GuardFindings(
        sum(view.n_judges >= MIN_JUDGES for view in differences.views),
        worse,
        better,
        p,
        p is not None and (can_compare or not able) and p <= share,
        len(able),
        max((view.n for view in repeats), default=0),
        signs_needed(for_repeats / n_tests),
        on_their_own,
    )


def signs_needed(alpha: float) -> int:
    """Return the least number of equal signs that a sign test finds at this level."""
    n = 1
    while sign_test_p(n, n) > alpha:
        n += 1
    return n


def _clear(differences: QueryDifferences, sign: float) -> tuple[int, ...]:
    """Return the queries on which all judges clearly prefer one side: with −1 the base."""
    return tuple(
        i
        for i, view in enumerate(differences.views)
        if view.n_judges >= MIN_JUDGES
        and (view.n_against if sign < 0.0 else view.n_for) == view.n_judges
        and sign * differences.by_measure[0, i] >= CLEAR_DROP
    )


def _able(repeats: Sequence[RepeatView], alpha: float) -> tuple[list[int], int]:
    """Return the queries with enough repeats to show something, and the number to correct for.

    A query with too few repeats for any verdict need not be corrected for (Tarone 1990).
    """
    counts = sorted(view.n for view in repeats)
    n_tests = 1
    while len(counts) - bisect_left(counts, signs_needed(alpha / n_tests)) > n_tests:
        n_tests += 1
    needed = signs_needed(alpha / n_tests)
    return [i for i, view in enumerate(repeats) if view.n >= needed], n_tests


def _on_their_own(
    repeats: Sequence[RepeatView], able: Sequence[int], alpha: float, n_tests: int
) -> tuple[int, ...]:
    """Return the queries whose own repeats show a clear regression, by Holm's method."""
    p_of = partial(_own_p, repeats)
    proven = []
    for n_before, i in enumerate(sorted(able, key=lambda i: (p_of(i), i))):
        if p_of(i) > alpha / (n_tests - n_before):
            break
        proven.append(i)
    return tuple(sorted(proven))


def _own_p(repeats: Sequence[RepeatView], i: int) -> float:
    """Return the p of a query's repeats; 1 if their mean is not a clear loss."""
    view = repeats[i]
    return sign_test_p(view.n_against, view.n) if view.mean <= -CLEAR_DROP else 1.0
