"""Reviewers: how well their opinions go with what the others think of the same items.

Pearson's r between a reviewer's opinions and the leave-one-out consensus, from sums: the
consensus without one voice is the item's sums less that voice, so no pair of reviewers is
ever compared and the cost is that of a few counts.
"""

from __future__ import annotations

from collections.abc import Callable
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
    cells_of,
    pair_keys,
    ranked,
    strides,
)
from peerage.stats.correlations import correlations_from_sums
from peerage.stats.tails import normal_critical

N_FOR_CONSENSUS = 3  # distinct opinions on an item, so at least two are by others
BANDS = ((0.7, "excellent"), (0.3, "good"), (0.0, "fair"))  # r at least -> band
WORST = "poor"
ROUNDING = 1e-13
RANKED, TOO_FEW, UNDEFINED = "ranked", "too_few", "undefined"
BELOW, AT, ABOVE, UNHEARD = range(4)  # where the others are, of the middle; or too few of them
N_SIDES = 4

Others = Callable[[slice], tuple[Floats, Ints]]  # of some rows: their consensus and its side


@dataclass(frozen=True, slots=True)
class VoiceSums:
    """By person, plain sums over their opinions; they add up over blocks of whole items."""

    sides: Ints  # by person, level and side: how many opinions
    ys: Floats  # by person and level: Σ of the others' consensus
    yys: Floats  # by person: Σ of its squares


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
    return aligned(voice_sums(community, sums, weights, coefficients), community.scale)


def voice_sums(
    community: Community, sums: ItemSums, weights: Floats | None, coefficients: Coefficients
) -> VoiceSums:
    """What a correlation with the leave-one-out consensus takes, by person."""
    n_min = max(coefficients.min_reviews_for_quality, N_FOR_CONSENSUS)
    if weights is None:
        return _summed(community, _equal_others(community, sums, n_min))

    def others(rows: slice) -> tuple[Floats, Ints]:
        voices = community.kept(rows)
        total, own = sums.weight[voices.item], weights[rows]
        rest = total - own
        # Less is what subtraction leaves of nothing.
        heard = (sums.n[voices.item] >= n_min) & (rest > SAME * total)
        apart = sums.total[voices.item] - own * voices.value
        return _sided(apart / np.where(heard, rest, 1.0), heard, community.middle)

    return _summed(community, others)


def _equal_others(community: Community, sums: ItemSums, n_min: int) -> Others:
    """The others where everyone weighs the same.

    An item and a level make a consensus: a small table, looked up once an opinion.
    """
    scale = np.asarray(community.scale)
    apart = (sums.total[:, None] - scale) / np.maximum(sums.n - 1, 1)[:, None]
    heard = np.broadcast_to((sums.n >= n_min)[:, None], apart.shape)
    consensus, side = _sided(apart, heard, community.middle)

    def others(rows: slice) -> tuple[Floats, Ints]:
        cells = cells_of(community.item[rows], community.level[rows], len(scale))
        return consensus.ravel()[cells], side.ravel()[cells]

    return others


def literal_alignment(community: Community, sums: ItemSums) -> Alignment:
    """The same as the published scoring code has it: own items and repeats count."""
    return aligned(literal_voice_sums(community, sums), community.scale)


def literal_voice_sums(community: Community, sums: ItemSums) -> VoiceSums:
    """The sums of the published scoring code.

    An item needs three opinions of any kind, the consensus leaves out all of this
    reviewer's words on it, and needs two others; each repeat is one more point.
    """
    _, pair = np.unique(pair_keys(community), return_inverse=True)
    said = np.bincount(pair)[pair]
    summed = np.bincount(pair, weights=community.value)[pair]
    n_others = sums.n[community.item] - said
    heard = (sums.n[community.item] >= N_FOR_CONSENSUS) & (n_others >= 2)
    apart = (sums.total[community.item] - summed) / np.where(heard, n_others, 1)
    consensus, side = _sided(apart, heard, community.middle)
    return _summed(community, lambda rows: (consensus[rows], side[rows]))


def _sided(consensus: Floats, heard: Bools, middle: float) -> tuple[Floats, Ints]:
    """The consensus, 0 where it is not heard, and its side of the middle."""
    side = np.where(heard, np.sign(consensus - middle).astype(np.int8) + AT, UNHEARD)
    return np.where(heard, consensus, 0.0), side


def _summed(community: Community, others: Others) -> VoiceSums:
    n_people, n_levels = community.n_people, len(community.scale)
    size = n_people * n_levels
    sides, ys, yys = np.zeros(size * N_SIDES, dtype=np.int64), np.zeros(size), np.zeros(n_people)
    for rows in strides(community.n, len(sides)):
        consensus, side = others(rows)
        reviewer = community.reviewer[rows]
        cells = cells_of(reviewer, community.level[rows], n_levels)
        ys += np.bincount(cells, weights=consensus, minlength=size)
        yys += np.bincount(reviewer, weights=consensus * consensus, minlength=n_people)
        sides += np.bincount(cells_of(cells, side, N_SIDES), minlength=len(sides))
    return VoiceSums(sides.reshape(-1, n_levels, N_SIDES), ys.reshape(-1, n_levels), yys)


def aligned(said: VoiceSums, scale: tuple[float, ...]) -> Alignment:
    """From sums to correlations, intervals and rates."""
    levels = np.asarray(scale)
    counts = said.sides[:, :, :UNHEARD].sum(axis=2)
    n = counts.sum(axis=1)
    moments = (n, counts @ levels, said.ys.sum(axis=1), counts @ levels**2, said.yys)
    r = _snapped(correlations_from_sums(np.column_stack((*moments, said.ys @ levels))))
    low, high = fisher_intervals(r, n)
    return Alignment(r, low, high, _agreement(said, levels), n, said.sides.sum(axis=(1, 2)))


def _snapped(r: Floats) -> Floats:
    """Correlations without the roundings that would put a perfect one or a nil one off its edge."""
    marks = np.array([-1.0, *sorted(edge for edge, _ in BANDS), 1.0])
    nearest = marks[np.abs(r[:, None] - marks).argmin(axis=1)]
    snapped: Floats = np.where(np.abs(r - nearest) < ROUNDING, nearest, r)
    return snapped


def _agreement(said: VoiceSums, levels: Floats) -> Floats:
    """By person: of the items on which the others lean, the share on which they lean alike."""
    own = np.sign(levels - (levels[0] + levels[-1]) / 2.0).astype(np.int8) + AT
    decided = (said.sides[:, :, BELOW] + said.sides[:, :, ABOVE]).sum(axis=1)
    alike = sum(said.sides[:, level, side] for level, side in enumerate(own) if side != AT)
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
    return next((name for edge, name in BANDS if r >= edge), WORST)


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
    names = [WORST, *(name for _, name in reversed(BANDS))]
    places = np.searchsorted(edges, np.where(known, r, 0.0), side="right")
    return [names[i] if ok else None for i, ok in zip(places, known.tolist(), strict=True)]
