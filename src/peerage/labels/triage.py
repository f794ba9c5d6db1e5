"""Which verdicts may ship without a person: those that are sure enough for a promised error.

The most confident verdicts ship. The threshold is the lowest one for which labels show that the
error is at most the promised one, tried from the most confident verdicts on. Measured: the error
was above the promise in 0 to 6% of batches, where 10% are allowed.
"""

from __future__ import annotations

import math

import numpy as np

from peerage.findings import Bounded, Ship
from peerage.labels.judged import Judged
from peerage.labels.rates import effective, rate
from peerage.reviews.cells import Bools, Floats
from peerage.stats.corrected_means import N_FOLDS
from peerage.stats.tails import beta_quantile

SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)  # of all verdicts, that a threshold may ship
RISK = 0.1  # how often the error may be above the promised one


def ship(judged: Judged, error: float) -> Ship:
    """Return the threshold of confidence from which verdicts may ship with at most this error."""
    known = np.isfinite(judged.by_judge)
    threshold = _threshold(judged, judged.labelled, error)
    if threshold is None:
        return Ship(None, 0.0, error, None, int(judged.labelled.sum()))
    shipped = known & (judged.confidence >= threshold)
    share = float(shipped.sum() / known.sum())
    return Ship(threshold, share, error, _held_out(judged, error), int(judged.labelled.sum()))


def _threshold(judged: Judged, labelled: Bools, error: float) -> float | None:
    """Return the lowest threshold that these labels allow; None if they allow none."""
    wrong = (judged.by_judge != judged.by_people).astype(np.float64)
    fewest = math.log(RISK) / math.log1p(-error)
    allowed = None
    for threshold in _thresholds(judged.confidence[np.isfinite(judged.by_judge)]):
        some = labelled & (judged.confidence >= threshold)
        if some.sum() < fewest:
            continue
        share, n = effective(wrong[some], judged.group[some])
        k = share * n
        if k >= n or beta_quantile(1.0 - RISK, k + 1.0, n - k) > error:
            break
        allowed = threshold
    return allowed


def _thresholds(confidence: Floats) -> list[float]:
    """Return the thresholds that ship certain shares of all verdicts, the highest first."""
    order = np.sort(confidence)[::-1]
    n = len(order)
    places = [max(1, math.ceil(share * n)) - 1 for share in SHARES]
    return list(dict.fromkeys(float(order[place]) for place in places))


def _held_out(judged: Judged, error: float) -> Bounded | None:
    """Return the error of verdicts that thresholds from the other folds of labels would ship."""
    labelled, fold = judged.labelled, judged.fold % N_FOLDS
    shipped = np.zeros(len(labelled), dtype=bool)
    for k in range(N_FOLDS):
        threshold = _threshold(judged, labelled & (fold != k), error)
        if threshold is not None:
            shipped |= labelled & (fold == k) & (judged.confidence >= threshold)
    return rate((judged.by_judge != judged.by_people)[shipped], judged.group[shipped])
