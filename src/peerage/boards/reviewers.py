"""Reviewers: how well their opinions go with what the others think of the same items.

Pearson's r between a reviewer's opinions and the leave-one-out consensus, from sums: the
consensus without one voice is the item's sums less that voice, so no pair of reviewers is
ever compared and the cost is that of a few counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerage.boards import Board, board
from peerage.boards.items import ItemSums
from peerage.boards.opinions import (
    SAME,
    Bools,
    Coefficients,
    Community,
    Floats,
    Ints,
    pair_keys,
    ranked,
)
from peerage.stats import correlations_from_sums, normal_critical

N_FOR_CONSENSUS = 3  # distinct opinions on an item, so at least two are by others
BANDS = ((0.7, "excellent"), (0.3, "good"), (0.0, "fair"))  # r at least -> band
BELOW = "poor"
ROUNDING = 1e-13
RANKED, TOO_FEW, UNDEFINED = "ranked", "too_few", "undefined"


@dataclass(frozen=True, slots=True)
class Alignment:
    """Everyone's agreement with the others, by person; NaN where r or a rate is undefined."""

    r: Floats
    low: Floats
    high: Floats
    agreement: Floats
    n_qualifying: Ints
    n_reviews: Ints


def alignment(
    community: Community, sums: ItemSums, weights: Floats | None, coefficients: Coefficients
) -> Alignment:
    """Every reviewer's correlation with the leave-one-out consensus, with its interval.

    The consensus is weighted as qualities are; a reviewer's own items on the list all count
    alike. The agreement rate is the share of items on which the others lean to the
    reviewer's side of the scale's middle; where they lean to neither it says nothing.
    """
    n_min = max(coefficients.min_reviews_for_quality, N_FOR_CONSENSUS)
    rows = np.flatnonzero(sums.n[community.item] >= n_min)
    if weights is not None:
        return _aligned(community, *_weighted_others(community, sums, weights, rows))
    voices = community if len(rows) == community.n else community.kept(rows)
    return _aligned(community, voices, _others(voices, sums))


def _weighted_others(
    community: Community, sums: ItemSums, weights: Floats, rows: Ints
) -> tuple[Community, Floats]:
    """The opinions whose items others have weight on, and the consensus of those others."""
    total = sums.weight[community.item[rows]]
    rest = total - weights[rows]
    heard = rest > SAME * total  # less is what subtraction leaves of nothing
    voices, rest, own = community.kept(rows[heard]), rest[heard], weights[rows[heard]]
    return voices, (sums.total[voices.item] - own * voices.value) / rest


def _others(voices: Community, sums: ItemSums) -> Floats:
    """The consensus on each opinion's item, without that opinion.

    An item and a level make a consensus: a small table, looked up once an opinion.
    """
    scale = np.asarray(voices.scale)
    table = (sums.total[:, None] - scale) / np.maximum(sums.n - 1, 1)[:, None]
    cells = voices.item.astype(np.int64)
    cells *= len(scale)
    cells += voices.level
    consensus: Floats = table.ravel()[cells]
    return consensus


def literal_alignment(community: Community, sums: ItemSums) -> Alignment:
    """The same as the published scoring code has it: own items and repeats count.

    An item needs three opinions of any kind, the consensus leaves out all of this
    reviewer's words on it, and needs two others; each repeat is one more point.
    """
    keys = pair_keys(community)
    _, pair = np.unique(keys, return_inverse=True)
    said = np.bincount(pair)[pair]
    summed = np.bincount(pair, weights=community.value)[pair]
    others = sums.n[community.item] - said
    rows = np.flatnonzero((sums.n[community.item] >= N_FOR_CONSENSUS) & (others >= 2))
    consensus = (sums.total[community.item] - summed)[rows] / others[rows]
    return _aligned(community, community.kept(rows), consensus)


def _aligned(community: Community, voices: Community, consensus: Floats) -> Alignment:
    n_people, n_levels = community.n_people, len(voices.scale)
    scale = np.asarray(voices.scale)
    cells = voices.reviewer.astype(np.int64)
    cells *= n_levels
    cells += voices.level
    size = n_people * n_levels
    counts = np.bincount(cells, minlength=size).reshape(-1, n_levels)
    ys = np.bincount(cells, weights=consensus, minlength=size).reshape(-1, n_levels)
    yy = np.bincount(voices.reviewer, weights=consensus * consensus, minlength=n_people)
    n = counts.sum(axis=1)
    totals = np.column_stack(
        (n, counts @ scale, ys.sum(axis=1), counts @ (scale * scale), yy, ys @ scale)
    )
    r = _snapped(correlations_from_sums(totals))
    low, high = fisher_intervals(r, n)
    return Alignment(
        r,
        low,
        high,
        _agreement(voices, consensus, cells, n_people),
        n,
        np.bincount(community.reviewer, minlength=n_people),
    )


