"""A judge's drift on anchors: an alarm that is valid after every check.

Anchors are ballots that a judge marks again and again. A look is the marking of one anchor in one
check. A judge that has not changed follows this model: the looks at one anchor are exchangeable
(any order of them is equally likely), looks at different anchors are independent, and the mean
marks of all checks lie within HEALTHY points of each other. Nothing is assumed about the noise.

To test whether a judge changed m checks ago, its last m looks at an anchor are compared with the
earlier ones by a statistic T of two kinds: the difference of their mean marks (up, down), and the
distance between their patterns, where the pattern of a look is each answer's marks in all
dimensions minus the ballot's mean mark. The n looks are placed on a circle and rotated. If the
judge has not changed, each of the n rotations is as likely as the observed one, so that

    E = exp(λ·T(observed)) / mean over rotations of exp(λ·T(rotation))

has the mean 1 for every λ. The E of different anchors are multiplied, and the products are averaged
over statistics, λ and m. This average is an e-value: it reaches c with a probability of at most
1/c. With c = checks × judges / α, the probability of any false alarm in HORIZON checks (a year of
daily ones) is at most α, even if the e-values of different checks depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from peerage.stats.clusters import quotient

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RATES = (0.5, 1.0, 2.0, 4.0)  # λ, per point of mean mark; squared distances are multiplied by λ/2
HEALTHY = 0.1  # points by which the mean marks of two checks may differ
MIN_LOOKS = 60  # in a baseline, over all anchors
MIN_REPEATS = 3  # looks in a baseline at one anchor; anchors with fewer do not count
MAX_EARLIER = 12  # how many of the first looks at an anchor the later ones are compared with
SPANS = {1: 0.4, 2: 0.2, 4: 0.2, 8: 0.2}  # number of checks since the change: its weight
ALPHA = 0.05
HORIZON = 365  # checks within which the probability of any false alarm is at most ALPHA
STREAMS = {  # the sign of the difference of means (0: not used), and whether the pattern is used
    "up": (1.0, False),
    "down": (-1.0, False),
    "pattern": (0.0, True),
    "up and pattern": (1.0, True),
    "down and pattern": (-1.0, True),
}
MAX_LOG = 600.0  # the limit of a log e-value, so that its exponential stays finite
BLOCK = 64  # how many checks are computed at once


@dataclass(frozen=True, slots=True)
class Alarm:
    """A change of a judge: the check that detected it, and the first check after the change."""

    check: int
    since: int
    kind: str  # a key of STREAMS
    shift: float  # of the mean mark since the change, against the baseline, in points
    evidence: float  # as a multiple of the threshold: at least 1


def count_baseline(looks: Floats) -> int | None:
    """Return the number of looks in a baseline; None if they are too few for one.

    The marks are an array of checks × anchors × answers × parts: part 0 is the overall mark, the
    others are the dimensions. NaN stands for a missing mark.
    """
    per_anchor = np.isfinite(looks[..., 0]).any(axis=2).sum(axis=0)
    n_looks = int(per_anchor[per_anchor >= MIN_REPEATS].sum())
    return n_looks if n_looks >= MIN_LOOKS else None


def level_shifts(check: Floats, baseline: Floats) -> Floats:
    """Return each anchor's mean mark in one check minus its mean in the baseline."""
    shifts = _mean(check[..., 0] - _mean(baseline[..., 0], 0), 1)
    return shifts[np.isfinite(shifts)]


def _mean(values: Floats, axis: int) -> Floats:
    """Return means that ignore NaN; NaN if there are no values."""
    known = np.isfinite(values)
    n = known.sum(axis=axis)
    total: Floats = np.where(known, values, 0.0).sum(axis=axis)
    return quotient(total, n)


def find_change(
    checks: Sequence[Floats], n_baseline: int, n_judges: int = 1
) -> tuple[Alarm | None, list[float]]:
    """Return the first alarm after the baseline checks, or None, and the evidence after each check.

    A check is an array of marks, anchors × answers × parts. Evidence is a multiple of the
    threshold; if several judges are tested, they share ALPHA.
    """
    looks = np.stack(checks)
    threshold = HORIZON * n_judges / ALPHA
    evidence: list[float] = []
    for start in range(n_baseline, len(looks), BLOCK):
        block = np.arange(start, min(start + BLOCK, len(looks)))
        values = _evidence_by_span(looks, block, n_baseline) / threshold
        total = values.mean(axis=(2, 3)).sum(axis=0)
        alarms = np.flatnonzero(total >= 1.0)
        if len(alarms) == 0:
            evidence += total.tolist()
            continue
        at = int(alarms[0])
        evidence += total[: at + 1].tolist()
        span, stream, _ = np.unravel_index(values[:, at].argmax(), values[:, at].shape)
        check = int(block[at])
        since = check + 1 - tuple(SPANS)[span]
        shifts = [level_shifts(one, looks[:n_baseline]) for one in looks[since : check + 1]]
        shift = float(np.concatenate(shifts).mean())
        return Alarm(check, since, tuple(STREAMS)[stream], shift, evidence[-1]), evidence
    return None, evidence


