"""Bradley–Terry strengths from counted wins, by damped Newton steps.

P(i beats j) = s_i / (s_i + s_j); a tie is half a win for each side. The wins are counted
once into a matrix, so the cost does not grow with the number of comparisons.
R. A. Bradley and M. E. Terry, Rank analysis of incomplete block designs, Biometrika 39 (1952).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peerage.errors import UsageError

Reals = NDArray[np.float64]

CENTRE = 1500.0
SCALE = 400 / np.log(10)  # as in Elo ratings: a lead of 400 points means odds of ten to one
SAME = 1e-8  # ratings closer than this differ only by rounding
VIRTUAL_TIES = 1.0  # per candidate, spread over its rivals, and only if a prior is needed
CLOSE = 1e-9  # after a Newton step this short, the error is about its square
FAINT = 0.0025  # penalty in points per unit of log strength: unbeaten candidates stay finite
MAX_SHARE_STEPS = 200  # usually fewer than twenty; more only if ballots contradict each other
MAX_STEPS = 10_000  # a dozen is usual; a cycle of 300 lopsided pairs takes a thousand


def rating(logs: Reals) -> Reals:
    """Return ratings on Elo's scale (mean 1500) from log strengths; near-equal ones are merged."""
    return level(CENTRE + SCALE * logs)


def level(values: Reals, gap: float = SAME) -> Reals:
    """Return the values, with each run of neighbours closer than the gap replaced by its mean.

    Candidates with the same record must share a rank; rounding must not decide their order.
    """
    if not values.size:
        return values
    order = np.argsort(values, kind="stable")
    run = np.concatenate(([0], np.cumsum(np.diff(values[order]) >= gap)))
    means = np.bincount(run, weights=values[order]) / np.bincount(run)
    levelled = np.empty_like(values)
    levelled[order] = means[run]
    return levelled


def strengths(wins: Reals) -> Reals:
    """Return log strengths with mean zero, from `wins[winner, loser]` with ties as halves.

    The result maximises the likelihood if there is a maximum. If not, every candidate gets one
    virtual tie, spread evenly over all its rivals: half a win and half a loss. The caller leaves
    out candidates without any comparison.
    """
    counts = _check_wins(wins)
    met = counts + counts.T > 0
    logs = np.zeros(len(counts))
    if len(counts) < 2:
        return logs
    for _ in range(MAX_STEPS):
        step = _newton_step(counts, logs)
        if np.ptp(step) <= CLOSE:
            return _centre(logs + step)
        # A full step changes the log odds of a counted pair by at most `pace`, so the curvature
        # of the loss grows by a factor of at most e^pace: with this damping a step never
        # overshoots, and no line search is needed.
        pace = float(np.abs(step[:, None] - step[None, :]).max(where=met, initial=0.0))
        logs = logs + step * (np.log1p(pace) / pace)
    raise ArithmeticError(f"Bradley-Terry did not converge in {MAX_STEPS} steps")


def needs_prior(wins: Reals) -> bool:
    """Return whether the likelihood has no maximum, so that `strengths` adds a weak prior.

    The likelihood has a maximum exactly if a chain of wins leads from every candidate to every
    other (Ford 1957): no candidate or group is unbeaten or winless against the rest, or never met
    the rest.
    """
    if not len(wins):
        return False
    beats = wins > 0
    return not (_reaches_all(beats) and _reaches_all(beats.T))


def covariance(wins: Reals, logs: Reals) -> Reals:
    """Return the covariance of the log strengths (inverse information under mean zero).

    The variance of the difference of i and j is c[i, i] + c[j, j] - 2 c[i, j]. It is valid for
    independent comparisons. Comparisons from one ballot are not independent; for these, resample
    whole sessions instead.
    """
    counts = _check_wins(wins)
    if len(counts) < 2:
        return np.zeros_like(counts)
    information = _information(counts, _chance_to_lose(logs))
    anchor = _anchor(information)
    inverse = np.linalg.inv(information + anchor).astype(np.float64, copy=False)
    return inverse - 1 / (anchor * len(counts) ** 2)


# -- shares against the same rivals ----------------------------------------------------------------


class CommonShares(NamedTuple):
    """Shares as if every candidate had met all others equally often, with their derivatives."""

    value: Reals
    slopes: Reals  # [k, i]: how much one more point of candidate k adds to the value of i
    expected: Reals  # [i, j]: the share of i against j alone


def common_shares(points: Reals, met: Reals) -> CommonShares:
    """Return each candidate's share of rivals beaten as if all had met equally often.

    `points[i]` is the sum of i's shares over its sessions, and `met[i, j]` is how much of them was
    decided against j; each row of `met` adds up to the number of sessions of i. The Bradley-Terry
    strengths are chosen so that the expected points of every candidate equal its points. If all
    met equally often, the result is the plain share. One more parameter, the level, allows for
    ballots that rank only some candidates: there the unranked ones always lose.
    """
    n = len(points)
    rivals = 1.0 - np.eye(n)
    logs, level = np.zeros(n), 0.0
    for _ in range(MAX_SHARE_STEPS):
        expected, curve = _shares_expected(logs, level)
        gap = points - (met * expected).sum(axis=1) - FAINT * logs
        held = _derivatives(met * curve, FAINT)
        step = np.linalg.solve(held, np.append(gap, level - logs.sum()))
        pace = 2.0 * float(np.abs(step).max())
        if pace <= CLOSE:
            break
        step *= np.log1p(pace) / pace
        logs, level = logs + step[:n], level + float(step[n])
    value = (expected * rivals).sum(axis=1) / (n - 1)
    turned = _derivatives(curve * rivals / (n - 1))[:n]
    slopes = np.linalg.solve(held.T, turned.T)[:n]
    return CommonShares(value, slopes.astype(np.float64, copy=False), expected)