def _snapped(r: Floats) -> Floats:
    """Correlations without the roundings that would put a perfect one or a nil one off its edge."""
    marks = np.array([-1.0, *sorted(edge for edge, _ in BANDS), 1.0])
    nearest = marks[np.abs(r[:, None] - marks).argmin(axis=1)]
    snapped: Floats = np.where(np.abs(r - nearest) < ROUNDING, nearest, r)
    return snapped


def _agreement(voices: Community, consensus: Floats, cells: Ints, n_people: int) -> Floats:
    """By person: of the items on which the others lean, the share on which they lean alike."""
    n_levels = len(voices.scale)
    middle = voices.middle
    lean = np.sign(consensus - middle).astype(np.int8)
    sides = np.sign(np.asarray(voices.scale) - middle).astype(np.int8)
    # Consensus above, at or below the middle, by person and level: one count tells it all.
    size = n_people * n_levels
    leans = np.bincount(cells * 3 + (lean + 1), minlength=3 * size).reshape(-1, n_levels, 3)
    decided = leans[:, :, 0].sum(axis=1) + leans[:, :, 2].sum(axis=1)
    alike = sum(leans[:, level, side + 1] for level, side in enumerate(sides.tolist()) if side != 0)
    rate: Floats = np.where(decided > 0, alike, np.nan) / np.maximum(decided, 1)
    return rate


def fisher_intervals(r: Floats, n: Ints, level: float = 0.95) -> tuple[Floats, Floats]:
    """Fisher's interval of many correlations; NaN for too few points or |r| = 1."""
    known = (n >= 4) & (np.abs(r) < 1.0)
    z = np.arctanh(np.where(known, r, 0.0))
    half = normal_critical(level) / np.sqrt(np.where(known, n - 3, 1))
    low: Floats = np.where(known, np.tanh(z - half), np.nan)
    high: Floats = np.where(known, np.tanh(z + half), np.nan)
    return low, high


def band(r: float) -> str:
    """The band of a score, lower edges inclusive."""
    return next((name for edge, name in BANDS if r >= edge), BELOW)


@board("reviewers")
def reviewers(
    community: Community,
    aligned: Alignment,
    coefficients: Coefficients,
    reputation: Floats | None = None,
    *,
    everyone: bool = False,
    only_registered: bool = False,
) -> Board:
    """The reviewers, the best aligned first; those with too few items only where asked for.

    A reviewer whose opinions or whose items' consensus never vary scores 0 with the status
    `undefined` and no band: nothing is known of them, not that they are fair.
    """
    shown: Bools = aligned.n_qualifying >= coefficients.min_reviews_required
    listed: Bools = aligned.n_reviews > 0 if everyone else shown
    if only_registered and community.registered is not None:
        shown, listed = shown & community.registered, listed & community.registered
    undefined = np.isnan(aligned.r)
    score = np.where(undefined, 0.0, aligned.r)
    order, rank = ranked(score, among=shown)
    order = order[listed[order]]
    r = np.where(shown, score, aligned.r)[order]
    status = np.where(~shown, TOO_FEW, np.where(undefined, UNDEFINED, RANKED))[order]
    weight = np.ones(community.n_people) if reputation is None else reputation
    return Board(
        "reviewers",
        {
            "reviewer": community.people[order],
            "rank": [place or None for place in rank[order].tolist()],
            "pearson": r,
            "low": aligned.low[order],
            "high": aligned.high[order],
            "status": status,
            "band": _bands(r, status == RANKED),
            "agreement": aligned.agreement[order],
            "qualifying": aligned.n_qualifying[order],
            "reviews": aligned.n_reviews[order],
            "reputation": weight[order],
        },
    )


def _bands(r: Floats, known: Bools) -> list[str | None]:
    edges = np.array([edge for edge, _ in reversed(BANDS)])
    names = [BELOW, *(name for _, name in reversed(BANDS))]
    places = np.searchsorted(edges, np.where(known, r, 0.0), side="right")
    return [names[i] if ok else None for i, ok in zip(places, known.tolist(), strict=True)]