def _evidence_by_span(looks: Floats, checks: Ints, n_baseline: int) -> Floats:
    """Return e-values times the weights of their spans (spans × checks × streams × rates)."""
    values = np.zeros((len(SPANS), len(checks), len(STREAMS), len(RATES)))
    for place, (span, weight) in enumerate(SPANS.items()):
        some = checks + 1 - span >= n_baseline
        logs = log_evidence(looks, checks[some], span)
        values[place, some] = weight * np.exp(np.minimum(logs, MAX_LOG))
    return values


def log_evidence(looks: Floats, checks: Ints, span: int) -> Floats:
    """Return log e-values for a change `span` checks ago, by check, stream and betting rate.

    The last looks at an anchor are compared with its first ones (at most MAX_EARLIER), so that a
    slow drift adds up.
    """
    there = np.isfinite(looks[..., 0]).any(axis=2)
    first = np.argsort(~there, axis=0, kind="stable")[:MAX_EARLIER]
    n_before = np.concatenate([np.zeros((1, there.shape[1]), int), np.cumsum(there, axis=0)])
    start = checks + 1 - span
    are_there = n_before[checks + 1] - n_before[start] == span
    n_earlier = np.where(are_there, np.minimum(n_before[start], MAX_EARLIER), 0)
    total = np.zeros((len(checks), len(STREAMS), len(RATES)))
    for n in np.unique(n_earlier[n_earlier > 0]).tolist():
        at, anchors = np.nonzero(n_earlier == n)
        places = np.concatenate([first[:n, anchors], start[at] + np.arange(span)[:, None]])
        np.add.at(total, at, _log_turns(looks[places, anchors], span))
    return total


def _log_turns(looks: Floats, span: int) -> Floats:
    """Return the log of E (anchors × streams × rates)."""
    n, n_anchors = looks.shape[:2]
    gaps = looks - _mean(looks, 0)
    level = _mean(gaps[..., 0], 2)
    rest = (gaps - level[:, :, None, None]).reshape(n, n_anchors, -1)
    known = np.isfinite(rest)
    size = known.any(axis=0).sum(axis=1)
    by_anchor = np.where(known, rest, 0.0).swapaxes(0, 1)
    by_anchor = by_anchor / np.sqrt(np.maximum(size, 1))[:, None, None]
    turns = _turns(n, span)
    means = level.T @ turns.T
    distances = ((turns @ by_anchor) ** 2).sum(axis=2)
    healthy = HEALTHY * turns[:, -span:].sum(axis=1)
    logs = np.empty((n_anchors, len(STREAMS), len(RATES)))
    for i, (sign, has_pattern) in enumerate(STREAMS.values()):
        for j, rate in enumerate(RATES):
            powers = sign * means - abs(sign) * healthy
            powers = (powers + distances / 2.0) if has_pattern else powers
            powers = powers * (rate * span * (n - span) / n)
            powers -= powers[:, :1]
            top = powers.max(axis=1)
            mean = np.exp(powers - top[:, None]).mean(axis=1)
            logs[:, i, j] = -np.log(mean) - top
    return logs


@lru_cache(maxsize=256)
def _turns(n: int, span: int) -> Floats:
    """Return a weight for each look in each rotation (rotations × looks).

    In the first rotation, which is the observed one, the last `span` looks have 1/span and the
    others −1/(n − span), so that a weighted sum is a difference of means. The last looks are spread
    over the circle, so that other rotations share few of them.
    """
    places = [0]
    while len(places) < span:
        free = [place for place in range(n) if place not in places]
        places.append(min(free, key=lambda place: (*_overlaps({*places, place}, n), place)))
    order = [place for place in range(n) if place not in places] + places
    look_at = {place: look for look, place in enumerate(order)}
    turns = np.full((n, n), -1.0 / (n - span))
    for turn in range(n):
        turns[turn, [look_at[(place + turn) % n] for place in places]] = 1.0 / span
    return turns


def _overlaps(places: set[int], n: int) -> tuple[int, int]:
    """Return the largest overlap of places with a rotation of them, and the sum of squared ones."""
    shared = [len(places & {(place + turn) % n for place in places}) for turn in range(1, n)]
    return max(shared), sum(one**2 for one in shared)