def _shares_expected(logs: Reals, level: float) -> tuple[Reals, Reals]:
    """Return the expected share of each row's candidate against each column's, and its slope."""
    odds = np.clip(level + logs[:, None] - logs[None, :], -500.0, 500.0)
    expected = 1.0 / (1.0 + np.exp(-odds))
    return expected, expected * (1.0 - expected)


def _derivatives(weights: Reals, faint: float = 0.0) -> Reals:
    """Return the derivatives of expected points by each log strength and, last, by the level.

    The last row ties the sum of the log strengths to the level, because only differences matter.
    """
    n = len(weights)
    own = weights.sum(axis=1)
    moved = np.ones((n + 1, n + 1))
    moved[:n, :n] = np.diag(own + faint) - weights
    moved[:n, n] = own
    moved[n, n] = -1.0
    return moved


def groups_that_met(met: Reals) -> NDArray[np.int64]:
    """Return a group number for each candidate, shared by those that a chain of meetings links."""
    linked = (met + met.T > 0.0) | np.eye(len(met), dtype=bool)
    group = np.full(len(met), -1, dtype=np.int64)
    for i in range(len(met)):
        if group[i] < 0:
            reached = linked[i]
            while (more := linked[reached].any(axis=0)).sum() > reached.sum():
                reached = more
            group[reached] = i
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def coverage(met: Reals) -> float:
    """Return how equally any two candidates met the same rivals; 1 if all met equally often.

    For two candidates, take the share of each one's sessions that was against a given rival, and
    add up the smaller of the two shares over all rivals; the two candidates themselves count as one
    common rival. The result is the minimum over all pairs.
    """
    total = met.sum(axis=1)
    judged = np.flatnonzero(total > 0.0)
    part = met[np.ix_(judged, judged)] / total[judged, None]
    least = 1.0
    for i, own in enumerate(part):
        alike = np.minimum(own, part).sum(axis=1)  # a candidate is not its own rival: zero there
        alike += np.minimum(own, part[:, i])
        least = min(least, float(np.delete(alike, i).min(initial=1.0)))
    return least


def _check_wins(wins: Reals) -> Reals:
    """Return the counts after checking them, with virtual ties added if a prior is needed."""
    counts = np.asarray(wins, dtype=np.float64)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise UsageError("wins are not a square matrix.", hint="Give wins[winner, loser].")
    if not np.isfinite(counts).all() or (counts < 0).any() or counts.diagonal().any():
        raise UsageError(
            "wins contain a negative or infinite count, or a candidate against itself.",
            hint="Give finite counts with zeros on the diagonal.",
        )
    if not needs_prior(counts):
        return counts
    n = len(counts)
    return counts + VIRTUAL_TIES / 2 / (n - 1) * (1 - np.eye(n))


def _reaches_all(edges: NDArray[np.bool_]) -> bool:
    """Return whether the edges lead from the first candidate to every other."""
    reached = np.zeros(len(edges), dtype=bool)
    reached[0] = True
    frontier = reached.copy()
    while frontier.any():
        frontier = edges[frontier].any(axis=0) & ~reached
        reached |= frontier
    return bool(reached.all())


def _newton_step(counts: Reals, logs: Reals) -> Reals:
    """Return the full Newton step, which does not change the mean."""
    lose = _chance_to_lose(logs)
    # Wins are weighted by how unexpected they were. This avoids a difference of large counts, in
    # which one upset among a billion wins would be lost to rounding.
    surprise = counts * lose
    gradient = surprise.sum(axis=1) - surprise.sum(axis=0)
    information = _information(counts, lose)
    return _centre(np.linalg.solve(information + _anchor(information), gradient))


def _centre(values: Reals) -> Reals:
    return values - values.mean()


def _chance_to_lose(logs: Reals) -> Reals:
    """Return P(row loses to column), precise for probabilities close to 0 and to 1."""
    gap = logs[None, :] - logs[:, None]
    small = np.exp(-np.abs(gap))
    return np.where(gap >= 0, 1.0, small) / (1 + small)


def _information(counts: Reals, lose: Reals) -> Reals:
    """Return the negative Hessian: a graph Laplacian, zero if all strengths shift equally."""
    weights = (counts + counts.T) * lose * lose.T
    return np.diag(weights.sum(axis=1)) - weights


def _anchor(information: Reals) -> float:
    """Return a constant to add to every entry, which makes the singular matrix invertible."""
    return float(np.trace(information)) / len(information) ** 2
