"""A judge's drift on anchors: an alarm that may be looked at after every check.

Anchors are answers that a judge marks again and again. A look is one anchor session in one check:
x is the judge's mean mark there less its baseline, and d how far the pattern of marks is from the
baseline's. Both are drawn in to ±BOUND, so that (x − ε)/(BOUND + ε) is at least −1 and bets on it
do not grow on average while |drift| ≤ ε. A judge changes between checks, so each
check may be the first after a change. With E_k the product of the bets of check k,

    R_k = (1 + R_{k−1})·E_k,  R_0 = 0,  alarm where the mean of R over bets and signs ≥ T/α

(Shiryaev and Roberts). The expected R after k checks is at most k, so the chance of an alarm
within T checks without a drift is at most α, however often one looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Fewer and larger bets than a gate has: an alarm is to come within the 30 looks of one check.
BETS = (0.08, 0.3, 0.6, 0.95)
BOUND = 1.0  # points of the mean mark of a session; larger deviations count as this
HEALTHY = 0.1  # points of drift that are no matter
MIN_LOOKS = 60  # anchors times looks of the baseline
MIN_REPEATS = 3  # looks of the baseline at each anchor
ALPHA = 0.05
HORIZON = 365  # checks within which a false alarm has the probability ALPHA
STREAMS = ("up", "down", "pattern")


@dataclass(frozen=True, slots=True)
class AnchorBaseline:
    """The first reviews of the anchors by a judge, and how much they varied."""

    level: Floats  # mean mark by anchor and answer; NaN for none
    distance: float  # of a look's pattern from that of the others, on average
    healthy: float  # drift within this is not told apart from the baseline's own error
    n_looks: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """A change that was found: after which check, and since which it lasts."""

    check: int
    since: int
    kind: str  # of STREAMS
    shift: float  # of the mean mark since then, in points
    evidence: float  # R as a multiple of the threshold


def take_baseline(looks: Floats) -> AnchorBaseline | None:
    """Return the baseline of looks × anchors × answers (NaN for none), or None if too few.

    The error of its level is σ/√looks; where twice that is more than HEALTHY, it is the healthy
    drift instead, since a judge is held against its baseline and not against the truth.
    """
    per_anchor = np.isfinite(looks).any(axis=2).sum(axis=0)
    used = per_anchor >= MIN_REPEATS
    n_looks = int(per_anchor[used].sum())
    if n_looks < MIN_LOOKS:
        return None
    counted_looks = np.where(used[None, :, None], looks, np.nan)
    level = _mean(counted_looks, 0)
    shifts = _mean(counted_looks - level, 2)
    n = np.isfinite(shifts).sum()
    variance = float(np.nansum(shifts**2)) / max(1, int(n - used.sum()))
    known = np.isfinite(counted_looks)
    total, count = np.where(known, counted_looks, 0.0).sum(axis=0), known.sum(axis=0)
    distances = []
    for one, there in zip(counted_looks, known, strict=True):
        own = np.where(there, one, 0.0)
        others = (total - own) / np.where(count > 1, count - 1, np.nan)
        distances.append(_distance(one - others))
    healthy = max(HEALTHY, 2.0 * (variance / n_looks) ** 0.5)
    return AnchorBaseline(level, float(np.nanmean(np.concatenate(distances))), healthy, n_looks)


def _mean(values: Floats, axis: int) -> Floats:
    """Return means without NaN; NaN where there is nothing."""
    known = np.isfinite(values)
    n = known.sum(axis=axis)
    total: Floats = np.where(known, values, 0.0).sum(axis=axis)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def _distance(gaps: Floats) -> Floats:
    """Return the mean absolute gap of each anchor's answers, its own shift taken off."""
    return _mean(np.abs(gaps - _mean(gaps, 1)[:, None]), 1)


def check_shifts(looks: Floats, baseline: AnchorBaseline) -> tuple[Floats, Floats]:
    """Return shifts and pattern distances of one check's looks (anchors × answers)."""
    gaps = looks - baseline.level
    shift, distance = _mean(gaps, 1), _distance(gaps) - baseline.distance
    return shift[np.isfinite(shift)], distance[np.isfinite(distance)]


def find_change(
    checks: Sequence[Floats], baseline: AnchorBaseline, n_judges: int = 1, horizon: int = HORIZON
) -> tuple[Alarm | None, list[float]]:
    """Return the first alarm in a sequence of checks, or None, and the evidence after each check.

    The evidence is R as a multiple of the threshold; several judges share ALPHA.
    """
    bets = np.array(BETS)
    threshold = horizon * n_judges / ALPHA
    wealth = np.zeros((len(STREAMS), len(bets)))
    logs: list[Floats] = []
    evidence: list[float] = []
    for k, looks in enumerate(checks):
        shift, distance = check_shifts(looks, baseline)
        growth = np.stack(
            [
                _log_growth(sign * values, epsilon, bets)
                for sign, values, epsilon in (
                    (1.0, shift, baseline.healthy),
                    (-1.0, shift, baseline.healthy),
                    (1.0, distance, HEALTHY),
                )
            ]
        )
        logs.append(growth)
        wealth = (1.0 + wealth) * np.exp(np.minimum(growth, 600.0))
        evidence.append(float(wealth.mean()) / threshold)
        if evidence[-1] >= 1.0:
            stream, bet = np.unravel_index(int(wealth.argmax()), wealth.shape)
            after = np.cumsum([one[stream, bet] for one in reversed(logs)])
            since = k - int(after.argmax())
            shifts = [check_shifts(one, baseline)[0] for one in checks[since : k + 1]]
            mean = float(np.concatenate(shifts).mean())
            return Alarm(k, since, STREAMS[int(stream)], mean, evidence[-1]), evidence
    return None, evidence


def _log_growth(values: Floats, epsilon: float, bets: Floats) -> Floats:
    """Return the logarithm of what each bet makes of the looks of one check."""
    z = (np.clip(values, -BOUND, BOUND) - epsilon) / (BOUND + epsilon)
    growth: Floats = np.log1p(bets[:, None] * z[None, :]).sum(axis=1)
    return growth
